"""The Triton back end of bitsandbytes, beside what its kernels mean."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
functional = pytest.importorskip("bitsandbytes.functional")
ops = pytest.importorskip("bitsandbytes.backends.triton.ops")


def blockwise(values, code, size):
    """Return the nearest entries of a code, a scale a block."""
    scales = values.view(-1, size).abs().amax(1)
    scaled = (values.view(-1, size) / scales[:, None]).flatten()
    return code[(scaled[:, None] - code).abs().argmin(1)].view(-1, size) * scales[:, None]


@pytest.mark.parametrize("size", [64, 256, 1024])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_8_bits(size, dtype):
    code = functional.create_dynamic_map().cuda()
    values = torch.randn(4 * size, device="cuda", dtype=dtype)
    codes, scales = ops.quantize_blockwise(values, code, size)
    assert codes.dtype == torch.uint8
    found = ops.dequantize_blockwise(codes, scales, code, size, torch.float32)
    expected = blockwise(values.float(), code, size).view_as(found)
    unlike = (found - expected).abs() > 2e-2 * expected.abs().amax()
    assert not unlike.any()


@pytest.mark.parametrize("kind", ["nf4", "fp4"])
@pytest.mark.parametrize("size", [64, 128, 512])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_4_bits(kind, size, dtype):
    code = functional.get_4bit_type(kind, device="cuda")
    values = torch.randn(8 * size, device="cuda", dtype=dtype)
    packed, scales = ops.quantize_4bit(values, size, kind, torch.uint8)
    assert packed.numel() == values.numel() // 2
    found = ops.dequantize_4bit(packed, scales, size, kind, values.shape, dtype)
    expected = blockwise(values.float(), code, size).flatten()
    gap = code.sort().values.diff().amax() / 2 * scales.amax() + 1e-2
    assert ((found.float() - values.float()).abs() <= gap).all()
    assert ((found.float() - expected).abs() > 1e-2).float().mean() < 0.02  # ties
    row = torch.randn(1, 64, device="cuda", dtype=dtype)
    weight = found.view(-1, 64)
    product = ops.gemv_4bit(row, packed, weight.shape, scales, code, size)
    torch.testing.assert_close(product, row @ weight.t(), rtol=1e-2, atol=1e-2)


SETTINGS = {"beta1": 0.9, "beta2": 0.99, "beta3": 0.0, "alpha": 0.0, "eps": 1e-8, "lr": 0.01}


@pytest.mark.parametrize("name", ["adam", "momentum", "lion", "rmsprop", "adagrad"])
def test_optimizers_of_32_bits(name):
    p, g = (torch.randn(1000, device="cuda") for _ in range(2))
    first, second = torch.zeros_like(p), torch.zeros_like(p) if name == "adam" else None
    before = p.clone()
    ops.optimizer_update_32bit(
        name,
        g,
        p,
        first,
        second,
        None,
        0.0,
        0.0,
        **without("lr"),
        weight_decay=0.0,
        step=1,
        lr=0.01,
        gnorm_scale=1.0,
    )
    step = {
        "adam": g / (g.abs() + 1e-8),
        "momentum": g,
        "lion": (0.1 * g).sign(),
        "rmsprop": g / ((0.1 * g * g).sqrt() + 1e-8),
        "adagrad": g / (g.abs() + 1e-8),
    }[name]
    torch.testing.assert_close(p, before - 0.01 * step, rtol=1e-4, atol=1e-5)


def without(name):
    return {n: v for n, v in SETTINGS.items() if n != name}


@pytest.mark.parametrize("name", ["adam", "momentum"])
def test_optimizers_of_8_bits(name):
    code = functional.create_dynamic_map().cuda()
    p, g = (torch.randn(1024, device="cuda") for _ in range(2))
    before = p.clone()
    states = [
        torch.full((1024,), int(code.abs().argmin()), dtype=torch.uint8, device="cuda")
        for _ in range(2)
    ]
    scales = [torch.zeros(4, device="cuda") for _ in range(2)]
    two = name == "adam"
    ops.optimizer_update_8bit_blockwise(
        name, g, p, states[0], states[1] if two else None, **without("lr"), step=1, lr=0.01,
        qmap1=code, qmap2=functional.create_dynamic_map(signed=False).cuda() if two else None,
        absmax1=scales[0], absmax2=scales[1] if two else None,
    )  # fmt: skip
    expected = before - 0.01 * (g / (g.abs() + 1e-8) if two else g)
    torch.testing.assert_close(p, expected, rtol=2e-2, atol=2e-3)
    assert (scales[0] > 0).all()
