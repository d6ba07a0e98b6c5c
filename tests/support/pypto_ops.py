"""Operands and references that the tests of PyPTO's ops share."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

import emu.pypto as p

FLOATS = [p.DT_FP16, p.DT_BF16, p.DT_FP32, p.DT_FP64]
INTEGERS = [p.DT_UINT8, p.DT_INT8, p.DT_INT16, p.DT_INT32, p.DT_INT64]
few = settings(deadline=None, max_examples=15)
shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)
seeds = st.integers(0, 2**32 - 1)


def values(seed, shape, dtype, *, positive=False):
    generator = np.random.default_rng(seed)
    if dtype in FLOATS:
        x = generator.standard_normal(shape) * 3
        return (np.abs(x) + 0.1 if positive else x).astype(dtype.np_dtype)
    limits = np.iinfo(dtype.np_dtype)
    return generator.integers(max(limits.min, -50), 50, shape).astype(dtype.np_dtype)


def reference(function, dtype, *arrays):
    """What an op means: computed wide, rounded once."""
    if dtype not in FLOATS:
        return function(*arrays).astype(dtype.np_dtype)
    wide = np.float64 if dtype is p.DT_FP64 else np.float32
    with np.errstate(all="ignore"):
        return function(*(a.astype(wide) for a in arrays)).astype(dtype.np_dtype)


def same(t, expected):
    assert t.dtype.np_dtype == expected.dtype
    np.testing.assert_array_equal(t.numpy().astype(np.float64), expected.astype(np.float64))


# --- valid parts ------------------------------------------------------------------------------------


def ragged():
    return p.view(p.full([4, 4], -2.0), [4, 4], [0, 0], valid_shape=[2, 3])


def zero_outside(inside):
    expected = np.zeros((4, 4), np.float32)
    expected[:2, :3] = inside
    return expected
