"""Where one loop or a copy stands for what the reference does tile by tile."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_cpu_runner import run
from tile_harness import Kernel, values
from variants import thorough

from emu.tile.ops import Code
from emu.tile.types import F32, I1, I32

SETTINGS = settings(deadline=None, max_examples=60)


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


@pytest.mark.parametrize("n", thorough([64, 65, 100, 1000], 65, 1000))
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
