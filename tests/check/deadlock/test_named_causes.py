"""Deadlocks with their causes: each a small program whose report names what is wrong in it, at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import emu
import emu.pypto as p
from emu.check.deadlock import Deadlock, Kind, deadlock_of
from emu.mc2 import Hccl

ADD = emu.AtomicOp.ADD
EQ, GE = emu.Cmp.EQ, emu.Cmp.GE


def report_of(
    program: Callable[..., object], n_pes: int, *args: object, timeout: float = 60.0
) -> Deadlock:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(program, n_pes, args=args, timeout=timeout)
    found = deadlock_of(caught.value)
    assert found is not None
    assert found.text == str(found) == caught.value.message
    return found


# --- PEs that have ended -------------------------------------------------------------------------


def returns_before_a_barrier() -> None:
    world = emu.world()
    if world.my_pe == 1:
        return  # early
    world.barrier()


def skips_a_collective() -> None:
    world = emu.world()
    if world.my_pe != 2:
        world.all_reduce(np.ones(4))


def forgets_to_signal() -> None:
    world = emu.world()
    flags = world.alloc(2, np.int32, name="flags")
    if world.my_pe == 0:
        world.wait_until(flags, GE, 1)


def waits_alone() -> None:
    world = emu.world()
    flags = world.alloc(1, np.int32, name="flags")
    world.wait_until(flags, EQ, 1)


# --- orders that cross ---------------------------------------------------------------------------


def crosses_two_groups() -> None:
    world = emu.world()
    first, second = (world.group(name, range(world.n_pes)) for name in ("first", "second"))
    for group in (first, second) if world.my_pe else (second, first):
        group.all_reduce(np.ones(4))


def takes_the_world_for_a_group() -> None:
    world = emu.world()
    if world.my_pe < 2:
        pair = world.group("pair", [0, 1])
        if world.my_pe:
            pair.barrier()
    world.barrier()


def crosses_three_groups() -> None:
    world = emu.world()
    me = world.my_pe
    mine = [world.group(f"pair{low}", [low, (low + 1) % 3]) for low in (me, (me - 1) % 3)]
    mine[0].barrier()  # 0 with 1, 1 with 2, 2 with 0
    mine[1].barrier()


def wait_for_each_other() -> None:
    world = emu.world()
    flags = world.alloc(1, np.int32, name="flags")
    world.wait_until(flags, GE, 1)
    world.signal_op(flags, 1, 1 - world.my_pe)


def wait_around_a_ring() -> None:
    world = emu.world()
    flags = world.alloc(4, np.int64, name="flags")
    world.wait_until_all(flags, GE, 1, indices=[1, 3])
    world.signal_op(flags, 1, (world.my_pe + 1) % world.n_pes, index=1)


def waits_in_a_barrier_for_a_waiter() -> None:
    world = emu.world()
    flags = world.alloc(1, np.int32, name="flags")
    if world.my_pe == 0:
        world.wait_until(flags, EQ, 1)
    world.barrier()
    world.signal_op(flags, 1, 0)


# --- signals that come elsewhere, or otherwise ---------------------------------------------------


def signals_at_another_index() -> None:
    world = emu.world()
    flags = world.alloc(4, np.int32, name="flags")
    if world.my_pe == 0:
        world.wait_until(flags, GE, 1, index=0)
    else:
        world.signal_op(flags, 1, 0, index=1)


def signals_in_another_array() -> None:
    world = emu.world()
    ready, done = world.alloc(1, np.int32, name="ready"), world.alloc(1, np.int32, name="done")
    if world.my_pe == 0:
        world.wait_until(done, EQ, 1)
    else:
        world.signal_op(ready, 1, 0)


def signals_on_another_pe() -> None:
    world = emu.world()
    flags = world.alloc(1, np.int32, name="flags")
    if world.my_pe == 0:
        world.wait_until(flags, EQ, 7)
    elif world.my_pe == 1:
        world.signal_op(flags, 7, 2)


def adds_beyond_the_value() -> None:
    world = emu.world()
    flags = world.alloc(1, np.int32, name="flags")
    if world.my_pe:
        world.signal_op(flags, 1, 0, op=ADD)
    world.barrier()
    if world.my_pe == 0:
        world.wait_until(flags, EQ, 1)


def sets_what_is_counted() -> None:
    world = emu.world()
    flags = world.alloc(1, np.int32, name="flags")
    if world.my_pe == 0:
        world.wait_until(flags, GE, 2)
    else:
        world.signal_op(flags, 1, 0)


def adds_too_few() -> None:
    world = emu.world()
    flags = world.alloc(1, np.int32, name="flags")
    if world.my_pe == 0:
        world.wait_until(flags, EQ, 3)  # itself does not signal
    else:
        world.signal_op(flags, 1, 0, op=ADD)


def sends_another_value() -> None:
    world = emu.world()
    flags = world.alloc(1, np.uint32, name="flags")
    if world.my_pe == 0:
        world.wait_until(flags, EQ, 1)
    else:
        world.signal_op(flags, 2**32 - 1, 0)


def clears_by_a_store() -> None:
    world = emu.world()
    flags = world.alloc(1, np.int32, name="flags")
    if world.my_pe:
        world.signal_op(flags, 1, 0)
    world.barrier()
    if world.my_pe == 0:
        flags.local[0] = 0
        world.wait_until(flags, EQ, 1)


def clears_by_a_signal() -> None:
    world = emu.world()
    flags = world.alloc(1, np.int32, name="flags")
    if world.my_pe:
        world.signal_op(flags, 1, 0)
    world.barrier()
    if world.my_pe == 0:
        world.signal_op(flags, 0, 0)
        world.wait_until(flags, EQ, 1)


# --- locks ---------------------------------------------------------------------------------------


def forgets_to_clear_a_lock() -> None:
    world = emu.world()
    lock = world.alloc(2, np.int64, name="lock", poison=False)
    if world.my_pe == 1:
        world.set_lock(lock, index=1)
    world.barrier()
    if world.my_pe == 0:
        world.set_lock(lock, index=1)


def sets_locks_in_two_orders() -> None:
    world = emu.world()
    locks = world.alloc(2, np.int64, name="locks", poison=False)
    world.set_lock(locks, index=world.my_pe)
    world.barrier()
    world.set_lock(locks, index=1 - world.my_pe)


def meets_with_a_lock_in_its_hand() -> None:
    world = emu.world()
    lock = world.alloc(1, np.int64, name="lock", poison=False)
    taken = world.alloc(1, np.int32)
    if world.my_pe == 0:
        world.set_lock(lock)
        for pe in range(1, world.n_pes):
            world.signal_op(taken, 1, pe)
        world.barrier()
        world.clear_lock(lock)
    else:
        world.wait_until(taken, EQ, 1)
        world.set_lock(lock)
        world.barrier()


# --- layers above --------------------------------------------------------------------------------


def prepares_no_task() -> None:
    world = emu.world()
    if world.my_pe == 1:
        world.barrier()
        return
    with Hccl() as hccl:
        handle = hccl.AllGather(np.ones(8, np.float32), np.ones((2, 8), np.float32), 8)
        hccl.Commit(handle)
        hccl.Wait(handle)


def tiles_differ() -> None:
    p.set_vec_tile_shapes(4, 8)
    data = p.distributed.create_shmem_tensor("tp", 2, p.DT_FP32, [8, 16])
    if emu.world().my_pe == 1:
        p.set_vec_tile_shapes(2, 8)
        p.distributed.shmem_signal(data, 1, 1, target_pe=0)
    else:
        p.distributed.shmem_wait_until(data, 1, 1)


def op_waits_for_none() -> None:
    data = p.distributed.create_shmem_signal("tp", 2)
    if emu.world().my_pe == 0:
        p.distributed.shmem_wait_until(data, 1, 1)


class Case(NamedTuple):
    program: Callable[[], None]
    n_pes: int
    kind: Kind
    says: str
    """What the text of the cause says."""
    stuck: set[int]


CASES = [
    Case(
        returns_before_a_barrier,
        3,
        Kind.PE_ENDED,
        "in returns_before_a_barrier), but PEs 0 and 2 wait for it in barrier of group 'world'",
        {0, 2},
    ),
    Case(
        skips_a_collective,
        3,
        Kind.PE_ENDED,
        "PEs 0 and 1 wait for it in barrier of group 'world (all_reduce)'",
        {0, 1},
    ),
    Case(
        forgets_to_signal,
        2,
        Kind.PE_ENDED,
        "nobody is left to end PE 0's wait_until flags[0] GE 1",
        {0},
    ),
    Case(waits_alone, 1, Kind.NO_SENDER, "there is no other PE in the group", {0}),
    Case(
        crosses_two_groups,
        3,
        Kind.CROSSED_GROUPS,
        "PE 0 waits in barrier of group 'second (all_reduce)'",
        {0, 1, 2},
    ),
    Case(
        takes_the_world_for_a_group,
        3,
        Kind.CROSSED_GROUPS,
        "PE 1 waits in barrier of group 'pair'",
        {0, 1, 2},
    ),
    Case(crosses_three_groups, 3, Kind.CROSSED_GROUPS, "PEs 0, 1 and 2 call", {0, 1, 2}),
    Case(wait_for_each_other, 2, Kind.CROSSED_SIGNALS, "each wait for a signal before", {0, 1}),
    Case(
        wait_around_a_ring, 4, Kind.CROSSED_SIGNALS, "wait_until_all flags[1] GE 1", {0, 1, 2, 3}
    ),
    Case(
        waits_in_a_barrier_for_a_waiter,
        3,
        Kind.BARRIER_AND_SIGNAL,
        "PE 0 waits in wait_until flags[0] EQ 1",
        {0, 1, 2},
    ),
    Case(
        signals_at_another_index,
        2,
        Kind.OTHER_INDEX,
        "PE 0 waits for flags[0] GE 1, but PE 1 (SET, to 1) signalled flags[1] there",
        {0},
    ),
    Case(
        signals_in_another_array,
        2,
        Kind.OTHER_ARRAY,
        "PE 0 waits for done[0] EQ 1, but PE 1 (SET, to 1) signalled ready[0], another array",
        {0},
    ),
    Case(
        signals_on_another_pe,
        3,
        Kind.OTHER_PE,
        "PE 0 waits for flags[0] EQ 7, but PE 1 (SET, to 7) signalled flags[0] on PE 2",
        {0},
    ),
    Case(
        adds_beyond_the_value,
        3,
        Kind.OVERTAKEN,
        "PE 0 waits for flags[0] EQ 1, but it is 2: another ADD, PE ",
        {0},
    ),
    Case(
        sets_what_is_counted,
        3,
        Kind.SET_NOT_ADD,
        "PE 0 waits for flags[0] GE 2, a count, but PE ",
        {0},
    ),
    Case(adds_too_few, 3, Kind.TOO_FEW, "PE 0 waits for flags[0] EQ 3, but it is 2: PE ", {0}),
    Case(
        sends_another_value,
        2,
        Kind.OTHER_VALUE,
        "PE 0 waits for flags[0] EQ 1, but it is 4294967295, written by PE 1 (SET)",
        {0},
    ),
    Case(
        clears_by_a_store,
        2,
        Kind.CLEARED,
        "flags[0] held 1 after PE 1 (SET), and holds 0 now: a plain store",
        {0},
    ),
    Case(
        clears_by_a_signal,
        2,
        Kind.CLEARED,
        "flags[0] was signalled by PE 1 (SET), and then PE 0 (SET), which waits for it, wrote 0",
        {0},
    ),
    Case(
        forgets_to_clear_a_lock,
        2,
        Kind.LOCK_NOT_RELEASED,
        "PE 0 waits for the lock lock[1], held by PE 1, which has ended without releasing it (it ret",
        {0},
    ),
    Case(
        sets_locks_in_two_orders,
        2,
        Kind.LOCK_NOT_RELEASED,
        "PE 0 waits for the lock locks[1], held by PE 1, which waits itself, in set_lock(locks[0])",
        {0, 1},
    ),
    Case(
        meets_with_a_lock_in_its_hand,
        3,
        Kind.LOCK_NOT_RELEASED,
        "PE 1 waits for the lock lock[0], held by PE 0, which waits itself, in barrier of group",
        {0, 1, 2},
    ),
    Case(prepares_no_task, 2, Kind.TASK_NOT_PREPARED, "for ranks [1] to prepare task 0", {0, 1}),
    Case(
        tiles_differ, 2, Kind.OTHER_TILES, "signalled in other tiles, of [2, 8] instead of [4, 8]", {0}
    ),
    Case(
        op_waits_for_none, 2, Kind.NO_PREDECESSOR, "no PE has signalled these slots", {0}
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.program.__name__)
def test_a_deadlock_is_told_at_once_with_its_cause(case: Case) -> None:
    found = report_of(case.program, case.n_pes)
    assert found.is_proved
    assert {each.pe for each in found.waiting} == case.stuck
    assert found.causes
    assert found.causes[0].kind is case.kind, str(found)
    assert case.says in found.causes[0].text
    assert found.causes[0].advice
    assert f"  cause: {found.causes[0].text}" in str(found)
    assert str(found).startswith("deadlock: nobody can release PE")


def test_the_line_where_a_pe_returned_is_named() -> None:
    found = report_of(returns_before_a_barrier, 3)
    line = returns_before_a_barrier.__code__.co_firstlineno + 3
    assert found.missing == (1,)
    assert [each.pe for each in found.ended] == [1]
    assert found.ended[0].at == f"{__file__}:{line} in returns_before_a_barrier"
    assert f"(it returned at {__file__}:{line} in returns_before_a_barrier)" in str(found)


def test_the_cycle_is_shown() -> None:
    found = report_of(crosses_three_groups, 3)
    assert found.cycle == (0, 1, 2) or found.cycle == (0, 2, 1)
    assert "  cycle: PE 0 (barrier of group 'pair0') waits for PE " in str(found)
    for each in found.waiting:
        assert each.needs_all
        assert len(each.waits_for) == 1
        assert each.at.startswith(f"{__file__}:")


# --- what is found by the time-out alone ---------------------------------------------------------


def keeps_a_lock() -> None:
    world = emu.world()
    lock = world.alloc(1, np.int32, name="lock")
    if world.my_pe == 0:
        world.compare_swap(lock, 0, 1, 0)
    world.barrier()
    if world.my_pe == 1:
        while world.compare_swap(lock, 0, 2, 0) != 0:
            pass


def takes_locks_in_two_orders() -> None:
    world = emu.world()
    locks = world.alloc(2, np.int32, name="locks")
    mine = world.my_pe
    world.compare_swap(locks, 0, 1 + mine, 0, index=mine)
    world.barrier()
    while world.compare_swap(locks, 0, 1 + mine, 0, index=1 - mine) != 0:
        pass


def computes_for_ever_beside_a_deadlock() -> None:
    world = emu.world()
    pair = world.group("pair", [0, 1]) if world.my_pe < 2 else None
    if pair is not None:
        flags = pair.alloc(1, np.int32, name="flags")
        pair.wait_until(flags, EQ, 1)
    while True:
        sum(range(1000))


def test_a_lock_whose_owner_has_ended_is_named() -> None:
    found = report_of(keeps_a_lock, 2, timeout=1.0)
    assert not found.is_proved
    assert found.causes[0].kind is Kind.LOCK_NOT_RELEASED
    assert (
        "PE 1 waits for the lock lock[0] on PE 0, held by PE 0, which has ended without releasing it"
        in found.causes[0].text
    )
    assert str(found).startswith("no progress for 1 s: every PE that could move another waits\n")


def test_locks_in_two_orders_are_named() -> None:
    found = report_of(takes_locks_in_two_orders, 2, timeout=1.0)
    texts = [cause.text for cause in found.causes]
    assert {cause.kind for cause in found.causes} == {Kind.LOCK_NOT_RELEASED}
    assert any("PE 0 waits for the lock locks[1] on PE 0, held by PE 1" in text for text in texts)
    assert any("PE 1 waits for the lock locks[0] on PE 0, held by PE 0" in text for text in texts)
    assert set(found.cycle) == {0, 1}


def test_a_part_that_is_deadlocked_is_told_while_the_others_compute() -> None:
    found = report_of(computes_for_ever_beside_a_deadlock, 3)
    assert found.is_proved
    assert [each.pe for each in found.waiting] == [0, 1]
    assert found.causes[0].kind is Kind.CROSSED_SIGNALS
