"""Contexts of a device in functions that ``torch.compile`` traces."""

from __future__ import annotations

import pytest
from emulated_devices import check_on_devices

torch = pytest.importorskip("torch")


def contexts_are_traced():
    def function(x):
        with torch.cuda.device(x.device.index):
            return (
                torch.exp(x * 0) + x * 2
            )  # Dynamo looks up all functions of torch that it treats specially

    x = torch.ones(3, device="cuda:1")
    got = torch.compile(function, backend="eager", fullgraph=True)(x)
    assert got.tolist() == [3.0, 3.0, 3.0]
    assert got.device == x.device
    assert torch.cuda.current_device() == 0


def devices_are_exchanged():
    assert torch.cuda._exchange_device(1) == 0
    assert torch.cuda.current_device() == 1
    assert torch.cuda._maybe_exchange_device(-1) == -1
    assert torch.cuda._exchange_device(0) == 1


def test_a_compiled_function_enters_the_context_of_a_device() -> None:
    check_on_devices(contexts_are_traced)


def test_the_current_device_is_exchanged() -> None:
    check_on_devices(devices_are_exchanged)
