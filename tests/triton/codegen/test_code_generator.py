"""A kernel's signature, and combine functions that the language calls back."""

import re

import numpy as np
import pytest

from emu.triton import language as tl
from emu.triton.codegen.code_generator import build_module
from emu.triton.source import JITCallable as jit


@jit
def stores(x, n):
    tl.store(x, n)


@pytest.mark.parametrize(
    ("signature", "text"),
    [
        ({"x": "*fp32"}, "signature must have a type for n of stores, but got none"),
        ({"x": "*fp32", "n": "i32", "m": "i32"}, "parameters of stores ['x', 'n'], but got 'm'"),
        ({"x": "*fp32", "n": 3}, "signature must have a type for n, but got 3"),
    ],
)
def test_a_signature_must_fit_the_kernel(signature, text):
    with pytest.raises(TypeError, match=re.escape(text)):
        build_module(stores, signature)


RNG = np.random.default_rng(1)


@jit
def later(a, i, b, j):
    """The larger with its place; looks at the dtype of a tile that nobody needs."""
    above = a > b
    if (a + tl.zeros((1,), tl.int1)).dtype.is_floating():
        above |= a != a and b == b
    above |= (a == b) & (i > j)
    return tl.where(above, a, b), tl.where(above, i, j)


@jit
def running_maximum(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    _, place = tl.associative_scan((tl.load(x_ptr + at), at), 0, later)
    tl.store(out_ptr + at, place)


def test_combine_functions_may_look_at_tiles(launch, compile_):
    x, out = RNG.integers(0, 5, 16).astype(np.float32), np.zeros(16, np.int32)
    launch(running_maximum, x, out, N=16)
    expected = [max(range(i + 1), key=lambda j: (x[j], j)) for i in range(16)]
    np.testing.assert_array_equal(out, expected)
    (scan,) = [o for o in compile_(running_maximum, x, out, N=16).kernel.body.walk() if o.regions]
    assert all(not v.shape for o in scan.regions[0].operations for v in o.results)
