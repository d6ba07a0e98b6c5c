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
from emu.check.deadlock import Kind, deadlock_of


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


@pytest.mark.slow
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


# ---- programs that wait for later ones


@triton.jit
def first_waits_for_last(flag_ptr, payload_ptr, out_ptr):
    if tl.program_id(0) == 0:
        tl.atomic_poll(flag_ptr, 1, sem="acquire", scope="gpu")
        tl.store(out_ptr, tl.load(payload_ptr))
    elif tl.program_id(0) == tl.num_programs(0) - 1:
        tl.store(payload_ptr, 42)
        tl.atomic_xchg(flag_ptr, 1, sem="release", scope="gpu")
    else:
        tl.atomic_add(payload_ptr + 1, 1)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("programs", [2, 5, 3000])
def test_a_program_may_wait_for_a_later_one(programs: int, threads: int) -> None:
    flag, payload, out = (np.zeros(2, np.int32) for _ in range(3))
    for _ in range(3):  # the first launch measures; the others know how long it takes
        flag[:], payload[:], out[:] = 0, 0, 0
        first_waits_for_last[(programs,)](flag, payload, out, num_threads=threads)
        assert out[0] == 42
        assert payload[1] == programs - 2


@triton.jit
def backwards(turn_ptr, out_ptr):
    me = tl.num_programs(0) - 1 - tl.program_id(0)
    while tl.load(turn_ptr, volatile=True) != me:
        pass
    tl.store(out_ptr + me, tl.load(turn_ptr, volatile=True) + 1)
    tl.debug_barrier()
    tl.atomic_add(turn_ptr, 1)


@pytest.mark.parametrize("threads", [1, 2])
def test_each_program_may_wait_for_the_next(threads: int) -> None:
    turn, out = np.zeros(1, np.int32), np.zeros(60, np.int32)
    backwards[(60,)](turn, out, num_threads=threads)
    assert out.tolist() == list(range(1, 61))


@triton.jit
def phases(count_ptr, x_ptr, out_ptr, ROUNDS: tl.constexpr):
    me, n = tl.program_id(0), tl.num_programs(0)
    for i in range(ROUNDS):
        tl.store(x_ptr + me, me + i)
        tl.atomic_add(count_ptr, 1)
        while tl.atomic_add(count_ptr, 0) < n * (2 * i + 1):
            pass
        tl.atomic_add(out_ptr + me, tl.load(x_ptr + (me + 1) % n, volatile=True))
        tl.atomic_add(count_ptr, 1)
        while tl.atomic_load(count_ptr) < n * (2 * i + 2):  # a volatile load acquires nothing
            pass


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("programs", [2, 33, 100])
def test_a_grid_may_have_barriers(programs: int, threads: int) -> None:
    count, x, out = (np.zeros(programs, np.int32) for _ in range(3))
    phases[(programs,)](count, x, out, 3, num_threads=threads)
    following = (np.arange(programs) + 1) % programs
    assert out.tolist() == (3 * following + 3).tolist()


@triton.jit
def scan_with_look_back(
    x_ptr, y_ptr, sums_ptr, state_ptr, BLOCK: tl.constexpr, REVERSE: tl.constexpr
):
    me = tl.program_id(0)
    if REVERSE:
        me = tl.num_programs(0) - 1 - me
    at = me * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    before = 0
    if me > 0:
        tl.atomic_poll(state_ptr + me - 1, 1, sem="acquire")
        before = tl.load(sums_ptr + me - 1)
    tl.store(sums_ptr + me, before + tl.sum(x))
    tl.atomic_xchg(state_ptr + me, 1, sem="release")
    tl.store(y_ptr + at, before + tl.cumsum(x, 0))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_scan_may_look_back_in_either_order(threads: int, reverse: bool) -> None:
    x = np.random.default_rng(0).integers(-9, 9, 64 * 120).astype(np.int32)
    y, sums, state = np.zeros_like(x), np.zeros(120, np.int32), np.zeros(120, np.int32)
    scan_with_look_back[(120,)](x, y, sums, state, 64, reverse, num_threads=threads)
    np.testing.assert_array_equal(y, np.cumsum(x))


