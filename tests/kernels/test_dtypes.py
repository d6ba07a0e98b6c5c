"""fp16 and bf16 conversions, bit for bit against NumPy and ml_dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from emu.kernels import dtypes
from emu.kernels.jit import jit


@jit()
def _widen(bits: Any, out: Any, bf16: bool) -> None:
    for i in range(bits.size):
        out[i] = dtypes.bf16_to_f32(bits[i]) if bf16 else dtypes.f16_to_f32(bits[i])


@jit()
def _narrow(values: Any, out: Any, bf16: bool) -> None:
    for i in range(values.size):
        out[i] = dtypes.f32_to_bf16(values[i]) if bf16 else dtypes.f32_to_f16(values[i])


KINDS = [(np.dtype(np.float16), False), (np.dtype(ml_dtypes.bfloat16), True)]


@pytest.mark.parametrize(("dtype", "bf16"), KINDS, ids=["fp16", "bf16"])
def test_widening_is_exact_for_all_patterns(dtype: np.dtype[Any], bf16: bool) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    out = np.empty(bits.size, np.float32)
    _widen(bits, out, bf16)
    expected = bits.view(dtype).astype(np.float32)
    nan = np.isnan(expected)
    assert np.array_equal(np.isnan(out), nan)
    assert np.array_equal(out[~nan].view(np.uint32), expected[~nan].view(np.uint32))


@pytest.mark.parametrize(("dtype", "bf16"), KINDS, ids=["fp16", "bf16"])
def test_narrowing_rounds_to_nearest_even(dtype: np.dtype[Any], bf16: bool) -> None:
    rng = np.random.default_rng(0)
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float32)
    # Each value, the ties half-way to the next one, and their neighbours on both sides.
    half = np.uint32(1 << 15) if bf16 else np.uint32(1 << 12)
    base = every.view(np.uint32)
    random_bits = rng.integers(0, 1 << 32, 1 << 20, dtype=np.uint32)
    patterns = [base, base + half, base + half - 1, base + half + 1, random_bits]
    values = np.concatenate(patterns).astype(np.uint32).view(np.float32)
    out = np.empty(values.size, np.uint16)
    _narrow(values, out, bf16)
    with np.errstate(all="ignore"):
        expected = values.astype(dtype)
    nan = np.isnan(expected)
    assert np.array_equal(np.isnan(out.view(dtype)), nan)
    assert np.array_equal(out[~nan], expected.view(np.uint16)[~nan])


def test_every_dtype_has_a_kind_and_a_code() -> None:
    assert len(dtypes.DTYPES) == 13
    assert set(dtypes.KINDS.values()) == set(range(9))
