"""Scripts' own operators on emulated devices."""

from __future__ import annotations

import warnings

import pytest
from emulated_devices import check_on_devices, refused

torch = pytest.importorskip("torch")


def custom_operators():
    @torch.library.custom_op("emutests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        assert x.is_cuda
        out = torch.empty(x.shape, device=x.device)
        return out.copy_(x * 2)

    @torch.library.custom_op("emutests::of", mutates_args=(), device_types="cuda")
    def of(x: torch.Tensor) -> torch.Tensor:
        return torch.full_like(x, 1.0)

    x = torch.ones(2, device="cuda")
    assert twice(x).tolist() == [2.0, 2.0]
    assert twice(x).is_cuda
    assert of(x).tolist() == [1.0, 1.0]
    refused(lambda: of(torch.ones(2)), NotImplementedError, "has kernels for cuda")
    of.register_kernel("cpu", lambda x: torch.full_like(x, 2.0))
    assert of(torch.ones(2)).tolist() == [2.0, 2.0]
    assert of(x).tolist() == [1.0, 1.0]
    library = torch.library.Library("emutests", "FRAGMENT")
    library.define("plain(Tensor x) -> Tensor")
    library.impl("plain", lambda x: x + 3, "CUDA")
    assert torch.ops.emutests.plain(x).tolist() == [4.0, 4.0]


def operators_of_torch():
    floats = (torch.ones(3) * 5, torch.ones(()), torch.ones(3).bfloat16(), torch.ones(2).double())
    others = (torch.arange(3), torch.tensor([True]), torch.ones(2, dtype=torch.complex64))
    before = [x * s for x in (*floats, *others) for s in (2, 0.1, True, 1j)]
    library = torch.library.Library("aten", "IMPL")
    warnings.simplefilter("ignore")  # torch warns that a kernel is replaced
    library.impl("mul.Tensor", lambda a, b: torch.full_like(a, 7.0), "CUDA")
    after = [x * s for x in (*floats, *others) for s in (2, 0.1, True, 1j)]
    assert [x.dtype for x in after] == [x.dtype for x in before]
    assert all(torch.equal(x, y) for x, y in zip(after, before, strict=True))
    assert (torch.ones(2, device="cuda") * 2).tolist() == [7.0, 7.0]
    assert (torch.ones(2, device="npu") * 2).tolist() == [2.0, 2.0]


def factories_of_torch():
    library = torch.library.Library("aten", "IMPL")
    warnings.simplefilter("ignore")  # torch warns that a kernel is replaced
    called = []

    def ones(size, *, dtype=None, layout=None, device=None, pin_memory=None):
        called.append(device)
        assert torch.zeros(2).device.type == "cpu"  # a tensor of the host made by the kernel
        return torch.empty(size, dtype=dtype, device=device).fill_(7.0)

    def copied(x, *, dtype=None, device=None, **options):
        called.append(device)
        return torch.full(x.shape, 8.0, dtype=dtype or x.dtype, device=device or x.device)

    library.impl("ones", ones, "CUDA")
    x = torch.ones(2, device="cuda")
    assert x.tolist() == [7.0, 7.0]
    assert x.is_cuda
    with torch.device("cuda:0"):
        assert torch.ones(2).tolist() == [7.0, 7.0]
    assert torch.ones(2).tolist() == [1.0, 1.0]
    assert torch.ones(2, device="npu").tolist() == [1.0, 1.0]
    library.impl("_to_copy", copied, "CUDA")
    half = x.to(torch.float16)
    assert half.tolist() == [8.0, 8.0]
    assert half.is_cuda
    assert torch.zeros(2).to("cuda").tolist() == [0.0, 0.0]  # the source's device chooses
    assert [str(device) for device in called] == ["cuda:0", "cuda:0", "cuda:0"]
    library._destroy()
    assert torch.ones(2, device="cuda").tolist() == [1.0, 1.0]


def libraries_that_end():
    warnings.simplefilter("ignore")  # torch warns that a kernel is replaced
    x = torch.ones(2, device="cuda")

    def negated(value):
        library = torch.library.Library("aten", "IMPL")
        library.impl("neg", lambda a: torch.full_like(a, value), "CUDA")
        return library

    first, second = negated(2.0), negated(3.0)
    assert (-x).tolist() == [3.0, 3.0]
    second._destroy()
    assert (-x).tolist() == [2.0, 2.0]
    first._destroy()
    assert (-x).tolist() == [-1.0, -1.0]
    third = torch.library.Library("aten", "IMPL")
    third.impl("neg", lambda a: torch.full_like(a, 5.0), "PrivateUse1")
    assert (-x).tolist() == [-1.0, -1.0]
    assert (-torch.ones(1, device="npu")).tolist() == [5.0]


def test_kernels_end_with_their_library() -> None:
    check_on_devices(libraries_that_end)


def test_factories_call_the_kernel_of_the_device_that_they_are_given() -> None:
    check_on_devices(factories_of_torch)


def test_a_kernel_for_one_device_leaves_those_of_the_others() -> None:
    check_on_devices(operators_of_torch)


def test_kernels_are_chosen_by_the_device() -> None:
    check_on_devices(custom_operators)
