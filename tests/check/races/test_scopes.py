"""``reading`` and ``writing``: what a block does unseen races as if it did it all the time."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import numpy as np
import pytest

import emu
from emu import CheckError, Checks, Cmp
from emu.check import Race
from emu.comm.errors import ArgumentError, SymmetricMemoryError

RACE = Checks(race=True)


def sum_of_a_raw_view(repaired: bool) -> None:
    world = emu.world()
    data = world.alloc(64, np.float32, name="data")
    if world.my_pe == 0:
        world.put(data, np.ones(64, np.float32), 1)  # A
    if repaired:
        world.barrier()
    if world.my_pe == 1:
        with world.reading(data) as view:  # B
            memoryview(view)


def put_into_an_open_scope(repaired: bool) -> None:
    """The put comes after a signal of PE 1, which that sends in its scope, and is over before its end."""
    world = emu.world()
    data, flags = world.alloc(8, np.int32, name="data"), world.alloc(2, np.int64)
    if world.my_pe == 1:
        with world.reading(data):  # A
            if not repaired:
                world.signal_op(flags, 1, 0)
                world.wait_until(flags, Cmp.EQ, 1, index=1)
        if repaired:
            world.signal_op(flags, 1, 0)
    else:
        world.wait_until(flags, Cmp.EQ, 1)
        world.put_signal(data, np.ones(8, np.int32), 1, flags, 1, index=1)  # B


def a_get_from_what_is_written(repaired: bool) -> None:
    world = emu.world()
    data = world.alloc((4, 4), np.float64, name="data")
    if world.my_pe == 0:
        with world.writing(data[1:3]) as view:  # A
            memoryview(view)
    world.barrier() if repaired else None
    if world.my_pe == 1:
        world.get(data[2:], 0)  # B


def memory_of_another(repaired: bool) -> None:
    world = emu.world()
    low = world.group("low", [0, 1]) if world.my_pe < 2 else None
    data = world.alloc(16, np.int8, name="data")
    if low is not None and world.my_pe == 0:
        with low.writing(data, pe=1) as view:  # A
            view[:] = 1
    world.barrier() if repaired else None
    if world.my_pe == 1:
        assert data.local.sum() in (0, 16)  # B


def a_scope_that_fails(repaired: bool) -> None:
    world = emu.world()
    data = world.alloc(16, np.int8, name="data")
    if world.my_pe == 0:
        with pytest.raises(KeyError), world.writing(data):  # A
            raise KeyError
    world.barrier() if repaired else None
    if world.my_pe == 1:
        world.get(data, 0)  # B


PROGRAMS = [
    sum_of_a_raw_view,
    put_into_an_open_scope,
    a_get_from_what_is_written,
    memory_of_another,
    a_scope_that_fails,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_race_is_found_and_its_repair_is_silent(program: Callable[[bool], None]) -> None:
    emu.launch(program, 2, args=(True,), checks=RACE)
    with pytest.raises(CheckError) as raised:
        emu.launch(program, 2, args=(False,), checks=RACE)
    lines, first = inspect.getsourcelines(program)
    marks = {first + i for i, text in enumerate(lines) if re.search("# [AB]$", text)}
    found = [r for r in raised.value.reports if isinstance(r, Race)]
    assert [{r.first.line, r.second.line} for r in found] == [marks]
    assert {r.first.operation for r in found} | {r.second.operation for r in found} >= {"scope"}


def test_the_report_says_that_the_scope_was_open() -> None:
    with pytest.raises(CheckError) as raised:
        emu.launch(put_into_an_open_scope, 2, args=(False,), checks=RACE)
    (report,) = raised.value.reports
    assert "with world.reading(data):  # A" in report.text
    assert re.search(
        r"scope of line \d+ was open, in which PE 1 uses the memory at any time", report.text
    )


def silent() -> None:
    world = emu.world()
    data = world.alloc((8, 16), np.float32, name="data")
    other = 1 - world.my_pe
    with world.writing(data[:, world.my_pe :: 2]) as mine, world.reading(data[:0]):
        mine[...] = 2
        assert type(mine) is np.ndarray
        world.put(data[:, world.my_pe :: 2], mine, other)  # the PE's own, and other columns
    world.barrier()
    with world.reading(data) as one, world.reading(data, pe=other) as two:
        assert one.sum() == two.sum() == 2 * 8 * 16
        assert data.local.sum() == one.sum()
    scope = world.reading(data)
    for _ in range(2):  # it may be entered again
        with scope:
            pass


def test_neighbours_readers_and_the_pe_itself_are_no_race() -> None:
    emu.launch(silent, 2, checks=RACE)
    emu.launch(silent, 2)


def wrong_arguments() -> None:
    world = emu.world()
    data, gone = world.alloc(4, np.float32), world.alloc(4, np.float32)
    alone = world.group(f"alone {world.my_pe}", [world.my_pe])
    mine = alone.alloc(4, np.float32)
    gone.free()
    for method in (world.reading, world.writing, alone.writing):
        with pytest.raises(ArgumentError, match="array must be a SymmetricArray, but got 3"):
            method(3)  # type: ignore[arg-type]
        with pytest.raises(SymmetricMemoryError, match="was freed"):
            method(gone)
        with pytest.raises(ArgumentError, match=r"pe must be .*7"):
            method(data, pe=7)
    with pytest.raises(ArgumentError, match="pe must hold array"):
        world.reading(mine, pe=1 - world.my_pe)
    with world.reading(mine) as view:
        assert view.shape == (4,)


@pytest.mark.parametrize("checks", [None, RACE])
def test_arguments_are_checked_without_a_check_too(checks: Checks | None) -> None:
    emu.launch(wrong_arguments, 2, checks=checks or Checks())
