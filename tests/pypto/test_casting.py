"""Casts by a mode, and quantisation, against exact references."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pypto_ops import FLOATS, INTEGERS, few, same, seeds, values

import emu.pypto as p
from emu.pypto.casting import MODES

finite = st.floats(-1e6, 1e6, width=32)
SMALL = [p.DT_FP16, p.DT_BF16]


def grid_of(dtype):
    """Return all finite values of a half, in order."""
    with np.errstate(invalid="ignore"):  # NaNs
        bits = np.arange(1 << 16, dtype=np.uint16).view(dtype.np_dtype).astype(np.float64)
    return np.unique(bits[np.isfinite(bits)])


GRIDS = {dtype: grid_of(dtype) for dtype in SMALL}


def rounded(x, dtype, mode):
    """Round by search in all values of the type."""
    grid = GRIDS[dtype]
    above = int(np.searchsorted(grid, x))
    if above == len(grid):
        low, high = grid[-1], np.inf
    elif above == 0:
        low, high = (grid[0], grid[0]) if grid[0] == x else (-np.inf, grid[0])
    else:
        high = grid[above]
        low = high if high == x else grid[above - 1]
    if low == high:
        return low
    if mode in ("floor", "ceil"):
        return low if mode == "floor" else high
    if mode == "trunc":
        return low if x > 0 else high
    if math.isinf(low) or math.isinf(high):
        return None  # where infinity begins is nearest-even's business
    down, up = Fraction(x) - Fraction(low), Fraction(high) - Fraction(x)
    if down != up:
        return low if down < up else high
    if mode == "half_away":
        return high if x > 0 else low
    even = np.array([low], np.float64).astype(dtype.np_dtype).view(np.uint16)[0] % 2 == 0
    return low if even else high


@pytest.mark.parametrize("dtype", SMALL)
@pytest.mark.parametrize("mode", MODES)
@settings(deadline=None, max_examples=60)
@given(
    x=st.one_of(
        finite,
        finite.map(lambda x: x / 2**20),
        st.integers(-(2**17), 2**17).map(lambda i: i / 2**9),
    )
)
def test_casts_to_halves_by_every_mode(mode, dtype, x):
    x = float(np.float32(x))
    want = rounded(x, dtype, mode)
    got = float(p.cast(p.from_numpy(np.array([x], np.float32)), dtype, mode).numpy()[0])
    if want is not None:
        assert got == want, (x, mode)


@pytest.mark.parametrize("target", INTEGERS)
@few
@given(
    xs=st.lists(
        st.one_of(finite, st.integers(-600, 600).map(lambda i: i / 2)), min_size=1, max_size=9
    )
)
def test_casts_to_integers_by_every_mode(target, xs):
    a = np.array(xs, np.float32)
    functions = {
        "nearest_even": round,
        "half_away": lambda x: int(math.copysign(math.floor(abs(x) + Fraction(1, 2)), x)),
        "floor": math.floor,
        "ceil": math.ceil,
        "trunc": math.trunc,
    }
    limits = np.iinfo(target.np_dtype)
    bits = 8 * target.itemsize
    for mode, function in functions.items():
        whole = [function(Fraction(float(x))) for x in a]
        got = p.cast(p.from_numpy(a), target, mode).numpy().tolist()
        assert got == [min(max(n, limits.min), limits.max) for n in whole]
        wrapped = p.cast(p.from_numpy(a), target, mode, saturate=False).numpy().tolist()
        assert wrapped == [(n - limits.min) % (1 << bits) + limits.min for n in whole]


def test_ends_of_the_ranges():
    a = p.from_numpy(np.array([1e39, -1e39, np.inf, np.nan, 65519.0, 65520.0], np.float64))
    got = p.cast(a, p.DT_FP16, saturate=True).numpy().astype(np.float64)
    np.testing.assert_array_equal(got, [65504, -65504, 65504, np.nan, 65504, 65504])
    floor = p.cast(a, p.DT_FP16, "floor").numpy().astype(np.float64)
    np.testing.assert_array_equal(floor, [65504, -np.inf, np.inf, np.nan, 65504, 65504])
    assert p.cast(a, p.DT_INT8, saturate=False).numpy()[2:4].tolist() == [0, 0]
    whole = p.from_numpy(np.array([300, -300, 5], np.int32))
    assert p.cast(whole, p.DT_INT8).numpy().tolist() == [44, -44, 5]
    assert p.cast(whole, p.DT_INT8, saturate=True).numpy().tolist() == [127, -128, 5]
    assert p.cast(whole, p.DT_UINT8, saturate=True).numpy().tolist() == [255, 0, 5]


@few
@given(
    seed=seeds, source=st.sampled_from(FLOATS + INTEGERS), target=st.sampled_from(FLOATS + INTEGERS)
)
def test_the_usual_mode_by_name_is_the_usual_cast(seed, source, target):
    t = p.from_numpy(values(seed, (4, 4), source))
    mode = "nearest_even" if target in FLOATS else "trunc"
    same(p.cast(t, target, mode), p.cast(t, target).numpy())


def test_modes_are_checked():
    with pytest.raises(p.ArgumentError, match="mode must be one of nearest_even, half_away"):
        p.cast(p.zeros([2]), p.DT_INT8, "up")


# --- quantisation -----------------------------------------------------------------------------------


@few
@given(
    seed=seeds,
    dtype=st.sampled_from(FLOATS[:3]),
    kind=st.sampled_from(["tensor", "channel", "token"]),
)
def test_quantisation(seed, dtype, kind):
    a = values(seed, (4, 6), dtype)
    shape = {"tensor": (1, 1), "channel": (1, 6), "token": (4, 1)}[kind]
    scale = values(seed + 1, shape, p.DT_FP32, positive=True)
    zero = np.random.default_rng(seed).integers(-20, 20, shape).astype(np.int32)
    wide = a.astype(np.float32)
    for target, low, high in ((p.DT_INT8, -128, 127), (p.DT_UINT8, 0, 255)):
        expected = np.clip(np.rint(wide / scale) + zero, low, high).astype(target.np_dtype)
        got = p.quantize(p.from_numpy(a), p.from_numpy(scale), p.from_numpy(zero), target)
        same(got, expected)
        back = p.dequantize(got, p.from_numpy(scale), p.from_numpy(zero), dtype)
        same(
            back,
            ((expected.astype(np.float32) - zero) * scale)
            .astype(np.float32)
            .astype(dtype.np_dtype),
        )
    same(
        p.quantize(p.from_numpy(a), 0.5),
        np.clip(np.rint(wide / np.float32(0.5)), -128, 127).astype(np.int8),
    )


@few
@given(seed=seeds, dtype=st.sampled_from(FLOATS[:3]), dim=st.sampled_from([None, 0, -1]))
def test_dynamic_quantisation(seed, dtype, dim):
    a = values(seed, (4, 6), dtype)
    a[0] = 0
    q, scale = p.dynamic_quantize(p.from_numpy(a), dim)
    wide = a.astype(np.float32)
    expected = np.abs(wide).max(axis=dim, keepdims=True) / np.float32(127)
    same(scale, expected)
    safe = np.where(expected == 0, np.float32(1), expected)
    same(q, np.rint(wide / safe).astype(np.int8))
    limit = np.broadcast_to(expected * 0.51 + 1e-6, wide.shape)
    assert (np.abs(p.dequantize(q, scale).numpy() - wide) <= limit).all()


def test_quantisation_sees_the_valid_part():
    t = p.view(p.full([4, 4], -2.0), [4, 4], [0, 0], valid_shape=[2, 3])
    q, scale = p.dynamic_quantize(t)
    assert (q.valid_shape, scale.valid_shape) == ((2, 3), (2, 1))
    assert q.numpy().sum() == -127 * 6
    assert p.quantize(t, 1.0).valid_shape == (2, 3)
