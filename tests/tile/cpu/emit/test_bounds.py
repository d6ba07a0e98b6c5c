"""Lanes beyond a bound, of which one is computed for all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_cpu_runner import run
from tile_harness import Kernel, values

from emu.tile.ir import Value
from emu.tile.ops import Code
from emu.tile.types import BF16, F16, F32, F64, I8, I32, I64, DType

SETTINGS = settings(deadline=None, max_examples=60)


def combine(k: Kernel, code: Code) -> Callable[[Value, Value], list[Value]]:
    return lambda a, b: [k.builder.binary(code, a, b)]


def arg_max(k: Kernel) -> Callable[..., list[Value]]:
    def pick(a: Value, i: Value, c: Value, j: Value) -> list[Value]:
        b = k.builder
        equal = b.binary(Code.AND, b.compare(Code.EQ, a, c), b.compare(Code.LT, i, j))
        first = b.binary(Code.OR, b.compare(Code.GT, a, c), equal)
        return [b.select(first, a, c), b.select(first, i, j)]

    return pick


@SETTINGS
@given(
    extent=st.sampled_from([64, 96, 128, 160, 100]),
    start=st.integers(-40, 40),
    bound=st.integers(-60, 220),
    comparison=st.sampled_from([Code.LT, Code.LE]),
    swapped=st.booleans(),
    dtype=st.sampled_from([F32, F16, BF16, I32, I64, I8, F64]),
    other=st.sampled_from([None, 0, 1, -7]),
    reduction=st.sampled_from([Code.ADD, Code.MAX, Code.MIN, Code.MUL, None]),
    masks_again=st.booleans(),
    rows=st.sampled_from([None, 1, 3]),
)
def test_rows_are_the_same_beyond_their_bound(
    extent: int,
    start: int,
    bound: int,
    comparison: Code,
    swapped: bool,
    dtype: DType,
    other: int | None,
    reduction: Code | None,
    masks_again: bool,
    rows: int | None,
) -> None:
    """A masked row, reduced, mapped by what the reduction gave, reduced again and stored."""
    k = Kernel()
    b = k.builder
    shape = (extent,) if rows is None else (rows, extent)
    row_shape = (extent,) if rows is None else (1, extent)
    room = values(dtype, 400, 1, special=False)
    if dtype.is_float:  # sums and products of these are exact, whatever the order
        room = np.random.default_rng(extent).choice([-1, 1, 0.5, 2, 0], 400).astype(dtype.numpy)
        other = -1 if other is not None and reduction is Code.MUL else other
    if dtype in (F16, BF16) and reduction in (Code.ADD, Code.MUL):
        reduction = Code.MAX
    source = b.ptr_add(k.pointer(room), k.number(60))
    target = b.ptr_add(k.pointer(np.zeros(900, dtype.numpy)), k.number(60))
    columns = b.arange(0, extent)
    columns = b.binary(Code.ADD, columns, k.number(start, shape=(extent,)))
    limit = b.splat(k.argument(I32, bound), (extent,))
    sides = (limit, columns) if swapped else (columns, limit)
    mirrored = {Code.LT: Code.GT, Code.LE: Code.GE}[comparison]
    mask = b.compare(mirrored if swapped else comparison, *sides)
    inside = b.binary(Code.AND, mask, b.compare(Code.GE, columns, k.number(-50, shape=(extent,))))
    mask = b.broadcast(b.reshape(inside, row_shape), shape)
    offsets = b.broadcast(b.reshape(columns, row_shape), shape)
    filling = None if other is None else k.number(other, dtype, shape)
    x = b.load(b.ptr_add(b.splat(source, shape), offsets), mask, filling)
    if reduction is not None:
        total = b.reduce([x], len(shape) - 1, combine(k, reduction))[0]
        spread = b.reshape(total, (1,) if rows is None else (rows, 1))
        y = b.binary(Code.SUB, x, b.broadcast(spread, shape))
        k.result(total)
    else:
        y = b.binary(Code.ADD, x, x)
    if masks_again:
        y = b.select(mask, y, k.number(2, dtype, shape))
    k.result(b.reduce([y], len(shape) - 1, combine(k, Code.MAX))[0])
    first = b.cast(y, I64) if dtype.is_float else y
    index = b.broadcast(b.reshape(b.arange(0, extent), row_shape), shape)
    if rows is None:
        for result in b.reduce([first, index], 0, arg_max(k)):
            k.result(result, ignored=dtype.is_float)
    b.store(b.ptr_add(b.splat(target, shape), offsets), y, mask)  # of several rows the last is kept
    k.program("rows").check(run)


def test_ranges_that_wrap_are_not_taken_for_inside() -> None:
    k = Kernel()
    b = k.builder
    start = k.argument(I32, 2**31 - 50)
    wrapping = b.binary(Code.ADD, b.arange(0, 128), b.splat(start, (128,)))
    inside = b.compare(Code.LT, wrapping, k.number(2**31 - 10, shape=(128,)))
    x = b.load(k.addresses(k.pointer(values(I32, 128)), (128,)), inside, k.number(3, shape=(128,)))
    k.result(x)
    k.result(b.reduce([x], 0, combine(k, Code.ADD))[0])
    k.program("wraps").check(run)
