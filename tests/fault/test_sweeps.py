"""One program, each of its operations, signals, stores and allocations hit by a fault: it always ends, and as it should."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import emu
from emu.comm.schedule_options import Schedule

N_PES = 3
SCHEDULES = [None, Schedule(strategy="random", seed=11), Schedule(strategy="delay", seed=2)]
with_and_without_schedule = pytest.mark.parametrize(
    "schedule", SCHEDULES, ids=["at once", "random", "delay"]
)


def passes_around() -> list[Any]:
    """Three rounds in a ring, each with a put_signal, an answer by ADD, a lock and a collective."""
    world = emu.world()
    me, n = world.my_pe, world.n_pes
    right, left = (me + 1) % n, (me - 1) % n
    tile, arrived = world.alloc(16, np.int32, name="tile"), world.alloc(2, np.int64, name="arrived")
    lock, total = world.alloc(1, np.int64, name="lock"), world.alloc(1, np.int64, name="total")
    found: list[Any] = []
    for step in range(1, 4):
        world.put_signal(tile, np.full(16, 10 * step + me, np.int32), right, arrived, step)
        world.wait_until(arrived, emu.Cmp.GE, step)
        found.append(tile.local.tolist())
        world.signal_op(arrived, 1, left, op=emu.AtomicOp.ADD, index=1)
        world.wait_until(arrived, emu.Cmp.GE, step, index=1)
        world.set_lock(lock)
        world.put(total, [world.fetch(total, 0) + 1], 0)
        world.quiet()
        world.clear_lock(lock)
        found.append(int(world.all_reduce([me + step])[0]))
    world.barrier()
    found.append(world.fetch(total, 0))
    world.barrier()
    return found


RIGHT = [
    [
        *(
            value
            for step in (1, 2, 3)
            for value in ([10 * step + (pe - 1) % N_PES] * 16, 3 + 3 * step)
        ),
        9,
    ]
    for pe in range(N_PES)
]
OPERATIONS = 4 + 3 * 10 + 3


def outcome(spec: str, schedule: Schedule | None) -> list[Any] | ExceptionGroup:
    try:
        faults = emu.Faults(spec)
        return emu.launch(passes_around, N_PES, faults=faults, schedule=schedule, timeout=20)
    except ExceptionGroup as group:
        return group


@with_and_without_schedule
def test_the_program_is_right(schedule: Schedule | None) -> None:
    assert outcome("", schedule) == RIGHT
    never = f"kill:pe=0,at=op:{OPERATIONS + 1}"
    assert outcome(never, schedule) == RIGHT
    assert isinstance(outcome(f"kill:pe=0,at=op:{OPERATIONS}", schedule), ExceptionGroup)


@pytest.mark.slow
@with_and_without_schedule
def test_a_pe_that_is_killed_at_any_operation_is_named(schedule: Schedule | None) -> None:
    for nth in range(1, OPERATIONS + 1):
        found = outcome(f"kill:pe=1,at=op:{nth}", schedule)
        assert isinstance(found, ExceptionGroup)
        (error,) = found.exceptions
        assert isinstance(error, emu.PEDiedError), nth
        assert (error.pe, error.exitcode) == (1, -9)


@pytest.mark.slow
@with_and_without_schedule
def test_any_lost_signal_is_a_deadlock_and_any_doubled_one_does_no_harm_or_counts_twice(
    schedule: Schedule | None,
) -> None:
    for nth in (1, 2, 3):
        # Those of put_signal go right, and say which round it is: the next one makes up for a lost one, but nobody sends it.
        for to in (2, 0):
            found = outcome(f"drop-signal:from=1,to={to},nth={nth}", schedule)
            assert isinstance(found, ExceptionGroup), (to, nth)
            assert found.split(emu.DeadlockError)[1] is None
            what = "arrived[0] GE" if to == 2 else "arrived[1] GE"
            assert f"PE {to} waits in wait_until for {what} {nth} (there: {nth - 1}" in str(found)
        assert outcome(f"duplicate-signal:from=1,to=2,nth={nth}", schedule) == RIGHT
        # What is counted twice lets PE 0 go on too early; the all_reduce behind it waits for all.
        assert outcome(f"duplicate-signal:from=1,to=0,nth={nth}", schedule) == RIGHT


@pytest.mark.slow
@with_and_without_schedule
def test_any_flipped_bit_is_in_what_arrives(schedule: Schedule | None) -> None:
    for nth in (1, 2, 3):
        found = outcome(f"corrupt:from=1,to=2,nth={nth},seed={nth}", schedule)
        assert isinstance(found, list)
        wrong = [
            (pe, place, a, b)
            for pe in range(N_PES)
            for place, (a, b) in enumerate(zip(found[pe], RIGHT[pe], strict=True))
            if a != b
        ]
        ((pe, place, got, right),) = wrong
        assert (pe, place) == (2, 2 * (nth - 1))
        flipped = np.array(got, np.int32) ^ np.array(right, np.int32)
        assert sum(int(word).bit_count() for word in flipped.view(np.uint32)) == 1


@with_and_without_schedule
def test_any_allocation_that_fails_is_raised(schedule: Schedule | None) -> None:
    for nth in (1, 4):
        found = outcome(f"alloc-fail:pe=2,nth={nth}", schedule)
        assert isinstance(found, ExceptionGroup)
        assert [type(error) for error in found.exceptions] == [emu.SymmetricMemoryError]
