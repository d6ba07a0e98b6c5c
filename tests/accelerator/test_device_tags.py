"""Device tags: which storage carries them, and what an argument ``device`` stands for."""

from __future__ import annotations

import pytest
from emulated_devices import check_on_devices, refused

torch = pytest.importorskip("torch")


def tags():
    from emu.accelerator.device_tags import assign_device, device_of, emulated_device

    first = torch.device("cuda", 0)
    x = torch.zeros(2, 3)
    assert (device_of(x), emulated_device(x)) == (torch.device("cpu"), None)
    assert assign_device(x, torch.device("cuda")) is x
    for same in (x, x.T, x.detach(), x[1:], torch.nn.Parameter(x)):  # views share their storage
        assert device_of(same) == first
    sparse = assign_device(torch.eye(2).to_sparse(), torch.device("npu", 1))  # has no storage
    assert device_of(sparse) == torch.device("npu", 1)
    assign_device(x, torch.device("cpu"))
    assert emulated_device(x.T) is None
    assert device_of(torch.zeros(1, device="meta")) == torch.device("meta")


def subclasses():
    from emu.accelerator.device_tags import device_of

    class Opaque(torch.Tensor):
        """Answers one function; any other call, of emu's too, is an error."""

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func.__name__ != "add":
                raise TypeError(f"no {func}")
            return "its own"

    class Plain(torch.Tensor):
        pass

    x = torch.zeros(2, device="cuda")
    opaque = Opaque()
    assert x.add(opaque) == torch.add(opaque, x) == "its own"
    refused(lambda: x.mul(opaque), TypeError, "^no ")
    assert device_of(x.as_subclass(Opaque)) == device_of(x.as_subclass(Plain)) == x.device
    host = torch.zeros(2).as_subclass(Plain)
    refused(lambda: x + host, RuntimeError, "found at least two devices")
    assert (x + host[0]).device == x.device  # zero-dimensional ones go with any device


def test_a_class_may_override_all_of_torch() -> None:
    check_on_devices(subclasses)


def arguments():
    from emu.accelerator.device_tags import resolve, set_current_device

    assert resolve("cuda") == torch.device("cuda", 0)
    assert resolve(1) == resolve("cuda:1") == torch.device("cuda", 1)
    assert resolve(torch.device("cpu")) == torch.device("cpu")
    set_current_device("npu", 1)
    assert resolve("npu") == torch.device("npu", 1)
    assert resolve("cuda") == torch.device("cuda", 0)  # each type has a current one
    set_current_device("npu", False)  # a bool counts as 0 or 1
    assert resolve("npu").index == 0
    for wrong in (2, "npu:2", torch.device("cuda", 5)):
        refused(lambda wrong=wrong: resolve(wrong), RuntimeError, r"must be in \[0, 2\), but got")
    refused(lambda: set_current_device("cuda", -1), RuntimeError, "but got -1")
    refused(lambda: resolve("nonsense"), RuntimeError, "device")


def test_views_are_on_the_device_of_their_memory() -> None:
    check_on_devices(tags)


def test_an_argument_stands_for_a_device_with_an_index() -> None:
    check_on_devices(arguments)
