"""Layer norm of 16-bit inputs, backward; softmax and NLL loss, forward."""

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


def softmaxes():
    torch.manual_seed(0)
    for device in ("cuda", "cpu"):
        for dtype in (torch.float16, torch.bfloat16):
            for shape, axis in (((64, 1000), -1), ((300, 64), 0), ((8, 16, 33), 1), ((5, 0), 1)):
                x = torch.randn(*shape).to(device, dtype)
                for function in (torch.softmax, torch.log_softmax):
                    got = function(x, axis)
                    assert (got.dtype, got.device) == (dtype, x.device)
                    exact = function(x.double(), axis).to(dtype)
                    differ = (got != exact).sum().item()
                    assert differ <= 0.002 * x.numel()  # fp32 may be next to a tie
        x = torch.tensor([[1.0, float("-inf"), 2.0], [float("nan"), 0.0, 0.0]], device=device)
        got = torch.log_softmax(x.half(), 1)
        assert got[0, 1] == float("-inf")
        assert got[1].isnan().all()
        assert torch.softmax(x, 1, dtype=torch.float64).dtype == torch.float64


def test_softmax_of_16_bits_is_rounded_once() -> None:
    check_on_devices(softmaxes)


def losses():
    torch.manual_seed(0)
    functional = torch.nn.functional
    for device in ("cuda", "cpu"):
        for dtype in (torch.float16, torch.bfloat16):
            for shape in ((4096, 50), (16, 50, 32, 8)):
                x = (torch.randn(*shape) * 3 - 8).to(device, dtype).requires_grad_()
                target = torch.randint(50, (shape[0], *shape[2:]), device=device)
                target.view(-1)[::2] = -100
                weight = torch.rand(50).to(device, dtype)
                for options in ({}, {"weight": weight}, {"reduction": "none"}):
                    got = functional.nll_loss(x, target, **options)
                    assert (got.dtype, got.device) == (dtype, x.device)
                    wide = {n: v.double() if n == "weight" else v for n, v in options.items()}
                    exact = functional.nll_loss(x.double(), target, **wide)
                    torch.testing.assert_close(got.double(), exact, rtol=2.0**-8, atol=0)
                functional.nll_loss(x, target).backward()
                assert x.grad.dtype == dtype
                torch.testing.assert_close(
                    x.grad.double().sum(),
                    torch.tensor(-1.0, device=device).double(),
                    rtol=0.01,
                    atol=0,
                )


def test_losses_of_16_bits_are_added_in_fp32() -> None:
    check_on_devices(losses)
