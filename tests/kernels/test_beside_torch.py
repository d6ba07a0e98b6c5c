"""The kernels beside torch: the same bits where torch defines them, close where it sums in its own order."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from emu.kernels.cast import cast
from emu.kernels.matmul import matmul
from emu.kernels.quant import dequantize, dynamic_quantize, quant_scatter, quantize
from emu.kernels.tiles import add_tile, set_tile

torch = pytest.importorskip("torch")

Array = np.ndarray[Any, Any]
BF16 = np.dtype(ml_dtypes.bfloat16)
TORCH = {
    np.dtype(np.float64): torch.float64,
    np.dtype(np.float32): torch.float32,
    np.dtype(np.float16): torch.float16,
    BF16: torch.bfloat16,
    np.dtype(ml_dtypes.float8_e4m3fn): torch.float8_e4m3fn,
    np.dtype(ml_dtypes.float8_e5m2): torch.float8_e5m2,
    np.dtype(np.int8): torch.int8,
    np.dtype(np.int32): torch.int32,
    np.dtype(np.int64): torch.int64,
}
INTEGERS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def tensor(array: Array) -> Any:
    """The same bits as a tensor, with the same strides."""
    plain = array.view(INTEGERS[array.itemsize])
    return torch.from_numpy(plain).view(TORCH[array.dtype])


def same(found: Array, expected: Any) -> None:
    """All bits are equal, but those of NaN."""
    theirs = expected.contiguous().view(
        {1: torch.uint8, 2: torch.uint16, 4: torch.uint32}[found.itemsize]
    )
    theirs = theirs.numpy().view(found.dtype)
    ours_nan, theirs_nan = (np.isnan(x.astype(np.float32)) for x in (found, theirs))
    np.testing.assert_array_equal(ours_nan, theirs_nan)
    bits = INTEGERS[found.itemsize]
    np.testing.assert_array_equal(
        np.where(ours_nan, bits(0), found.view(bits)),
        np.where(ours_nan, bits(0), theirs.view(bits)),
    )


HALVES = [np.dtype(np.float16), BF16]
FP8 = [np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)]


@pytest.mark.parametrize("source", HALVES, ids=str)
@pytest.mark.parametrize("target", [np.dtype(np.float32), *HALVES], ids=str)
def test_all_16_bit_patterns(source: Any, target: Any) -> None:
    patterns = np.arange(1 << 16, dtype=np.uint16).view(source)
    same(cast(patterns, target), tensor(patterns).to(TORCH[target]))


@pytest.mark.parametrize("source", FP8, ids=str)
def test_all_8_bit_patterns(source: Any) -> None:
    patterns = np.arange(256, dtype=np.uint8).view(source)
    same(cast(patterns, np.float32), tensor(patterns).to(torch.float32))


@pytest.mark.parametrize("target", [*HALVES, *FP8], ids=str)
def test_random_fp32_patterns(target: Any) -> None:
    rng = np.random.default_rng(1)
    patterns = rng.integers(0, 1 << 32, 1 << 18, np.uint32).view(np.float32)
    finite = np.finfo(np.float32).max if target in HALVES else float(ml_dtypes.finfo(target).max)
    # Out of range torch saturates fp8 in some releases and not in others.
    patterns = patterns[np.isnan(patterns) | (np.abs(patterns) <= finite)]
    same(cast(patterns, target), tensor(patterns).to(TORCH[target]))


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), *HALVES], ids=str)
@pytest.mark.parametrize("multiply", [False, True])
def test_quantise_and_back(dtype: Any, multiply: bool) -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((100, 96)).astype(np.float32).astype(dtype)
    s = rng.uniform(0.01, 0.2, 96).astype(np.float32)
    z = rng.integers(-20, 20, 96).astype(np.float32)
    wide, scale, zero = tensor(x).float(), tensor(s), tensor(z)
    scaled = wide * scale if multiply else wide / scale
    theirs = (scaled + zero).round().clamp(-128, 127).to(torch.int8)
    found = quantize(x, s, z, multiply=multiply)
    np.testing.assert_array_equal(found, theirs.numpy())
    back = dequantize(found, s, z, dtype=dtype)
    same(back, ((theirs.float() + zero) * scale).to(TORCH[dtype]))


def test_dynamic_quantise() -> None:
    x = np.random.default_rng(3).standard_normal((50, 130)).astype(np.float32)
    q, scales = dynamic_quantize(x)
    scale = tensor(x).abs().amax(-1) / 127
    np.testing.assert_array_equal(scales, scale.numpy())
    np.testing.assert_array_equal(q, (tensor(x) / scale[:, None]).round().to(torch.int8).numpy())


def test_quantised_scatter() -> None:
    rng = np.random.default_rng(4)
    target = rng.integers(-128, 128, (6, 40, 64)).astype(np.int8)
    updates = rng.standard_normal((5, 7, 64)).astype(np.float32).astype(BF16)
    scales = rng.uniform(0.02, 0.1, 64).astype(np.float32).astype(BF16)
    pairs = np.array([[5, 33], [0, 0], [0, 7], [3, 12], [5, 3]])
    expected = torch.from_numpy(target.copy())
    values = (tensor(updates).float() / tensor(scales).float()).round().clamp(-128, 127)
    for value, (batch, start) in zip(values.to(torch.int8), pairs.tolist(), strict=True):
        expected[batch, start : start + 7] = value
    quant_scatter(target, pairs, updates, scales)
    np.testing.assert_array_equal(target, expected.numpy())


@pytest.mark.parametrize(
    "dtype", [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64), *HALVES], ids=str
)
def test_strided_tiles(dtype: Any) -> None:
    rng = np.random.default_rng(5)
    ours = (rng.standard_normal((20, 30, 8)) * 9).astype(np.float32).astype(dtype)
    source = (rng.standard_normal((8, 30, 20)) * 9).astype(np.float32).astype(dtype)
    theirs = tensor(ours.copy())
    place, tile = (
        (slice(2, 18, 3), slice(None, None, 2), slice(1, 7)),
        (slice(1, 7), slice(0, 15), slice(0, 6)),
    )
    add_tile(ours[place], source[tile].T)
    theirs[place].add_(tensor(source)[tile].permute(2, 1, 0))
    np.testing.assert_array_equal(ours.astype(np.float64), theirs.double().numpy())
    set_tile(ours[place], source[tile].T)
    theirs[place].copy_(tensor(source)[tile].permute(2, 1, 0))
    np.testing.assert_array_equal(ours.astype(np.float64), theirs.double().numpy())


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(np.float64), *HALVES], ids=str)
def test_products(dtype: Any) -> None:
    rng = np.random.default_rng(6)
    a, b = (rng.standard_normal(s).astype(np.float32).astype(dtype) for s in ((70, 333), (333, 90)))
    found = matmul(a, b).astype(np.float64)
    theirs = torch.mm(tensor(a), tensor(b)).double().numpy()
    spacing = {2: 2.0**-7 if dtype == BF16 else 2.0**-10, 4: 2.0**-19, 8: 2.0**-45}[dtype.itemsize]
    np.testing.assert_allclose(found, theirs, rtol=spacing, atol=32 * spacing)


def test_int8_products() -> None:
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((70, 333), (333, 90)))
    theirs = torch.mm(tensor(a).to(torch.int32), tensor(b).to(torch.int32))
    np.testing.assert_array_equal(matmul(a, b), theirs.numpy())
