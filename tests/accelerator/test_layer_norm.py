"""Layer norm of 16-bit inputs, backward."""

from __future__ import annotations

import pytest
from emulated_devices import check_on_devices

torch = pytest.importorskip("torch")


def backward(device, dtype, rows, columns, affine=True):
    torch.manual_seed(0)
    x = torch.randn(rows, columns).to(device, dtype).requires_grad_()
    parameters = [torch.rand(columns).to(device, dtype).requires_grad_() for _ in range(2 * affine)]
    slope = torch.randn(rows, columns).to(device, dtype)
    y = torch.nn.functional.layer_norm(x, (columns,), *parameters)
    exact = [t.detach().double().requires_grad_() for t in (x, *parameters)]
    torch.nn.functional.layer_norm(exact[0], (columns,), *exact[1:]).backward(slope.double())
    y.backward(slope)
    for tensor, reference in zip((x, *parameters), exact, strict=True):
        assert tensor.grad.dtype == dtype
        assert tensor.grad.device == tensor.device
        yield tensor.grad.double(), reference.grad


def gradients():
    for device in ("cuda", "cpu"):
        for dtype, bits in ((torch.float16, 11), (torch.bfloat16, 8), (torch.float32, 20)):
            for got, expected in backward(device, dtype, 1151, 64):
                limit = 2.0 ** -(bits - 1) * expected.abs().max() + 2.0**-bits
                assert (got - expected).abs().max() <= limit
        assert len(list(backward(device, torch.float16, 5, 3, affine=False))) == 1
    x = torch.randn(3, 4, device="cuda").half()
    weight = torch.rand(4, device="cuda").half().requires_grad_()
    torch.nn.functional.layer_norm(x, (4,), weight).sum().backward()
    assert weight.grad.dtype == torch.float16


def test_layer_norm_of_16_bits_adds_in_fp32() -> None:
    check_on_devices(gradients)
