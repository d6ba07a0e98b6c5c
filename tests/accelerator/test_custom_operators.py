"""Scripts' own operators on emulated devices."""

from __future__ import annotations

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


def test_kernels_are_chosen_by_the_device() -> None:
    check_on_devices(custom_operators)
