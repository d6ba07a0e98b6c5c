"""Autocast for an emulated device in compiled functions: what a device computes in fp32 is computed so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, of its compiler


def compare(torch: Any, function: Callable[..., Any]) -> list[Any]:
    """Compare a function of two tensors on a device with itself run eagerly; return the types of the results."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    a, b = torch.randn(8, 24, device="cuda"), torch.randn(24, 16, device="cuda")
    expected = function(a, b)
    found = torch.compile(function, fullgraph=True)(a, b)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)
    return [result.dtype for result in found]


@pytest.mark.slow
def test_a_region_widens_what_a_device_computes_in_fp32(devices: Any) -> None:
    torch = devices

    def function(a: Any, b: Any) -> Any:
        with torch.autocast("cuda", torch.bfloat16):
            product = a @ b
            with torch.autocast("cuda", enabled=False):
                narrow = product.softmax(-1)
            normed = torch.nn.functional.layer_norm(product, (16,))
            return product, torch.softmax(product, -1), product.pow(2), normed, narrow

    half, single = torch.bfloat16, torch.float32
    assert compare(torch, function) == [half, single, single, single, half]


def test_a_region_around_the_call_counts(devices: Any) -> None:
    torch = devices

    def function(a: Any, b: Any) -> Any:
        product = a @ b
        return product, torch.exp(product)

    with torch.autocast("cuda"):
        assert compare(torch, function) == [torch.float16, torch.float32]
    assert compare(torch, function) == [torch.float32, torch.float32]


def test_tensors_of_the_host_keep_the_hosts_rules(devices: Any) -> None:
    torch = devices

    def function(a: Any, b: Any) -> Any:
        with torch.autocast("cuda", torch.bfloat16):
            product = a.cpu() @ b.cpu()
            return product, torch.exp(product)

    assert compare(torch, function) == [torch.bfloat16, torch.bfloat16]
