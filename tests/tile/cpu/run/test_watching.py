"""Long loops let Python in: handlers of signals, the stop of a launch; and say what they wait for."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time

import numpy as np
import pytest
from tile_cpu_runner import pack
from tile_harness import Kernel

from emu.tile import cpu
from emu.tile.cpu import call
from emu.tile.cpu.run import pool, watching
from emu.tile.cpu.run.thread import thread_state
from emu.tile.ops import Code, Rmw
from emu.tile.types import I32


class Stop(Exception):
    pass


def spinning(code: Code = Code.LOAD):
    """A kernel whose programs wait for an element each to be something else than 0, and count it."""
    k = Kernel()
    b = k.builder
    flags, out = k.pointer(np.zeros(1, np.int32)), k.pointer(np.zeros(1, np.int32))
    mine = b.ptr_add(flags, b.program_id(0))

    def nothing_there():
        if code is Code.LOAD:
            seen = b.load(mine)
        elif code is Code.ATOMIC_RMW:
            seen = b.atomic_rmw(Rmw.ADD, mine, k.number(0))
        else:
            seen = b.atomic_cas(mine, k.number(7), k.number(7))
        return [b.compare(Code.EQ, seen, k.number(0))]

    b.while_([], k.region(nothing_there), k.region(list))
    b.atomic_rmw(Rmw.ADD, out, k.number(1))
    b.return_()
    return cpu.compile(k.module)


def launch(kernel, flags, programs=1, threads=1):
    out = np.zeros(1, np.int32)
    address, alive = pack(kernel, [flags.ctypes.data, out.ctypes.data])
    kernel.launch(address, programs, 1, 1, threads)
    assert alive
    return int(out[0])


@pytest.fixture
def in_a_moment(monkeypatch):
    """Have a handler called once a kernel runs for long; every launch is taken to be worth threads."""
    monkeypatch.setattr(pool, "WORTH_THREADS_NS", 0)
    before = signal.getsignal(signal.SIGALRM)

    def arm(handler):
        signal.signal(signal.SIGALRM, handler)

        def publish(spins):  # a kernel has asked: it runs
            monkeypatch.setattr(watching, "publish", lambda spins: None)
            signal.setitimer(signal.ITIMER_REAL, 0.01)

        monkeypatch.setattr(watching, "publish", publish)

    yield arm
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def raise_stop(number, frame):
    raise Stop("enough")


@pytest.mark.parametrize("code", [Code.LOAD, Code.ATOMIC_RMW, Code.ATOMIC_CAS])
def test_what_a_signals_handler_raises_ends_a_kernel_that_spins(in_a_moment, code):
    kernel, flags = spinning(code), np.zeros(4, np.int32)
    in_a_moment(raise_stop)
    with pytest.raises(Stop, match="enough") as caught:
        launch(kernel, flags)
    (note,) = caught.value.__notes__
    assert "kernel kernel" in note
    assert f"i32 at {flags.ctypes.data:#x}" in note
    assert "(there: 0)" in note
    flags[:] = 1
    assert launch(kernel, flags) == 1  # the thread's memory is as good as new


def test_a_new_thread_needs_no_python_before_it_asks_whether_to_go_on():
    """What a handler raises in any other code of a callback would be lost."""
    words = []

    def look():
        table = thread_state.buffers[1]
        words.extend((ctypes.c_int64 * (call.WATCH + 1)).from_address(table)[call.GUARD :])

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert len(words) == 2
    assert all(words)


def test_an_interrupt_without_text_is_given_one(in_a_moment):
    def interrupt(number, frame):
        raise KeyboardInterrupt

    in_a_moment(interrupt)
    with pytest.raises(KeyboardInterrupt, match=r"in kernel kernel.*program \(0, 0, 0\)"):
        launch(spinning(), np.zeros(1, np.int32))


@pytest.mark.parametrize("threads", [2, 4])
def test_it_ends_the_programs_of_all_threads_and_the_pool_works_on(in_a_moment, threads):
    kernel, flags = spinning(), np.ones(64, np.int32)
    assert launch(kernel, flags, 64, threads) == 64
    for waiting in (slice(1, None), slice(40, 41), slice(1, 2)):
        flags[:] = 1
        flags[waiting] = 0
        in_a_moment(raise_stop)
        with pytest.raises(Stop) as caught:
            launch(kernel, flags, 64, threads)
        assert "kernel kernel" in caught.value.__notes__[0]
        flags[:] = 1
        assert launch(kernel, flags, 64, threads) == 64


def test_a_handler_that_raises_nothing_lets_the_kernel_go_on_and_may_launch_another(in_a_moment):
    kernel, inner, flags = spinning(), spinning(Code.ATOMIC_RMW), np.zeros(1, np.int32)
    seen = []

    def handler(number, frame):
        seen.append(launch(inner, np.ones(8, np.int32), 8))
        if len(seen) == 3:
            flags[0] = 1
        else:
            signal.setitimer(signal.ITIMER_REAL, 0.05)

    in_a_moment(handler)
    assert launch(kernel, flags) == 1
    assert seen == [8, 8, 8]
    assert thread_state.buffers is thread_state.own_buffers


def test_a_launch_of_many_programs_can_be_ended(in_a_moment):
    k = Kernel()
    b = k.builder
    out = k.pointer(np.zeros(1, np.int32))
    b.atomic_rmw(Rmw.ADD, out, k.number(1))
    b.return_()
    kernel, out = cpu.compile(k.module), np.zeros(1, np.int32)
    address, alive = pack(kernel, [out.ctypes.data])
    in_a_moment(raise_stop)
    with pytest.raises(Stop) as caught:
        kernel.launch(address, 2**31 - 1, 2**20, 1)  # for years
    assert alive
    assert out[0] > 0
    assert "kernel kernel, program" in caught.value.__notes__[0]


def test_other_threads_of_python_go_on_while_a_kernel_spins():
    kernel, flags = spinning(), np.zeros(1, np.int32)
    timer = threading.Timer(0.2, lambda: flags.fill(1))
    timer.start()
    assert launch(kernel, flags) == 1
    timer.join()


@pytest.mark.slow
def test_a_loop_that_computes_much_says_nothing(monkeypatch):
    said = []
    monkeypatch.setattr(watching, "publish", said.append)
    k = Kernel()
    b = k.builder
    limit, out = k.argument(I32, 0), k.pointer(np.zeros(1, np.int32))

    def more(i, total):
        return [b.compare(Code.LT, i, limit), i, total]

    def add(i, total):
        squared = b.binary(Code.XOR, b.binary(Code.MUL, total, total), i)
        return [b.binary(Code.ADD, i, k.number(1)), squared]

    start = k.number(0)
    _, total = b.while_([start, start], k.region(more, I32, I32), k.region(add, I32, I32))
    b.store(out, total)
    b.return_()
    kernel, array = cpu.compile(k.module), np.zeros(1, np.int32)
    assert kernel.loops[0].reads == ()
    address, alive = pack(kernel, [1_000_000_000, array.ctypes.data])
    if not kernel.format.startswith("q"):
        pytest.fail("the first argument must be the limit")
    kernel.launch(address)
    assert alive
    assert all(not any(spin.same for spin in spins) for spins in said)


def test_kernels_that_were_saved_still_name_their_loops():
    kernel = spinning()
    again = cpu.Kernel.from_bytes(kernel.to_bytes())
    assert (again.loops, again.parameters, again.place) == (
        kernel.loops,
        kernel.parameters,
        kernel.place,
    )


def test_a_process_ends_though_a_thread_of_it_spins():
    child = os.fork()
    if child == 0:
        kernel, flags = spinning(), np.zeros(1, np.int32)
        thread = threading.Thread(target=launch, args=(kernel, flags), daemon=True)
        thread.start()
        time.sleep(0.2)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0
