"""The scalar conversions in compiled code, bit for bit against NumPy and ml_dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from emu.kernels.core import dtypes
from emu.kernels.core.jit import jit

F16, BF16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
E4M3, E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
NARROW = [F16, BF16, E4M3, E5M2]
MANTISSA = {F16: 10, BF16: 7, E4M3: 3, E5M2: 2}
each_dtype = pytest.mark.parametrize("dtype", NARROW, ids=str)


@jit()
def _widen(kind: int, bits: Any, out: Any) -> None:
    for i in range(bits.size):
        if kind == dtypes.F16:
            out[i] = dtypes.f16_to_f32(bits[i])
        elif kind == dtypes.BF16:
            out[i] = dtypes.bf16_to_f32(bits[i])
        elif kind == dtypes.F8_E4M3FN:
            out[i] = dtypes.f8_e4m3fn_to_f32(bits[i])
        else:
            out[i] = dtypes.f8_e5m2_to_f32(bits[i])


@jit()
def _narrow(kind: int, values: Any, out: Any) -> None:
    for i in range(values.size):
        if kind == dtypes.F16:
            out[i] = dtypes.f32_to_f16(values[i])
        elif kind == dtypes.BF16:
            out[i] = dtypes.f32_to_bf16(values[i])
        elif kind == dtypes.F8_E4M3FN:
            out[i] = dtypes.f32_to_f8_e4m3fn(values[i])
        else:
            out[i] = dtypes.f32_to_f8_e5m2(values[i])


@jit()
def _narrow_saturated(kind: int, values: Any, out: Any) -> None:
    for i in range(values.size):
        if kind == dtypes.F16:
            out[i] = dtypes.f32_to_f16_saturated(values[i])
        elif kind == dtypes.BF16:
            out[i] = dtypes.f32_to_bf16_saturated(values[i])
        elif kind == dtypes.F8_E4M3FN:
            out[i] = dtypes.f32_to_f8_e4m3fn_saturated(values[i])
        else:
            out[i] = dtypes.f32_to_f8_e5m2_saturated(values[i])


@jit()
def _cut(values: Any, out: Any) -> None:
    for i in range(values.size):
        out[i] = dtypes.f64_to_f32_odd(values[i])


def patterns(dtype: np.dtype[Any]) -> np.ndarray:
    """Every bit pattern of a dtype."""
    unsigned = np.dtype(f"u{dtype.itemsize}")
    return np.arange(1 << (8 * dtype.itemsize), dtype=unsigned).view(dtype)


def tricky(dtype: np.dtype[Any]) -> np.ndarray:
    """Every value of a dtype as fp32, the ties half-way to the next, and what lies beside both.

    And every fp32 exponent with some mantissas, and 2 Mi random patterns.
    """
    rng = np.random.default_rng(0)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        base = patterns(dtype).astype(np.float32).view(np.uint32).astype(np.int64)
        wide = np.unique(patterns(dtype).astype(np.float64))
    half = 1 << (22 - MANTISSA[dtype])
    near = [base + half * n + d for n in (-1, 0, 1) for d in (-2, -1, 0, 1, 2)]
    # Ties between subnormals: the mid-points of all neighbours, computed.
    wide = wide[np.isfinite(wide)]
    middle = ((wide[1:] + wide[:-1]) / 2).astype(np.float32).view(np.uint32).astype(np.int64)
    near += [middle + d for d in (-1, 0, 1)]
    exponents = np.arange(1 << 9, dtype=np.int64) << 23
    mantissas = [0, 1, 0x7FFFFF, 0x400000, 0x3FFFFF, 0x400001, *rng.integers(0, 1 << 23, 20)]
    near += [exponents + m for m in mantissas]
    near.append(rng.integers(0, 1 << 32, 2 << 20))
    return (np.concatenate(near) & 0xFFFFFFFF).astype(np.uint32).view(np.float32)


def assert_same(actual: np.ndarray, expected: np.ndarray) -> None:
    """Compare bits; of NaNs only that both are, and the sign."""
    assert actual.dtype == expected.dtype
    unsigned = f"u{actual.itemsize}"
    with np.errstate(invalid="ignore"):  # signalling NaNs
        nan = np.isnan(expected)
        assert np.array_equal(np.isnan(actual), nan)
    assert np.array_equal(np.signbit(actual[nan]), np.signbit(expected[nan]))
    assert np.array_equal(actual[~nan].view(unsigned), expected[~nan].view(unsigned))


def saturated(values: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """What a saturating conversion means, in NumPy."""
    largest = float(ml_dtypes.finfo(dtype).max)
    return np.clip(values, -largest, largest).astype(dtype)


@each_dtype
def test_widening_is_exact_for_all_patterns(dtype: np.dtype[Any]) -> None:
    every = patterns(dtype)
    out = np.empty(every.size, np.float32)
    _widen(dtypes.FLOATS[dtype], every.view(f"u{dtype.itemsize}"), out)
    assert_same(out, every.astype(np.float32))


@each_dtype
def test_narrowing_rounds_to_nearest_even(dtype: np.dtype[Any]) -> None:
    values = tricky(dtype)
    out = np.empty(values.size, dtype)
    _narrow(dtypes.FLOATS[dtype], values, out.view(f"u{dtype.itemsize}"))
    with np.errstate(all="ignore"):
        expected = values.astype(dtype)
    assert_same(out, expected)


@each_dtype
def test_saturated_narrowing_has_no_infinity(dtype: np.dtype[Any]) -> None:
    values = tricky(dtype)
    out = np.empty(values.size, dtype)
    _narrow_saturated(dtypes.FLOATS[dtype], values, out.view(f"u{dtype.itemsize}"))
    with np.errstate(all="ignore"):
        assert_same(out, saturated(values, dtype))
    assert not np.isinf(out).any()


def test_e4m3fn_has_no_infinity() -> None:
    """464 is the tie above the largest value, 448, and goes to it."""
    values = np.array([448, 464, np.nextafter(np.float32(464), 465), np.inf, -np.inf], np.float32)
    out = np.empty(values.size, np.uint8)
    _narrow(dtypes.F8_E4M3FN, values, out)
    assert out.tolist() == [0x7E, 0x7E, 0x7F, 0x7F, 0xFF]
    _narrow_saturated(dtypes.F8_E4M3FN, values, out)
    assert out.tolist() == [0x7E, 0x7E, 0x7E, 0x7E, 0xFE]


def test_cutting_fp64_leaves_the_last_bit_set() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 1 << 64, 1 << 18, dtype=np.uint64).view(np.float64)
    small = rng.standard_normal(1 << 18) * 2.0 ** rng.integers(-160, 140, 1 << 18)
    values = np.concatenate([values, small, [0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, 1e-320]])
    out = np.empty(values.size, np.float32)
    _cut(values, out)
    nan = np.isnan(values)
    assert np.array_equal(np.isnan(out), nan)
    cut, values = out[~nan], values[~nan]
    assert np.array_equal(np.signbit(cut), np.signbit(values))
    exact = cut.astype(np.float64) == values
    assert (cut[~exact].view(np.uint32) & 1).all()
    # No fp32 value lies between: the next one on the other side of the value is beyond it.
    with np.errstate(over="ignore", under="ignore"):
        beyond = np.nextafter(cut, np.where(values > cut, np.inf, -np.inf).astype(np.float32))
    assert (((values > cut) == (beyond > values)) | exact).all()


def test_every_dtype_has_a_kind_and_a_code() -> None:
    assert len(dtypes.DTYPES) == 13
    assert set(dtypes.KINDS.values()) == set(range(9))
    assert {dtypes.KINDS.get(dtype, kind) for dtype, kind in dtypes.FLOATS.items()} == {
        *range(5, 11)
    }


def test_dtypes_are_described_as_their_libraries_do() -> None:
    for dtype in dtypes.ALL:
        assert dtypes.BY_NAME[dtype.name] is dtype
        assert np.dtype(dtype.name) == dtype.numpy
        if dtype.is_float:
            info = ml_dtypes.finfo(dtype.numpy)
            assert (dtype.mantissa, dtype.bits) == (info.nmant, info.bits)
            # The smallest normal number has the stored exponent 1.
            assert float(info.smallest_normal) == 2.0 ** (1 - dtype.bias)
        else:
            assert (dtype.mantissa, dtype.bias) == (0, 0)
    shorts = [dtype.short for dtype in dtypes.ALL]
    assert shorts[:3] == ["bool", "i8", "u8"]
    assert shorts[9:] == ["f16", "bf16", "f32", "f64", "f8_e4m3fn", "f8_e5m2"]
    assert {BF16: dtypes.BF16, E4M3: dtypes.F8_E4M3FN}.items() <= dtypes.FLOATS.items()
    assert len(dtypes.KINDS) == 13


def test_names_of_other_projects_are_theirs() -> None:
    from emu.comm.tiling.enums import HcclDataType
    from emu.triton import language

    for dtype in dtypes.ALL:
        kind = language.dtype(dtype.triton)
        if dtype.is_float:
            assert (kind.fp_mantissa_width, kind.exponent_bias) == (dtype.mantissa, dtype.bias)
        if dtype.hccl is not None:
            assert HcclDataType[dtype.hccl].numpy == dtype.numpy
