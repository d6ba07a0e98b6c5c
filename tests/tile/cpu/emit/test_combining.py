"""Reductions along any axis, with and without a neutral element, over rests of runs: what the reference gives."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_cpu_runner import run
from tile_harness import Kernel, values

from emu.tile.ir import Value
from emu.tile.ops import Code
from emu.tile.types import F32, I8, I32, U8, DType

SHAPES = [(1,), (7,), (32,), (45,), (100,), (3, 33), (33, 3), (2, 5, 64), (64, 1)]


@settings(deadline=None, max_examples=30)
@given(
    shape=st.sampled_from(SHAPES),
    axis=st.integers(0, 2),
    code=st.sampled_from([Code.ADD, Code.MAX, Code.MIN, Code.MUL, Code.XOR, Code.AND]),
    dtype=st.sampled_from([I32, I8, U8]),
    seed=st.integers(0, 9),
)
def test_reductions_of_integers_are_those_of_the_reference(
    shape: tuple[int, ...], axis: int, code: Code, dtype: DType, seed: int
) -> None:
    k = Kernel()
    count = int(np.prod(shape))
    tile = k.load(values(dtype, count, seed).reshape(shape))
    axis = min(axis, len(shape) - 1)
    (total,) = k.builder.reduce([tile], axis, lambda x, y: [k.builder.binary(code, x, y)])
    k.result(total)
    k.program("reduce").check(run)


@settings(deadline=None, max_examples=20)
@given(shape=st.sampled_from(SHAPES), axis=st.integers(0, 2), seed=st.integers(0, 9))
def test_a_reduction_of_two_tiles_finds_the_first_of_the_greatest(
    shape: tuple[int, ...], axis: int, seed: int
) -> None:
    """No neutral element is known, and the accumulators begin with the first run."""
    k = Kernel()
    b = k.builder
    axis = min(axis, len(shape) - 1)
    numbers = np.random.default_rng(seed).integers(-5, 5, shape).astype(np.float32)
    line = tuple(n if a == axis else 1 for a, n in enumerate(shape))
    index = b.broadcast(b.reshape(b.arange(0, shape[axis]), line), shape)

    def pick(a: Value, i: Value, c: Value, j: Value) -> list[Value]:
        equal = b.binary(Code.AND, b.compare(Code.EQ, a, c), b.compare(Code.LT, i, j))
        first = b.binary(Code.OR, b.compare(Code.GT, a, c), equal)
        return [b.select(first, a, c), b.select(first, i, j)]

    greatest, where = b.reduce([k.load(numbers), index], axis, pick)
    assert greatest.dtype == F32
    k.result(greatest)
    k.result(where)
    k.program("arg max").check(run)
