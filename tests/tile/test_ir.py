"""The builder refuses operands that do not fit, and appends nothing for what changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tile_harness import Kernel

from emu.tile.ir import Builder, Module, TileError, Value
from emu.tile.ops import Code
from emu.tile.types import F32, I1, I32, I64, Tile

SHAPE = (4, 8)
WRONG: dict[str, tuple[Callable[[Builder, Value, Value], object], str]] = {
    "broadcast": (lambda b, x, y: b.broadcast(x, (8, 8)), "cannot be broadcast to (8, 8)"),
    "reshape": (lambda b, x, y: b.reshape(x, (33,)), "cannot be reshaped to (33,)"),
    "permute": (lambda b, x, y: b.permute(x, (0, 0)), "order must permute 2 axes"),
    "split": (lambda b, x, y: b.split(x), "a last axis of extent 2, but got shape (4, 8)"),
    "join": (lambda b, x, y: b.join(x, y), "operands must have one type"),
    "add": (lambda b, x, y: b.binary(Code.ADD, x, y), "tile<4x8xi32>, tile<4x8xf32>"),
    "exp": (lambda b, x, y: b.unary(Code.EXP, x), "exp takes floating-point values"),
    "select": (lambda b, x, y: b.select(x, y, y), "the condition must be i1"),
    "ptr_add": (lambda b, x, y: b.ptr_add(b.constant(0, I64), x), "ptr_add needs one shape"),
    "load": (lambda b, x, y: b.load(x), "load needs pointers"),
    "dot": (lambda b, x, y: b.dot(y, y, y), "dot cannot multiply"),
    "reduce": (
        lambda b, x, y: b.reduce([x], 0, lambda p, q: [b.compare(Code.LT, p, q)]),
        "must give the same",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_operands_that_do_not_fit_are_refused(name: str) -> None:
    build, message = WRONG[name]
    b = Builder()
    x, y = (b.splat(b.constant(1, dtype), SHAPE) for dtype in (I32, F32))
    before = len(b.region.operations)
    with pytest.raises(TileError) as caught:
        build(b, x, y)
    assert message in str(caught.value)
    assert all(o.code is Code.CONSTANT for o in b.region.operations[before:])


def test_what_changes_nothing_appends_nothing() -> None:
    b = Builder()
    x = b.splat(b.constant(1, I32), SHAPE)
    before = len(b.region.operations)
    same = (b.broadcast(x, SHAPE), b.reshape(x, SHAPE), b.cast(x, I32), b.bitcast(x, I32))
    assert all(value is x for value in same)
    assert len(b.region.operations) == before
    scalar = b.constant(1, I32)
    assert b.splat(scalar, ()) is scalar
    assert b.reshape(scalar, (1, 1)).type == Tile((1, 1), I32)


def test_regions_are_walked_from_outside_in_and_the_kernel_is_the_first_function() -> None:
    k = Kernel()
    b = k.builder
    zero = k.number(0)
    with b.for_(zero, k.argument(I32, 3), k.number(1), [zero]) as loop:
        b.yield_(b.binary(Code.ADD, loop.carried[0], loop.index))
    k.result(b.compare(Code.LT, loop.results[0], zero))
    codes = [o.code for o in k.program("p").module.kernel.body.walk()]
    assert codes.index(Code.FOR) + 1 == codes.index(Code.ADD) < codes.index(Code.LT)
    assert loop.results[0].dtype == I32
    assert b.constant(True, I1).shape == ()
    with pytest.raises(TileError, match="a module must have a kernel"):
        assert Module().kernel


def test_values_know_where_they_come_from() -> None:
    k = Kernel()
    x = k.load(np.zeros(SHAPE, np.float32))
    assert x.owner is not None
    assert x.owner.result is x
    assert (x.shape, x.dtype) == (SHAPE, F32)
    assert x.owner.operands[0].owner is not None
