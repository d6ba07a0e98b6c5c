"""Calls that order memory, at the right place and at the wrong one."""

from __future__ import annotations

import numpy as np

from emu import AtomicOp, Cmp, World
from tests.check.rmaracebench.cases import clean, flag, racy, two

ADD = AtomicOp.ADD

# --- barrier, quiet, sync, fence -----------------------------------------------------------------


@racy(2)
def sync_001_the_barrier_comes_behind_the_load_of_a_result(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.get_nbi(shared, 1, mine)  # A
        int(mine.local[0])  # B
    world.barrier()


@clean(2)
def sync_002_a_barrier_completes_get_nbi(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.get_nbi(shared, 1, mine)
    world.barrier()
    if world.my_pe == 0:
        assert not mine.local.any()


@racy(2)
def sync_003_quiet_comes_behind_the_load_of_a_result(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.get_nbi(shared, 1, mine)  # A
        int(mine.local[0])  # B
        world.quiet()


@clean(2)
def sync_004_quiet_completes_get_nbi(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.get_nbi(shared, 1, mine)
        world.quiet()
        assert not mine.local.any()


@clean(2)
def sync_005_an_answer_tells_that_a_source_was_read(world: World, n: int) -> None:
    (shared, mine), ball = two(world, n), flag(world)
    if world.my_pe == 0:
        mine.local[...] = 21
        world.put_signal_nbi(shared, mine, 1, ball, 1)
        world.wait_until(ball, Cmp.EQ, 1)
        mine.local[...] = 22
    else:
        mine.local[...] = 23
        world.wait_until(ball, Cmp.EQ, 1)
        world.put_signal(shared, mine, 0, ball, 1)


@racy(2)
def sync_006_an_answer_that_waited_for_nothing_tells_nothing(world: World, n: int) -> None:
    (shared, mine), ball = two(world, n), flag(world)
    if world.my_pe == 0:
        mine.local[...] = 21
        world.put_signal_nbi(shared, mine, 1, ball, 1)  # A
        world.wait_until(ball, Cmp.EQ, 1)
        mine.local[...] = 22  # B
    else:
        mine.local[...] = 23
        world.put_signal(shared, mine, 0, ball, 1)


@racy(2)
def sync_007_a_pe_gets_what_it_has_just_put(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.put(shared, np.full(n, 21, np.int32), 1)  # A
        world.get(shared, 1, out=mine)  # B
    world.barrier()


@clean(2)
def sync_008_a_barrier_completes_put(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.put(shared, np.full(n, 21, np.int32), 1)
    world.barrier()
    if world.my_pe == 0:
        world.get(shared, 1, out=mine)
        assert (mine.local == 21).all()


@clean(2)
def sync_009_quiet_and_sync_are_a_barrier(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.put(shared, np.full(n, 21, np.int32), 1)
    world.quiet()
    world.sync()
    if world.my_pe == 1:
        world.get(shared, 1, out=mine)
        assert (mine.local == 21).all()


@racy(2)
def sync_010_quiet_alone_tells_the_other_pe_nothing(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.put(shared, np.full(n, 21, np.int32), 1)  # A
    world.quiet()
    if world.my_pe == 1:
        world.get(shared, 1, out=mine)  # B


@clean(2)
def sync_011_fence_orders_two_puts(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.put(shared, mine, 1)
        world.fence()
        world.put(shared, mine, 1)


@racy(2)
def sync_012_fence_does_not_order_get_nbi(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.get_nbi(shared, 1, mine)  # A
        world.fence()
        world.put(shared, np.full(n, 21, np.int32), 1)  # B


# --- locks ---------------------------------------------------------------------------------------


@clean(2)
def sync_013_both_pes_put_under_the_lock(world: World, n: int) -> None:
    (shared, mine), lock = two(world, n), flag(world, np.int64)
    mine.local[...] = 21 + world.my_pe
    world.set_lock(lock)
    world.put(shared, mine, 1)
    world.clear_lock(lock)


@racy(2)
def sync_014_one_pe_puts_when_it_has_cleared_the_lock(world: World, n: int) -> None:
    (shared, mine), lock, turn = two(world, n), flag(world, np.int64), flag(world)
    if world.my_pe == 0:
        world.wait_until(turn, Cmp.EQ, 1)  # so that PE 1 has had the lock
        world.set_lock(lock)
        world.put(shared, mine, 1)  # A
        world.clear_lock(lock)
    else:
        world.set_lock(lock)
        world.clear_lock(lock)
        world.signal_op(turn, 1, 0)
        world.put(shared, mine, 1)  # B


# --- signals -------------------------------------------------------------------------------------


@racy(2)
def sync_015_data_are_loaded_before_the_wait(world: World, n: int) -> None:
    (shared, _), done = two(world, n), flag(world, np.int32)
    if world.my_pe == 0:
        world.put(shared, np.full(n, 21, np.int32), 1)  # A
        world.fence()
        world.signal_op(done, 1, 1)
    world.quiet()
    if world.my_pe == 1:
        int(shared.local[0])  # B
        world.wait_until(done, Cmp.EQ, 1)


@clean(2)
def sync_016_data_are_loaded_behind_the_wait(world: World, n: int) -> None:
    (shared, _), done = two(world, n), flag(world, np.int32)
    if world.my_pe == 0:
        world.put(shared, np.full(n, 21, np.int32), 1)
        world.fence()
        world.signal_op(done, 1, 1)
    world.quiet()
    if world.my_pe == 1:
        world.wait_until(done, Cmp.EQ, 1)
        assert (shared.local == 21).all()


@clean(2)
def sync_017_a_signal_is_polled_by_atomic_fetches(world: World, n: int) -> None:
    rows, done = world.alloc((2, n), np.int32, poison=False), flag(world)
    world.barrier()
    if world.my_pe == 0:
        while world.fetch(done, 0) != 1:
            continue
        assert rows.local.sum() == n
    else:
        world.put_signal(rows[1], np.ones(n, np.int32), 0, done, 1, sig_op=ADD)


@racy(2)
def sync_018_a_signal_is_polled_by_loads(world: World, n: int) -> None:
    (shared, mine), done = two(world, n), flag(world)
    if world.my_pe == 0:
        while done.local[0] < 1:  # A
            continue
        shared.local.sum()  # A also
    else:
        world.put_signal(shared, mine, 0, done, 1, sig_op=ADD)  # B


@clean(2)
def sync_019_quiet_orders_two_puts(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.put(shared, mine, 1)
        world.quiet()
        mine.local[...] = 21
        world.put(shared, mine, 1)


# --- collectives and groups ----------------------------------------------------------------------


@clean(4)
def sync_021_a_barrier_between_a_reduction_and_a_put_to_its_input(world: World, n: int) -> None:
    shared, mine = two(world, n)
    world.all_reduce(mine, out=shared)
    world.barrier()
    if world.my_pe == 0:
        world.put(mine, np.zeros(n, np.int32), 1)
    assert (shared.local == 38).all()


@racy(4)
def sync_022_a_put_to_the_result_of_a_reduction(world: World, n: int) -> None:
    shared, mine = two(world, n)
    world.all_reduce(mine, out=shared)  # A
    if world.my_pe == 0:
        world.put(shared, np.zeros(n, np.int32), 1)  # B


@racy(4)
def sync_023_a_sync_of_other_pes(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe % 2 == 0:
        even = world.group("even", [0, 2])
        if world.my_pe == 2:
            world.put(shared, mine, 3)  # A
        world.quiet()
        even.sync()
    elif world.my_pe == 3:
        int(shared.local[0])  # B


@clean(4)
def sync_024_a_sync_of_a_group(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe % 2 == 0:
        even = world.group("even", [0, 2])
        if world.my_pe == 0:
            world.put(shared, mine, 2)
        world.quiet()
        even.sync()
        if world.my_pe == 2:
            assert (shared.local == 5).all()
