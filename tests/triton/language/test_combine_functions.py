"""Combine functions that other libraries take from ``tl.standard``."""

from __future__ import annotations

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton

SINGLE = {
    "_sum_combine": np.add,
    "_prod_combine": np.multiply,
    "_xor_combine": np.bitwise_xor,
    "_or_combine": np.bitwise_or,
    "_elementwise_max": np.maximum,
    "_elementwise_min": np.minimum,
}


@triton.jit
def reduces(x_ptr, out_ptr, COMBINE: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(out_ptr, tl.reduce(x, 0, COMBINE))


@pytest.mark.parametrize("name", SINGLE)
def test_one_tensor(name: str) -> None:
    x = np.random.default_rng(1).integers(1, 5, 64).astype(np.int32)
    out = np.zeros(1, np.int32)
    reduces[(1,)](x, out, getattr(tl.standard, name), 64)
    assert out[0] == SINGLE[name].reduce(x, dtype=np.int32)


@triton.jit
def places(x_ptr, out_ptr, COMBINE: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    value, index = tl.reduce((tl.load(x_ptr + i), i), 0, COMBINE)
    tl.store(out_ptr, value)
    tl.store(out_ptr + 1, index)


@pytest.mark.parametrize("what", ["max", "min"])
@pytest.mark.parametrize("tie", ["left", "fast"])
def test_values_with_their_indices(what: str, tie: str) -> None:
    x = np.random.default_rng(2).integers(0, 8, 128).astype(np.int32)
    out = np.zeros(2, np.int32)
    places[(1,)](x, out, getattr(tl.standard, f"_arg{what}_combine_tie_break_{tie}"), 128)
    assert out[0] == getattr(x, what)()
    assert x[out[1]] == out[0]
    if tie == "left":
        assert out[1] == getattr(x, f"arg{what}")()


@triton.jit
def wraps(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    _, index = tl.reduce((tl.load(x_ptr + i), i), 0, _largest)
    tl.store(out_ptr, index)


@triton.jit
def _largest(v1, i1, v2, i2):
    return tl.standard._argmax_combine(v1, i1, v2, i2, True)


def test_in_a_combine_function_of_ones_own() -> None:
    x = np.array([1, 7, 3, 7], np.float32)
    out = np.zeros(1, np.int32)
    wraps[(1,)](x, out, 4)
    assert out[0] == 1
