"""Bounds of tiles, computed by a few scalars."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from emu.tile.ir import Builder, Function, Module, Region, Value
from emu.tile.ops import Code
from emu.tile.passes.intervals import Arithmetic, Interval, Intervals, Scope
from emu.tile.reference import run
from emu.tile.types import I32, I64, Pointer

Make = Callable[[Builder, Value], Value]


def bounds(make: Make, n: int, mask: Make | None = None) -> tuple[int, int, bool, int]:
    """Return low, high, whether they are valid, and the number of reductions that were needed."""
    out, argument = Value(Pointer(I64)), Value(I32)
    scope = Scope()
    home = dict.fromkeys((out, argument), scope)
    b = scope.builder()
    value = make(b, argument)
    wanted = None if mask is None else mask(b, argument)
    for operation in scope.out:
        home.update(dict.fromkeys(operation.results, scope))
    intervals = Intervals(scope, home)
    if wanted is not None:
        intervals.assume(wanted)
    found: Interval = intervals.of(value)
    arithmetic = Arithmetic(scope.builder())
    fine = b.cast(arithmetic.all(found.conditions), I64)
    for n_word, word in enumerate(
        (arithmetic.value(found.low), arithmetic.value(found.high), fine)
    ):
        b.store(b.ptr_add(out, b.constant(n_word, I64)), word)
    b.return_()
    result = np.zeros(3, np.int64)
    module = Module({"k": Function("k", Region([out, argument], scope.out))})
    run(module, [result.ctypes.data, n])
    reductions = sum(o.code is Code.REDUCE for o in scope.out)
    return int(result[0]), int(result[1]), bool(result[2]), reductions


def row(b: Builder, n: Value) -> Value:
    return b.binary(Code.ADD, b.splat(n, (8,)), b.arange(0, 8))


@pytest.mark.parametrize("n", [-5, 0, 3, 1000])
def test_affine_tiles_need_no_look_at_their_elements(n: int) -> None:
    assert bounds(row, n) == (n, n + 7, True, 0)
    times = bounds(lambda b, v: b.binary(Code.MUL, row(b, v), b.splat(v, (8,))), n)
    assert times == (min(n * n, n * (n + 7)), max(n * n, n * (n + 7)), True, 0)


def test_a_value_that_wraps_is_no_longer_known() -> None:
    def wide(b: Builder, n: Value) -> Value:
        return b.cast(row(b, n), I64)

    assert bounds(wide, 2**31 - 8)[2]
    assert not bounds(wide, 2**31 - 7)[2]


def test_a_mask_narrows_what_it_compares() -> None:
    def below(b: Builder, n: Value) -> Value:
        return b.compare(Code.LT, b.arange(0, 8), b.splat(n, (8,)))

    shared: list[Value] = []

    def tile(b: Builder, n: Value) -> Value:
        shared[:] = [b.arange(0, 8)]
        return b.binary(Code.MUL, shared[0], b.constant(3, shared[0].type))

    def mask(b: Builder, n: Value) -> Value:
        return b.compare(Code.LT, shared[0], b.splat(n, (8,)))

    assert bounds(tile, 5, mask)[:3] == (0, 12, True)
    assert bounds(tile, 100, mask)[:3] == (0, 21, True)
    assert bounds(tile, 5, below)[:3] == (0, 21, True)  # of other elements it says nothing


def test_a_mask_of_rows_says_nothing_of_columns() -> None:
    shared: list[Value] = []

    def tile(b: Builder, n: Value) -> Value:
        line = b.arange(0, 8)
        shared[:] = [b.broadcast(b.reshape(line, (8, 1)), (8, 8)), line]
        return b.broadcast(b.reshape(line, (1, 8)), (8, 8))

    def mask(b: Builder, n: Value) -> Value:
        return b.compare(Code.LT, shared[0], b.splat(n, (8, 8)))

    def flat(b: Builder, n: Value) -> Value:
        less = b.compare(Code.LT, shared[1], b.splat(n, (8,)))
        return b.broadcast(b.reshape(less, (8, 1)), (8, 8))

    def columns(b: Builder, n: Value) -> Value:
        less = b.compare(Code.LT, shared[1], b.splat(n, (8,)))
        return b.broadcast(b.reshape(less, (1, 8)), (8, 8))

    assert bounds(tile, 3, mask)[:3] == (0, 7, True)
    assert bounds(tile, 3, flat)[:3] == (0, 7, True)
    assert bounds(tile, 3, columns)[:3] == (0, 2, True)


def test_what_is_not_affine_is_reduced() -> None:
    def squares(b: Builder, n: Value) -> Value:
        return b.binary(Code.MULHI, row(b, n), row(b, n))

    low, high, fine, reductions = bounds(squares, 3)
    assert (low, high, fine, reductions) == (0, 0, True, 2)
