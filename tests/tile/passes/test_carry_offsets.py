"""Loops carry a scalar instead of a tile that moves evenly, and do the same."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from tile_cpu_runner import run
from tile_harness import Kernel

from emu.tile import reference
from emu.tile.ir import Module, Operation
from emu.tile.ops import Code
from emu.tile.passes import CarryOffsets
from emu.tile.types import I32, I64, Tile
from emu.tile.verify import verify

MOVES = {
    "a number": (Code.PTR_ADD, 7, False),
    "a scalar of the launch": (Code.PTR_ADD, None, False),
    "an integer, backwards": (Code.SUB, 3, True),
}


def walking(move: str) -> Kernel:
    """A kernel whose loop carries pointers or offsets of a row, and a sum."""
    code, amount, of_integers = MOVES[move]
    k = Kernel()
    b = k.builder
    data = k.pointer(np.arange(400, dtype=np.int32))
    offsets = b.binary(Code.ADD, b.arange(0, 32), k.number(100, shape=(32,)))
    first = offsets if of_integers else b.ptr_add(b.splat(data, (32,)), offsets)
    step = b.splat(k.argument(I32, 5), (32,))
    if amount is not None:
        step = k.number(amount, shape=(32,))
    total = k.number(0, I32, (32,))
    with b.for_(k.number(0), k.argument(I32, 9), k.number(1), [first, total]) as loop:
        at, so_far = loop.carried
        pointers = b.ptr_add(b.splat(data, (32,)), at) if of_integers else at
        so_far = b.binary(Code.ADD, so_far, b.load(pointers))
        moved = b.ptr_add(at, step) if code is Code.PTR_ADD else b.binary(code, at, step)
        b.yield_(moved, so_far)
    k.result(loop.results[1])
    if of_integers:
        k.result(loop.results[0])
    else:
        k.result(b.load(loop.results[0]))
    return k


def loop_of(module: Module) -> Operation:
    (found,) = (o for o in module.kernel.body.walk() if o.code is Code.FOR)
    return found


@pytest.mark.parametrize("move", MOVES)
def test_a_tile_that_moves_evenly_is_carried_as_a_scalar(move: str) -> None:
    program = walking(move).program("walk")
    assert isinstance(loop_of(program.module).results[0].type, Tile)

    def rewritten(module: Module, arguments: object, grid: object) -> None:
        module = copy.deepcopy(module)
        CarryOffsets().apply(module)
        verify(module)
        loop = loop_of(module)
        assert loop.results[0].type == (I32 if MOVES[move][2] else I64)
        assert loop.results[1].type == Tile((32,), I32)  # a sum of what is loaded does not
        reference.run(module, arguments, grid)

    program.check(rewritten)
    program.check(run)


def test_a_tile_that_moves_unevenly_stays_a_tile() -> None:
    k = Kernel()
    b = k.builder
    row = b.arange(0, 8)
    with b.for_(k.number(0), k.number(4), k.number(1), [row]) as loop:
        b.yield_(b.binary(Code.ADD, loop.carried[0], row))
    k.result(loop.results[0])
    module = k.program("p").module
    CarryOffsets().apply(module)
    assert isinstance(loop_of(module).results[0].type, Tile)
