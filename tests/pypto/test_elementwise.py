"""Element-wise ops and casts against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypto_ops import FLOATS, INTEGERS, few, reference, same, seeds, shapes, values

import emu.pypto as p

BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
UNARY = {"exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x)}


@pytest.mark.parametrize("name", [*BINARY, "div"])
@few
@given(shape=shapes, seed=seeds, dtype=st.sampled_from(FLOATS + INTEGERS))
def test_binary(name, shape, seed, dtype):
    a, b = values(seed, shape, dtype), values(seed + 1, shape[-1:], dtype)
    op = getattr(p, name)
    if name == "div":
        if dtype not in FLOATS:
            with pytest.raises(p.DTypeError, match="div needs a float tensor"):
                op(p.from_numpy(a), p.from_numpy(b))
            return
        function = np.divide
    else:
        function = BINARY[name]
    same(op(p.from_numpy(a), p.from_numpy(b)), reference(function, dtype, a, b))
    same(op(p.from_numpy(a), 3), reference(lambda x: function(x, x.dtype.type(3)), dtype, a))


@pytest.mark.parametrize("name", UNARY)
@few
@given(shape=shapes, seed=seeds, dtype=st.sampled_from(FLOATS))
def test_unary(name, shape, seed, dtype):
    a = values(seed, shape, dtype, positive=True)
    same(getattr(p, name)(p.from_numpy(a)), reference(UNARY[name], dtype, a))


@few
@given(shape=shapes, seed=seeds, dtype=st.sampled_from(FLOATS + INTEGERS))
def test_signs_and_comparisons(shape, seed, dtype):
    a, b = values(seed, shape, dtype), values(seed + 1, shape, dtype)
    x, y = p.from_numpy(a), p.from_numpy(b)
    same(p.abs(x), reference(np.abs, dtype, a))
    same(-x, reference(np.negative, dtype, a))
    for name in ("eq", "ne", "gt", "ge", "lt", "le"):
        function = {"eq": np.equal, "ne": np.not_equal, "gt": np.greater}.get(name) or getattr(
            np, {"ge": "greater_equal", "lt": "less", "le": "less_equal"}.get(name, "equal")
        )
        same(getattr(p, name)(x, y), function(a, b))
    same(p.where(x > y, x, y), np.where(a > b, a, b))
    same(p.where(x >= y, x, 0), np.where(a >= b, a, np.zeros((), a.dtype)))


def test_sigmoid():
    a = np.array([-2.0, 0.0, 3.0], np.float32)
    same(p.sigmoid(p.from_numpy(a)), 1 / (1 + np.exp(-a)))


# --- cast -------------------------------------------------------------------------------------------


def test_cast_rounds_to_nearest_even():
    # 1 + 2^-8 lies halfway between two bfloat16 numbers, as does 1 + 3 * 2^-8.
    a = np.array([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 1e39], np.float64)
    got = p.cast(p.from_numpy(a), p.DT_BF16).numpy().astype(np.float64)
    assert got.tolist() == [1.0, 1 + 2**-6, -1.0, np.inf]
    # Just above halfway, by less than single precision sees: rounded once, it goes up.
    above = np.array([1 + 2**-8 + 2**-40], np.float64)
    assert float(p.cast(p.from_numpy(above), p.DT_BF16).numpy()[0]) == 1 + 2**-7
    half = np.array([2049.0, 2051.0], np.float32)
    assert p.cast(p.from_numpy(half), p.DT_FP16).numpy().tolist() == [2048.0, 2052.0]


def test_cast_to_integer_truncates():
    a = np.array([1.9, -1.9, 1e10, -1e10, np.nan, 3e19], np.float32)
    t = p.from_numpy(a)
    assert p.cast(t, p.DT_INT32).numpy().tolist() == [1, -1, 2**31 - 1, -(2**31), 0, 2**31 - 1]
    assert p.cast(t, p.DT_INT64).numpy()[-1] == 2**63 - 1
    assert p.cast(t, p.DT_UINT8).numpy().tolist() == [1, 0, 255, 0, 0, 255]
    assert p.cast(p.from_numpy(np.array([0.0, 0.5])), p.DT_BOOL).numpy().tolist() == [False, True]


def test_large_integers_round_once_to_a_half():
    # Just above halfway between two bfloat16 numbers; by way of float32 the 1 would be lost.
    a = np.array([2**24 + 2**16 + 1], np.int32)
    assert float(p.cast(p.from_numpy(a), p.DT_BF16).numpy()[0]) == 2**24 + 2**17
