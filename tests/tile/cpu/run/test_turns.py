"""Programs of a launch that wait for later ones take turns, and none does where none waits."""

from __future__ import annotations

import contextlib
import itertools
import signal
import threading

import numpy as np
import pytest
from tile_cpu_runner import pack
from tile_harness import Kernel

from emu.tile import cpu
from emu.tile.cpu.run import pool, turns
from emu.tile.cpu.run.kernel import Kernel as Compiled
from emu.tile.ops import Code, Rmw


def meeting() -> Compiled:
    """A kernel whose programs count themselves and then wait until all have."""
    k = Kernel()
    b = k.builder
    count, out = k.pointer(np.zeros(1, np.int32)), k.pointer(np.zeros(1, np.int32))
    b.atomic_rmw(Rmw.ADD, count, k.number(1))

    def some_are_missing():
        return [b.compare(Code.LT, b.load(count), b.num_programs(0))]

    b.while_([], k.region(some_are_missing), k.region(list))
    b.store(b.ptr_add(out, b.program_id(0)), b.program_id(0))
    b.return_()
    return cpu.compile(k.module)


def run(kernel: Compiled, programs: int, threads: int = 1) -> list[int]:
    count, out = np.zeros(1, np.int32), np.full(programs, -1, np.int32)
    address, alive = pack(kernel, [count.ctypes.data, out.ctypes.data])
    kernel.launch(address, programs, 1, 1, threads)
    assert alive
    return out.tolist()


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("programs", [1, 2, 40, turns.MOST_THREADS])
def test_all_programs_may_meet(monkeypatch, programs, threads):
    monkeypatch.setattr(pool, "WORTH_THREADS_NS", 0)
    kernel = meeting()
    for _ in range(2):
        assert run(kernel, programs, threads) == list(range(programs))
        assert turns.current() is None
    assert not [t for t in threading.enumerate() if t.name.startswith("emu program of")]


def test_threads_that_launch_at_once_keep_to_their_own_programs():
    kernel, found = meeting(), []
    threads = [
        threading.Thread(target=lambda n=n: found.append(run(kernel, n))) for n in (3, 8, 21)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(len, found)) == [3, 8, 21]
    assert all(out == list(range(len(out))) for out in found)


def test_programs_offered_are_taken_once_and_only_in_their_launch():
    with turns.offering(1, 9) as left_over:
        assert turns.has_rest()
        with turns.offering(5, 6) as inner:  # of a signal's handler
            assert inner()
        assert left_over()
    assert not turns.has_rest()


def test_a_status_is_passed_on_where_nobody_takes_turns():
    assert turns.settle(7) == 7
    assert turns.current() is None


def never() -> Compiled:
    """A kernel whose programs wait for what nobody writes."""
    k = Kernel()
    b = k.builder
    flag = k.pointer(np.zeros(1, np.int32))

    def nothing_there():
        return [b.compare(Code.EQ, b.load(flag), k.number(0))]

    b.while_([], k.region(nothing_there), k.region(list))
    b.return_()
    return cpu.compile(k.module)


class Told(Exception):
    """What the handler of the signal raises."""


class Teller:
    """Raises :class:`Told` in this thread while ``armed``, wherever it is, at moments that nobody chooses."""

    def __init__(self) -> None:
        self.armed = False
        self._over = threading.Event()
        self._before = signal.signal(signal.SIGUSR1, self._tell)
        self._sender = threading.Thread(target=self._send, args=(threading.get_ident(),))
        self._sender.start()

    def _tell(self, *_: object) -> None:
        if self.armed:
            raise Told

    def _send(self, main: int) -> None:
        for k in itertools.count():
            if self._over.wait(0.03 + 0.00618 * k % 0.01):
                return
            if self.armed:
                signal.pthread_kill(main, signal.SIGUSR1)

    def close(self) -> None:
        self.armed = False
        self._over.set()
        self._sender.join()
        signal.signal(signal.SIGUSR1, self._before)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_signal_ends_all_programs_whenever_it_comes(monkeypatch, threads):
    monkeypatch.setattr(pool, "WORTH_THREADS_NS", 0)
    kernel, flag = never(), np.zeros(1, np.int32)
    address, alive = pack(kernel, [flag.ctypes.data])
    with contextlib.closing(Teller()) as teller:
        for k in range(40):
            # Again and again in one launch: what is raised while Python is called back from compiled code may be lost.
            with contextlib.suppress(Told):
                teller.armed = True
                with contextlib.suppress(Told):
                    kernel.launch(address, 2 + k % 5, 1, 1, threads)
                teller.armed = False
            teller.armed = False
            assert turns.current() is None
    assert alive
    assert not [t for t in threading.enumerate() if t.name.startswith("emu program of")]