@triton.jit
def stream_k(a_ptr, b_ptr, c_ptr, part_ptr, lock_ptr, K, SPLITS: tl.constexpr, B: tl.constexpr):
    tile, split = tl.program_id(0) // SPLITS, tl.program_id(0) % SPLITS
    rows, columns = tile * B + tl.arange(0, B), tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for k in range(split * K // SPLITS, (split + 1) * K // SPLITS, B):
        inner = k + tl.arange(0, B)
        a = tl.load(a_ptr + rows[:, None] * K + inner[None, :])
        acc += tl.dot(a, tl.load(b_ptr + inner[:, None] * B + columns[None, :]))
    at = tl.arange(0, B)[:, None] * B + columns[None, :]
    if split == 0:  # the first collects what the later ones have
        for other in range(1, SPLITS):
            while tl.atomic_cas(lock_ptr + tile * SPLITS + other, 1, 1) != 1:
                pass
            acc += tl.load(part_ptr + (tile * SPLITS + other) * B * B + at)
        tl.store(c_ptr + rows[:, None] * B + columns[None, :], acc)
    else:
        tl.store(part_ptr + (tile * SPLITS + split) * B * B + at, acc)
        tl.debug_barrier()
        tl.atomic_xchg(lock_ptr + tile * SPLITS + split, 1)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_first_program_of_a_tile_may_collect_what_later_ones_add(threads: int) -> None:
    rng, size, tiles, splits = np.random.default_rng(1), 16, 12, 4
    a = rng.standard_normal((tiles * size, 128), np.float32)
    b = rng.standard_normal((128, size), np.float32)
    c = np.zeros((tiles * size, size), np.float32)
    part = np.zeros((tiles * splits, size, size), np.float32)
    lock = np.zeros(tiles * splits, np.int32)
    stream_k[(tiles * splits,)](a, b, c, part, lock, 128, splits, size, num_threads=threads)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


@triton.jit
def last_fails(flag_ptr):
    if tl.program_id(0) == tl.num_programs(0) - 1:
        tl.device_assert(tl.load(flag_ptr) == 1, "the last one fails")
    else:
        while tl.load(flag_ptr, volatile=True) == 0:
            pass


@pytest.mark.parametrize("threads", [1, 2])
def test_a_failed_assertion_ends_those_that_wait(threads: int) -> None:
    flag, payload, out = (np.zeros(2, np.int32) for _ in range(3))
    with pytest.raises(RuntimeError, match=r"the last one fails \(.*program \(6, 0, 0\)"):
        last_fails[(7,)](flag, debug=True, num_threads=threads)
    first_waits_for_last[(4,)](flag, payload, out, num_threads=threads)
    assert out[0] == 42


def _all_wait() -> None:
    flags = np.zeros(8, np.int32)
    first_waits_for_last[(2,)](flags, np.zeros(2, np.int32), np.zeros(1, np.int32))
    crossed[(3,)](flags)


@triton.jit
def crossed(flag_ptr):
    me = tl.program_id(0)
    while tl.load(flag_ptr + 1 + (me + 1) % 3, volatile=True) == 0:
        pass
    tl.store(flag_ptr + 1 + me, 1)


def test_programs_that_all_wait_in_vain_are_a_deadlock() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(_all_wait, 1, timeout=3)
    report = str(caught.value)
    for program in range(3):
        assert f"program ({program}, 0, 0) of (3, 1, 1), in the loop at" in report
        assert f"flag_ptr[{1 + (program + 1) % 3}] (i32 at 0x" in report


def _too_many() -> None:
    backwards[(400,)](np.zeros(1, np.int32), np.zeros(400, np.int32))


@pytest.mark.slow
def test_more_programs_than_can_wait_at_once_are_named() -> None:
    with pytest.raises(
        ExceptionGroup, match="144 programs have not begun, as at most 256 of"
    ) as caught:
        emu.launch(_too_many, 1, timeout=3)
    found = deadlock_of(caught.value)
    assert found is not None
    assert [cause.kind for cause in found.causes] == [Kind.LATER_PROGRAM]


INTERRUPTED = """
import signal, sys
import numpy as np
sys.path.insert(0, {folder!r})
from test_spinning import crossed, first_waits_for_last
def launch_another(number, frame):
    out = np.zeros(2, np.int32)
    first_waits_for_last[(3,)](np.ones(2, np.int32), np.full(2, 7, np.int32), out)
    print("launched", out[0], flush=True)
    signal.signal(signal.SIGALRM, interrupt)
    # Again and again: an exception that is raised while Python is called back from native code is lost.
    signal.setitimer(signal.ITIMER_REAL, 0.3, 2.0)
def interrupt(number, frame):
    raise KeyboardInterrupt
first_waits_for_last[(3,)](*(np.zeros(2, np.int32) for _ in range(3)))
signal.signal(signal.SIGALRM, launch_another)
signal.setitimer(signal.ITIMER_REAL, 0.5)
try:
    crossed[(3,)](np.zeros(8, np.int32), num_threads={threads})
except KeyboardInterrupt as error:
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(error, flush=True)
out = np.zeros(2, np.int32)
first_waits_for_last[(3,)](np.zeros(2, np.int32), np.zeros(2, np.int32), out, num_threads={threads})
print("then", out[0])
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_signals_are_handled_while_programs_take_turns(threads: int) -> None:
    script = INTERRUPTED.format(folder=str(Path(__file__).parent), threads=threads)
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=False
    )
    lines = found.stdout.splitlines()
    assert len(lines) == 3, found.stderr
    assert lines[0].startswith("launched")
    assert lines[1].startswith("in kernel crossed")
    assert lines[2] == "then 42"


@triton.jit
def signal_through_a_table(bases_ptr, place, pe):
    flag_ptr = tl.cast(tl.load(bases_ptr + pe), tl.pointer_type(tl.int32))
    tl.atomic_xchg(flag_ptr + place, 1, sem="release", scope="sys")


@triton.jit
def wait_through_a_table(bases_ptr, place, pe):
    done = 0
    while done == 0:
        flag_ptr = tl.cast(tl.load(bases_ptr + pe), tl.pointer_type(tl.int32))
        done = tl.atomic_cas(flag_ptr + place, 1, 0, sem="acquire", scope="sys")


def _signal_in_the_own_heap() -> None:
    world = emu.world()
    flags = world.alloc((8,), np.int32, name="flags")
    bases = np.array([flags.on(pe).ctypes.data for pe in range(2)])
    world.barrier()
    if world.my_pe == 0:
        signal_through_a_table[(1,)](bases, 3, 0)  # a mistake: PE 1 waits
    else:
        wait_through_a_table[(1,)](bases, 3, 1)
    world.barrier()


def test_a_flag_that_was_stored_in_the_wrong_heap_is_named_as_the_cause() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(_signal_in_the_own_heap, 2, timeout=2)
    found = deadlock_of(caught.value)
    assert found is not None
    cause = found.causes[0]
    assert cause.kind is Kind.OTHER_PE
    assert cause.pes == (1,)
    assert "flags[3] on PE 1, where 0 is, but at that place of PE 0's heap is 1" in cause.text
    # The table of addresses, which the loop reads too, is not what it waits for.
    assert "bases_ptr" not in str(found)
