"""Kernels that wait for what never comes end, and say where they waited and for what; others wait on."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emu
import emu.triton.language as tl
from emu import triton


@triton.jit
def wait_for(flag_ptr, place, value):
    while tl.load(flag_ptr + place, volatile=True) < value:
        pass


@triton.jit
def count_under_a_lock(lock_ptr, count_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(count_ptr, tl.load(count_ptr) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


def line_of(kernel: Any, text: str) -> str:
    lines, first = kernel.src.splitlines(), kernel.fn.__code__.co_firstlineno
    at = next(n for n, line in enumerate(lines) if text in line)
    # The source begins at the line with "def", which the decorator stands before.
    return f"{__file__}:{first + 1 + at}:"


SCRIPT = """
import sys
import numpy as np
sys.path.insert(0, {folder!r})
from emu.tile.cpu.run import watching
from test_spinning import wait_for
watching.publish = lambda spins: print("spins", flush=True)
wait_for[({programs},)](np.zeros(8, np.int32), 3, 1, num_threads={threads})
"""


@pytest.mark.parametrize(("programs", "threads"), [(1, 1), (4, 2)])
def test_an_interrupt_from_the_keyboard_ends_a_kernel_that_spins(
    programs: int, threads: int
) -> None:
    folder = str(Path(__file__).parent)
    script = SCRIPT.format(folder=folder, programs=programs, threads=threads)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "spins\n"
        process.send_signal(signal.SIGINT)
        last = process.stderr.read().strip().splitlines()[-1]
    assert process.returncode in (-signal.SIGINT, 130)
    assert last.startswith("KeyboardInterrupt: in kernel wait_for")
    assert f"in the loop at {line_of(wait_for, 'while')}" in last


def _spin(array_name: str) -> None:
    world = emu.world()
    flags = world.alloc((8,), np.int32, name=array_name)
    world.barrier()
    if world.my_pe == 1:
        wait_for[(1,)](flags.local, 5, 1)
    world.barrier()


def test_a_kernel_that_spins_is_a_wait_of_its_pe() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(_spin, 2, args=("flags",), timeout=3)
    report = str(caught.value)
    assert "PE 0 waits in barrier of group 'world'" in report
    assert "PE 1 waits in kernel wait_for" in report
    assert f"in the loop at {line_of(wait_for, 'while')}" in report
    assert "program (0, 0, 0)" in report
    assert "flag_ptr[5] (i32 at 0x" in report
    assert "(there: 0)" in report
    assert all(isinstance(error, emu.DeadlockError) for error in caught.value.exceptions)


def _fail_beside_a_spin() -> None:
    world = emu.world()
    flags = world.alloc((8,), np.int32)
    world.barrier()
    if world.my_pe == 1:
        wait_for[(1,)](flags.local, 0, 1)
    raise ValueError("PE 0 gives up")


def test_a_kernel_that_spins_ends_when_another_pe_fails() -> None:
    with pytest.raises(ExceptionGroup, match="PE 0") as caught:
        emu.launch(_fail_beside_a_spin, 2, timeout=100)
    (error,) = caught.value.exceptions
    assert "PE 0 gives up" in str(error)


def _ping_pong(rounds: int) -> int:
    world = emu.world()
    flags = world.alloc((8,), np.int32)
    theirs = flags.on(1 - world.my_pe)
    world.barrier()
    if world.my_pe == 0:  # begins
        world.fetch_add(flags, 1, 0)
        for i in range(1, rounds + 1):
            wait_for[(1,)](flags.local, 0, i)
            hand_over_one[(1,)](theirs, i)
            wait_for[(1,)](flags.local, 1, i)
            flags.local[0] = i + 1
    else:
        answer[(1,)](flags.local, theirs, rounds)
    world.barrier()
    return int(flags.local[0])


@triton.jit
def hand_over_one(theirs_ptr, value):
    tl.atomic_xchg(theirs_ptr, value, sem="release")


@triton.jit
def answer(mine_ptr, theirs_ptr, rounds):
    for i in range(1, rounds + 1):
        while tl.atomic_add(mine_ptr, 0, sem="acquire") < i:
            pass
        tl.atomic_xchg(theirs_ptr + 1, i, sem="release")


def test_pes_that_wait_for_each_other_in_kernels_go_on() -> None:
    assert emu.launch(_ping_pong, 2, args=(300,), timeout=60) == [301, 300]


def _late(seconds: float) -> bool:
    world = emu.world()
    flags = world.alloc((8,), np.int32)
    world.barrier()
    if world.my_pe == 1:
        wait_for[(1,)](flags.local, 0, 1)
    else:
        end = time.monotonic() + seconds
        while time.monotonic() < end:  # computes: that is progress, however long it takes
            pass
        world.fetch_add(flags, 1, 1)
    world.barrier()
    return True


def test_a_wait_longer_than_the_time_out_is_none_while_another_pe_computes() -> None:
    assert emu.launch(_late, 2, args=(4.0,), timeout=2) == [True, True]


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_programs_take_turns_at_a_lock(threads: int) -> None:
    lock, count = np.zeros(1, np.int32), np.zeros(1, np.int64)
    count_under_a_lock[(2000,)](lock, count, num_threads=threads)
    assert (lock[0], count[0]) == (0, 2000)


def test_programs_may_wait_for_the_one_before_with_fewer_threads_than_programs() -> None:
    @triton.jit
    def chain(turn_ptr, out_ptr):
        me = tl.program_id(0)
        while tl.load(turn_ptr, volatile=True) != me:
            pass
        tl.store(out_ptr + me, me)
        tl.debug_barrier()
        tl.atomic_add(turn_ptr, 1)

    for threads in (1, 2, 3):
        turn, out = np.zeros(1, np.int32), np.zeros(100, np.int32)
        chain[(100,)](turn, out, num_threads=threads)
        assert out.tolist() == list(range(100))
