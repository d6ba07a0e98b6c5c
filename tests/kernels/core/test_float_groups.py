"""Conversions in groups: every 16-bit pattern, and fp32 patterns around every boundary, at every offset."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from emu.kernels.cast import cast
from emu.kernels.core.float_groups import GROUP

NARROW = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]


def _assert_same(found: np.ndarray, meant: np.ndarray) -> None:
    bits = np.dtype(f"u{found.itemsize}")
    is_nan = np.isnan(meant)
    np.testing.assert_array_equal(np.isnan(found), is_nan)
    np.testing.assert_array_equal(found.view(bits)[~is_nan], meant.view(bits)[~is_nan])
    np.testing.assert_array_equal(np.signbit(found), np.signbit(meant))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_every_pattern_widens(dtype):
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    with np.errstate(invalid="ignore"):
        _assert_same(cast(x, np.float32), x.astype(np.float32))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_patterns_around_each_boundary_narrow(dtype):
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    with np.errstate(all="ignore"):
        for low in (0, 1, 0x0FFF, 0x1000, 0x1001, 0x2FFF, 0x3000, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
            x = (upper | np.uint32(low)).view(np.float32)
            _assert_same(cast(x, dtype), x.astype(dtype))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_lengths_and_offsets(dtype):
    rng = np.random.default_rng(1)
    values = rng.standard_normal(4 * GROUP, dtype=np.float32)
    small = values.astype(dtype)
    for start in (0, 1, 5):
        for n in (1, GROUP - 1, GROUP, GROUP + 1, 2 * GROUP + 63):
            for x, wanted in ((values, dtype), (small, np.dtype(np.float32))):
                part = x[start : start + n]
                out = np.full(n + 2, 7, wanted)
                cast(part, wanted, out=out[1:-1])
                _assert_same(out[1:-1], part.astype(wanted))
                assert out[0] == out[-1] == 7
                _assert_same(cast(part[::-1], wanted), part[::-1].astype(wanted))
