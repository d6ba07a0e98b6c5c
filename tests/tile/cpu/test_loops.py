"""Where one loop, a copy, or a bound stands for what the reference does tile by tile."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_cpu_runner import run
from tile_harness import Kernel, values

from emu.tile.ir import Value
from emu.tile.ops import Code
from emu.tile.types import BF16, F16, F32, F64, I1, I8, I32, I64, DType

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


@SETTINGS
@given(
    read=st.integers(0, 40),
    write=st.integers(0, 40),
    read_step=st.sampled_from([1, 2, -1]),
    write_step=st.sampled_from([1, 2, -1]),
    masked=st.booleans(),
    separate=st.booleans(),
)
def test_a_tile_is_read_before_it_is_overwritten(
    read: int, write: int, read_step: int, write_step: int, masked: bool, separate: bool
) -> None:
    k = Kernel()
    b = k.builder
    room = values(I32, 400)
    source = k.pointer(room)
    target = k.pointer(room) if separate else source  # the same memory, by another argument
    steps = [k.argument(I32, step) for step in (read_step, write_step)]
    pointers = []
    for base, start, step in ((source, read, steps[0]), (target, write, steps[1])):
        offsets = b.binary(Code.MUL, b.arange(0, 96), b.splat(step, (96,)))
        offsets = b.binary(Code.ADD, offsets, k.number(start + 100, shape=(96,)))
        pointers.append(b.ptr_add(b.splat(base, (96,)), offsets))
    mask = k.load(values(I1, 96)) if masked else None
    x = b.load(pointers[0], mask)
    b.store(pointers[1], b.binary(Code.ADD, x, k.number(1, shape=(96,))), mask)
    k.program("overlap").check(run)


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_carried_tiles_are_exchanged_all_at_once(swap: bool, rounds: int) -> None:
    k = Kernel()
    b = k.builder
    first, second = k.load(values(I32, 40, 1)), k.load(values(I32, 40, 2))
    zero, one = k.number(0), k.number(1)
    with b.for_(zero, k.argument(I32, rounds), one, [first, second, first]) as loop:
        x, y, z = loop.carried
        total = b.binary(Code.ADD, x, b.flip(y, 0))
        b.yield_(*((y, x, total) if swap else (total, b.binary(Code.SUB, y, z), x)))
    for result in loop.results:
        k.result(result)
    k.program("exchange").check(run)


@pytest.mark.parametrize("n", [64, 65, 100, 1000])
@pytest.mark.parametrize("start", [0, 37, -5, 960])
def test_remainders_that_change_nothing_are_no_gathers(n: int, start: int) -> None:
    """``(start + range) % n`` along a row and along a column, in a loop that moves the pointers."""
    k = Kernel()
    b = k.builder
    room = k.pointer(values(F32, 5000, special=False))
    bound = k.argument(I32, n)
    offsets = b.binary(Code.ADD, b.arange(0, 64), b.splat(k.argument(I32, start), (64,)))
    positive = b.binary(
        Code.MAX, b.binary(Code.REM, offsets, b.splat(bound, (64,))), k.number(0, shape=(64,))
    )
    wrapped = b.binary(
        Code.REM, b.binary(Code.MAX, offsets, k.number(0, shape=(64,))), b.splat(bound, (64,))
    )
    rows = b.broadcast(b.reshape(b.arange(0, 4), (4, 1)), (4, 64))
    for columns in (positive, wrapped):
        tile = b.broadcast(b.reshape(columns, (1, 64)), (4, 64))
        where = b.binary(Code.ADD, b.binary(Code.MUL, rows, k.number(7, shape=(4, 64))), tile)
        pointers = b.ptr_add(b.splat(room, (4, 64)), where)
        total = k.number(0, F32, (4, 64))
        with b.for_(k.number(0), k.number(5), k.number(1), [pointers, total]) as loop:
            at, so_far = loop.carried
            so_far = b.binary(Code.ADD, so_far, b.load(at))
            b.yield_(b.ptr_add(at, k.number(11, shape=(4, 64))), so_far)
        k.result(loop.results[1])
        k.result(b.load(loop.results[0]))
    k.program("remainders").check(run)


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
