"""Threads that run the programs of a grid."""

from __future__ import annotations

import multiprocessing
import threading
import time

import numpy as np
import pytest
from tile_counting import counting
from tile_cpu_runner import pack
from tile_harness import Kernel

from emu.tile import cpu
from emu.tile.cpu.run import pool
from emu.tile.ops import Code, Rmw
from emu.tile.types import I32


@pytest.fixture(autouse=True)
def _every_launch_is_worth_threads(monkeypatch):
    monkeypatch.setattr(pool, "WORTH_THREADS_NS", 0)


@pytest.fixture
def threads_end():
    """End the threads of the pool afterwards: hundreds of them would stay for the tests that follow."""
    yield
    ended = pool._workers[:]
    pool._abandon(ended, pool.Job(counting(), 0, (0, 0), (0, 0, 0), 1))
    for thread in ended:
        thread.join(10)
    assert not any(thread.is_alive() for thread in ended)


def run_counting(kernel, threads, x=37, y=3):
    out = np.zeros(x * y, np.int32)
    address, alive = pack(kernel, [out.ctypes.data])
    kernel.launch(address, x, y, 1, threads)
    assert alive
    return out


@pytest.mark.usefixtures("threads_end")
@pytest.mark.parametrize("threads", [2, 3, 200])
def test_every_program_runs_once(threads):
    kernel = counting()
    for _ in range(20):
        assert (run_counting(kernel, threads) == 1).all()


def test_the_pool_is_used(monkeypatch):
    shared = []
    real = pool._run_shared
    monkeypatch.setattr(pool, "_run_shared", lambda *a: shared.append(a) or real(*a))
    kernel = counting()
    run_counting(kernel, 2)
    assert len(shared) == 1


def test_a_short_launch_stays_on_one_thread(monkeypatch):
    monkeypatch.setattr(pool, "WORTH_THREADS_NS", 10**12)
    monkeypatch.setattr(pool, "_run_shared", None)
    kernel = counting()
    for _ in range(3):
        assert (run_counting(kernel, 2) == 1).all()


def test_a_program_may_wait_for_the_one_before_it():
    """Each program adds to what the one before it has left, and spins until that is there."""
    k = Kernel()
    b = k.builder
    out = k.pointer(np.zeros(1, np.int32))
    me = b.program_id(0)
    before, one = b.ptr_add(out, me), k.number(1)

    def nothing_there():
        seen = b.atomic_rmw(Rmw.ADD, before, k.number(0))
        return [b.compare(Code.EQ, seen, k.number(0)), seen]

    (found,) = b.while_(
        [one], k.region(lambda _: nothing_there(), I32), k.region(lambda v: [v], I32)
    )
    b.atomic_rmw(
        Rmw.ADD, b.ptr_add(out, b.binary(Code.ADD, me, one)), b.binary(Code.ADD, found, one)
    )
    b.return_()
    kernel = cpu.compile(k.module)
    out = np.zeros(101, np.int32)
    out[0] = 1
    address, alive = pack(kernel, [out.ctypes.data])
    kernel.launch(address, 100, 1, 1, 2)
    assert alive
    assert out.tolist() == list(range(1, 102))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_failed_assert_names_the_program(threads):
    k = Kernel()
    b = k.builder
    good = b.compare(Code.NE, b.program_id(1), k.number(2))
    b.assert_(b.splat(good, (4,)), "row 2 must not run")  # noqa: PT009 - the builder's
    b.return_()
    kernel = cpu.compile(k.module)
    with pytest.raises(cpu.ProgramAssertionError, match="row 2 must not run") as caught:
        kernel.launch(0, 1, 4, 1, threads)
    assert caught.value.program == (0, 2, 0)


class _SlowOnOtherThreads:
    """What the pool needs of a kernel; only the launching thread's programs end at once."""

    name = "slow"
    program_ns = 1

    def run_shared(self, *_):
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.3)
        return 0

    def check_stopped(self, *_):
        pass


@pytest.mark.usefixtures("threads_end")
def test_a_launch_that_a_signal_ends_ends_its_threads_and_no_others(monkeypatch):
    run_counting(counting(), 4)
    before = pool._workers[:]

    def interrupted(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(pool.Job, "publish", interrupted)  # called while the others are waited for
        with pytest.raises(KeyboardInterrupt):
            pool.run(_SlowOnOtherThreads(), 0, 9, (9, 1, 1), 2)
    before[0].join(10)
    assert [thread.is_alive() for thread in before] == [False, True, True]
    assert pool._workers == before[1:]
    assert (run_counting(counting(), 4) == 1).all()


def test_threads_of_python_share_the_pool():
    kernel = counting()
    wrong = []

    def work():
        wrong.extend(1 for _ in range(50) if not (run_counting(kernel, 2) == 1).all())

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def _in_a_child(kernel, pipe):
    pipe.send(bool((run_counting(kernel, 2) == 1).all()))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own():
    kernel = counting()
    run_counting(kernel, 2)  # the pool's threads run now
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_in_a_child, args=(kernel, there))
    child.start()
    assert here.poll(30)
    assert here.recv()
    child.join()


def test_a_loop_sees_what_others_write():
    """A program that spins on an ordinary load ends when another thread writes what it waits for."""
    k = Kernel()
    b = k.builder
    flag = k.pointer(np.zeros(2, np.int32))
    out = k.pointer(np.zeros(1, np.int32))

    def nothing_there():
        return [b.compare(Code.EQ, b.load(flag), k.number(0))]

    b.store(b.ptr_add(out, k.number(1)), k.number(1))  # says that it runs
    b.while_([], k.region(nothing_there), k.region(list))
    b.store(out, b.load(b.ptr_add(flag, k.number(1))))
    b.return_()
    kernel = cpu.compile(k.module)
    flag, out = np.zeros(2, np.int32), np.zeros(2, np.int32)
    address, alive = pack(kernel, [flag.ctypes.data, out.ctypes.data])
    spinning = threading.Thread(target=kernel.launch, args=(address,), daemon=True)
    spinning.start()
    while not out[1] and spinning.is_alive():
        time.sleep(0.001)
    flag[1] = 7
    flag[0] = 1
    spinning.join(30)
    assert alive
    assert out[0] == 7
