"""Programs that end: however slowly, however unequally, and however few PEs are left; none is taken for a deadlock."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

import emu

SECONDS = 1.2
"""Longer than two looks, and than the second look at a world in which nothing has changed."""


def compute(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


def others_wait_in_a_barrier() -> int:
    world = emu.world()
    if world.my_pe == 0:
        compute(SECONDS)
    world.barrier()
    return world.my_pe


def others_wait_for_a_signal() -> int:
    world = emu.world()
    flags = world.alloc(1, np.int32)
    if world.my_pe == 0:
        time.sleep(SECONDS)
        for pe in range(1, world.n_pes):
            world.signal_op(flags, 1, pe)
    else:
        world.wait_until(flags, emu.Cmp.EQ, 1)
    return world.my_pe


def arrive_one_by_one() -> int:
    world = emu.world()
    for turn in range(2):
        time.sleep(0.3 * ((world.my_pe + turn) % world.n_pes))
        world.all_reduce(np.ones(4))
        world.barrier()
    return world.my_pe


def ends_after_all_is_sent() -> int:
    world = emu.world()
    flags = world.alloc(2, np.int32)
    if world.my_pe == 0:
        for pe in range(1, world.n_pes):
            world.signal_op(flags, 1, pe)
        return 0
    time.sleep(SECONDS)  # the sender has ended
    world.wait_until(flags, emu.Cmp.EQ, 1)
    if world.my_pe == 1:
        compute(SECONDS)
        world.signal_op(flags, 1, 2, index=1)
    elif world.my_pe == 2:
        world.wait_until(flags, emu.Cmp.EQ, 1, index=1)
    return world.my_pe


def passes_through_a_chain() -> int:
    """Each waits for the one before, of which only the last is free."""
    world = emu.world()
    flags = world.alloc(1, np.int32)
    if world.my_pe == world.n_pes - 1:
        compute(SECONDS)
    else:
        world.wait_until(flags, emu.Cmp.EQ, 1)
    if world.my_pe:
        world.signal_op(flags, 1, world.my_pe - 1)
    return world.my_pe


def a_group_waits_for_one_who_waits_elsewhere() -> int:
    world = emu.world()
    flags = world.alloc(1, np.int32)
    if world.my_pe < 2:
        pair = world.group("pair", [0, 1])
        if world.my_pe == 1:
            world.wait_until(flags, emu.Cmp.EQ, 1)
        pair.barrier()
    else:
        time.sleep(SECONDS)
        world.signal_op(flags, 1, 1)
    world.barrier()
    return world.my_pe


def another_thread_signals() -> int:
    world = emu.world()
    flags = world.alloc(1, np.int32)

    def release() -> None:
        time.sleep(SECONDS)
        world.signal_op(flags, 1, world.my_pe)

    threading.Thread(target=release).start()
    world.wait_until(flags, emu.Cmp.EQ, 1)
    return world.my_pe


def a_daemon_thread_of_one_that_returned_signals() -> int:
    world = emu.world()
    flags = world.alloc(1, np.int32)
    if world.my_pe:
        world.wait_until(flags, emu.Cmp.EQ, 1)
        return world.my_pe

    def release() -> None:
        time.sleep(SECONDS)
        for pe in range(1, world.n_pes):
            world.signal_op(flags, 1, pe)

    threading.Thread(target=release).start()  # Python waits for it
    return 0


def a_handler_signals() -> int:
    world = emu.world()
    flags = world.alloc(1, np.int32)

    def release(number: int, frame: object) -> None:
        world.signal_op(flags, 1, world.my_pe)

    signal.signal(signal.SIGALRM, release)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    world.wait_until(flags, emu.Cmp.EQ, 1)
    return world.my_pe


def a_child_signals() -> int:
    world = emu.world()
    flags = world.alloc(1, np.int32)
    child = os.fork()
    if child == 0:
        time.sleep(SECONDS)
        flags.local[0] = 1
        os._exit(0)
    world.wait_until(flags, emu.Cmp.EQ, 1)
    os.waitpid(child, 0)
    return world.my_pe


def polls_and_gives_up() -> int:
    world = emu.world()
    flags = world.alloc(1, np.int32)
    if world.my_pe == 0:
        end = time.monotonic() + SECONDS
        while not world.test(flags, emu.Cmp.EQ, 1) and time.monotonic() < end:
            pass
    world.barrier()
    return world.my_pe


def take_turns_with_a_lock() -> int:
    world = emu.world()
    lock = world.alloc(1, np.int64, poison=False)
    for _ in range(2):
        world.set_lock(lock)
        compute(0.25)
        world.clear_lock(lock)
    return world.my_pe


PROGRAMS = [
    take_turns_with_a_lock,
    others_wait_in_a_barrier,
    others_wait_for_a_signal,
    arrive_one_by_one,
    ends_after_all_is_sent,
    passes_through_a_chain,
    a_group_waits_for_one_who_waits_elsewhere,
    another_thread_signals,
    a_daemon_thread_of_one_that_returned_signals,
    a_handler_signals,
    a_child_signals,
    polls_and_gives_up,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_ends_by_itself_is_let_alone(program) -> None:
    assert emu.launch(program, 3, timeout=60) == [0, 1, 2]


def ping_pong(seconds: float) -> int:
    world = emu.world()
    flags = world.alloc(world.n_pes, np.int64)
    me, end, turn = world.my_pe, time.monotonic() + seconds, 0
    stop = False
    while not stop:
        turn += 1
        stop = bool(world.all_reduce(np.array([time.monotonic() > end], np.int32), "max")[0])
        world.signal_op(flags, turn, (me + 1) % world.n_pes, index=me)
        world.wait_until(flags, emu.Cmp.GE, turn, index=(me - 1) % world.n_pes)
        if turn % 16 == me:
            time.sleep(0.06)  # the others fall asleep, and say for what
    return me


def test_waits_that_last_a_slice_are_let_alone() -> None:
    n_pes = 12  # more than there are cores: PEs are interrupted anywhere
    assert emu.launch(ping_pong, n_pes, args=(3.0,), timeout=60) == list(range(n_pes))
