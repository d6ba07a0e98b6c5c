"""Worlds in which nothing moves end with a report; those in which something does are let alone."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import emu
from emu.comm.errors import DeadlockError

Words = emu.SymmetricArray


# --- loops that wait ---------------------------------------------------------------------------


def compare_swaps(world: emu.World, words: Words) -> None:
    world.compare_swap(words, 0, 1, 0)
    world.barrier()
    while world.compare_swap(words, 0, 1, 0) != 0:
        pass


def swaps(world: emu.World, words: Words) -> None:
    world.swap(words, 1, 0)
    world.barrier()
    while world.swap(words, 1, 0) == 1:
        time.sleep(0.001)


def fetches(world: emu.World, words: Words) -> None:
    while world.fetch(words, world.n_pes - 1, index=1) == 0:
        pass


def counts_its_turns(world: emu.World, words: Words) -> None:
    turns = 0
    while world.fetch(words, 0) == 0:
        turns += 1


def adds_nothing(world: emu.World, words: Words) -> None:
    while not world.fetch_add(words, 0, 0):
        pass


def gets(world: emu.World, words: Words) -> None:
    while not (world.get(words, 0) == 1).all():
        pass


def gets_a_part(world: emu.World, words: Words) -> None:
    while world.get(words, 0, offsets=(1,), shape=(1,))[0] == 0:
        pass


def asks(world: emu.World, words: Words) -> None:
    while not world.test(words, emu.Cmp.EQ, 1, index=2):
        pass


def reads_its_memory(world: emu.World, words: Words) -> None:
    mine = words.local
    while mine[0] == 0:
        pass


def reads_local(world: emu.World, words: Words) -> None:
    while not words.local[0]:
        time.sleep(0)


def reads_all(world: emu.World, words: Words) -> None:
    while True:
        for pe in range(world.n_pes):
            if words.on(pe)[0].item() == 1:
                return


def backs_off(world: emu.World, words: Words) -> None:
    delay = 1e-5
    while world.fetch(words, 0) == 0:
        time.sleep(delay)
        delay = min(2 * delay, 1e-3)


def calls_a_function(world: emu.World, words: Words) -> None:
    def is_free() -> bool:
        return world.fetch(words, 0) == 1

    while not is_free():
        pass


class Lock:
    def __init__(self, world: emu.World, words: Words) -> None:
        self.world = world
        self.words = words

    def is_held(self) -> bool:
        return self.world.fetch(self.words, 0) == 0

    def acquire(self) -> None:
        while self.is_held():
            pass


def calls_a_method(world: emu.World, words: Words) -> None:
    Lock(world, words).acquire()


WAITING_LOOPS = {
    compare_swaps: "polls words[0] on PE 0 with compare_swap (there: 1, last writer: PE ",
    swaps: "polls words[0] on PE 0 with swap (there: 1, last writer: PE ",
    fetches: "polls words[1] on PE 1 with fetch (there: 0, last writer: nobody): ",
    counts_its_turns: "polls words[0] on PE 0 with fetch (there: 0, last writer: nobody): ",
    adds_nothing: "polls words[0] on PE 0 with fetch_add (there: 0, last writer: nobody): ",
    gets: "polls words[0] on PE 0 with get: ",
    gets_a_part: "polls words[1] on PE 0 with get: ",
    asks: "waits in test (in a loop) for words[2] EQ 1 (there: 0, last writer: nobody)",
    reads_its_memory: "polls its symmetric memory",
    reads_local: "polls its symmetric memory",
    reads_all: "polls its symmetric memory",
    backs_off: "polls words[0] on PE 0 with fetch (there: 0, last writer: nobody): ",
    calls_a_function: "polls words[0] on PE 0 with fetch (there: 0, last writer: nobody): ",
    calls_a_method: "polls words[0] on PE 0 with fetch (there: 0, last writer: nobody): ",
}


def run(name: str, seconds: float = 0.0) -> str:
    world = emu.world()
    words = world.alloc(4, np.int32, name="words")
    globals()[name](world, words, seconds) if seconds else globals()[name](world, words)
    return name


def alone_in(name: str) -> None:
    world = emu.world()
    words = world.alloc(4, np.int32, name="words")
    if world.my_pe == 0:
        globals()[name](world, words)
    world.barrier()


@pytest.mark.slow
@pytest.mark.parametrize("loop", WAITING_LOOPS, ids=lambda loop: loop.__name__)
def test_a_loop_that_only_looks_is_a_wait(loop: object) -> None:
    name = loop.__name__  # type: ignore[attr-defined] # a function
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(run, 2, args=(name,), timeout=1)
    report = str(caught.value)
    assert "no progress for 1 s" in report
    for pe in range(2):
        (line,) = [line for line in report.splitlines() if line.startswith(f"  PE {pe} ")]
        assert f"PE {pe} {WAITING_LOOPS[loop]}" in line  # type: ignore[index] # a key of it
        assert f"it is in the loop at {__file__}:" in line
        function = {"calls_a_method": "acquire"}.get(name, name)
        assert f" in {function}: while " in line
    assert {type(e) for e in caught.value.exceptions} == {DeadlockError}
    notes = "\n".join(caught.value.exceptions[0].__notes__)
    assert f"in {name}" in notes  # where it was stopped


@pytest.mark.parametrize("loop", [fetches, reads_its_memory, asks], ids=lambda f: f.__name__)
def test_one_looks_while_the_others_wait(loop: object) -> None:
    name = loop.__name__  # type: ignore[attr-defined] # a function
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(alone_in, 3, args=(name,), timeout=1)
    report = str(caught.value)
    assert f" in {name}: while " in report
    assert "PE 1 waits in barrier of group 'world': 2 of 3 have arrived" in report


# --- programs that go on by themselves -----------------------------------------------------------


def one_computes_the_others_look(world: emu.World, words: Words, seconds: float) -> None:
    if world.my_pe == 0:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            sum(range(10_000))
        for pe in range(world.n_pes):
            world.signal_op(words, 1, pe)
    elif world.my_pe == 1:
        while world.fetch(words, 1) == 0:
            pass
    else:
        while words.local[0] == 0:
            pass


def looks_between_computations(world: emu.World, words: Words, seconds: float) -> None:
    if world.my_pe == 0:
        array = np.full((800, 800), 1.0 / 800)
        end = time.monotonic() + seconds
        while world.fetch(words, 0) == 0 and time.monotonic() < end:
            array @= array
    world.barrier()


def searches(world: emu.World, words: Words, seconds: float) -> None:
    if world.my_pe == 0:
        begin, number = time.monotonic(), 0
        while not is_enough(number, begin, seconds):
            if world.test(words, emu.Cmp.EQ, 1):
                break
            number += 1
    world.barrier()


def is_enough(number: int, begin: float, seconds: float) -> bool:
    return number % 1000 == 0 and time.monotonic() - begin > seconds


def searches_by_numbers_alone(world: emu.World, words: Words, seconds: float) -> None:
    """Nothing but its number tells that the loop moves on. The other one ends it, from a program."""
    if world.my_pe == 0:
        number = 0
        while number * number >= 0:
            if world.test(words, emu.Cmp.EQ, 1):
                break
            number += 1
    else:
        time.sleep(seconds)
        world.signal_op(words, 1, 0)
    world.barrier()


def gives_up_after_a_time(world: emu.World, words: Words, seconds: float) -> None:
    world.barrier()
    end = time.monotonic() + seconds
    while world.fetch(words, 0) == 0 and time.monotonic() < end:
        pass


def gives_up_after_many_turns(world: emu.World, words: Words, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(1000):
            if world.fetch(words, 0):
                return


def plays_ping_pong(world: emu.World, words: Words, seconds: float) -> None:
    """By plain stores alone, which no call tells of."""
    end = time.monotonic() + seconds
    mine, other = words.local, words.on(1 - world.my_pe)
    turn = 0
    while other[1] == 0 and (world.my_pe or time.monotonic() < end):
        turn += 1
        while world.my_pe and mine[0] == other[0] and other[1] == 0:
            time.sleep(0)
        while not world.my_pe and mine[0] != other[0] and other[1] == 0:
            time.sleep(0)
        mine[0] = 1 - mine[0] if not world.my_pe else other[0]
    mine[1] = 1


class Solver:
    """What hides its state: only its name is seen in the loop."""

    def __init__(self, seconds: float) -> None:
        self._steps = iter(range(1 << 60))
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def is_done(self) -> bool:
        next(self._steps)
        return time.monotonic() > self._end

    def __bool__(self) -> bool:
        return not self.is_done

    def __getitem__(self, key: int) -> bool:
        return self.is_done

    def step(self) -> bool:
        return self.is_done


def steps_a_solver(world: emu.World, words: Words, seconds: float) -> None:
    solver = Solver(seconds)
    while words.local[0] == 0 and not solver.step():
        pass
    solver = Solver(seconds)
    while words.local[0] == 0 and not solver.is_done:
        pass
    solver = Solver(seconds)
    while words.local[0] == 0 and solver:
        pass
    solver = Solver(seconds)
    while words.local[0] == 0 and not solver[0]:
        pass


def a_thread_computes(world: emu.World, words: Words, seconds: float) -> None:
    mine = words.local

    def compute() -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            np.linalg.eigvals(np.eye(60))
        mine[0] = 1

    threading.Thread(target=compute).start()
    while mine[0] == 0:
        time.sleep(0.0005)


def takes_turns_between_looks(world: emu.World, words: Words, seconds: float) -> None:
    """Pieces of work, each behind a short wait: the loops are the same, the work goes on."""
    done: list[int] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if world.my_pe == 0:
            done.append(sum(range(20_000)))
            world.fetch_add(words, 1, 1)
        else:
            seen = words.local[0]
            while words.local[0] == seen and time.monotonic() < end:
                pass


GOING_ON = [
    one_computes_the_others_look,
    looks_between_computations,
    searches,
    searches_by_numbers_alone,
    gives_up_after_a_time,
    gives_up_after_many_turns,
    plays_ping_pong,
    steps_a_solver,
    a_thread_computes,
    takes_turns_between_looks,
]


@pytest.mark.slow
@pytest.mark.parametrize("program", GOING_ON, ids=lambda program: program.__name__)
def test_what_would_end_is_never_stopped(program: object) -> None:
    name = program.__name__  # type: ignore[attr-defined] # a function
    n_pes = 3 if program is one_computes_the_others_look else 2
    assert emu.launch(run, n_pes, args=(name, 3.0), timeout=1) == [name] * n_pes


@pytest.mark.slow
def test_what_may_end_by_itself_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "emu.comm"):
        emu.launch(run, 2, args=("gives_up_after_a_time", 7.0), timeout=1)
    told = [r.getMessage() for r in caplog.records if r.name == "emu.comm"]
    assert 1 <= len(told) <= 2  # after 1.5 and 6 s: once in a while, not once a second
    first = told[0]
    assert "at least one PE that is not waiting may go on by itself" in first
    assert "PE 1 polls words[0] on PE 0 with fetch (there: 0, last writer: nobody)" in first


def test_slow_looks_are_not_told_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "emu.comm"):
        emu.launch(run, 2, args=("looks_between_computations", 3.0), timeout=1)
    assert not [r for r in caplog.records if "may go on by itself" in r.getMessage()]


def look_once_then_sleep() -> int:
    world = emu.world()
    words = world.alloc(1, np.int32)
    world.fetch(words, 0)
    time.sleep(3)
    return world.my_pe


def test_sleep_after_a_look_is_no_wait() -> None:
    assert emu.launch(look_once_then_sleep, 2, timeout=1) == [0, 1]


# --- threads that are left over ------------------------------------------------------------------


def leave_a_thread(kind: str) -> int:
    world = emu.world()
    if world.my_pe == 1 and kind == "stuck":
        threading.Thread(target=wait_for_ever, name="collector").start()
    elif world.my_pe == 1:
        threading.Thread(target=finish_later, args=(2.5,), name="writer").start()
    return world.my_pe


def wait_for_ever() -> None:
    threading.Event().wait()


def finish_later(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(10_000))
    print("the thread has ended")


def leave_a_pool() -> int:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(2).submit(int, "7").result()


def test_a_thread_that_never_ends_is_named() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(leave_a_thread, 2, args=("stuck",), timeout=1.5)
    report = str(caught.value)
    assert "PE 0 has finished" in report
    assert "PE 1 has returned, but waits for its thread 'collector' (at " in report
    assert "in wait_for_ever: threading.Event().wait())" in report


def test_a_thread_that_ends_is_waited_for(capfd: pytest.CaptureFixture[str]) -> None:
    assert emu.launch(leave_a_thread, 2, args=("ends",), timeout=1) == [0, 1]
    assert "[1] the thread has ended" in capfd.readouterr().out


def test_an_executor_that_nobody_closed_holds_nothing() -> None:
    assert emu.launch(leave_a_pool, 2, timeout=5) == [7, 7]


SCRIPT = """
import threading, emu
if emu.world().my_pe == 1:
    threading.Thread(target=threading.Event().wait, name="keeper").start()
"""


@pytest.mark.slow
def test_the_command_line_says_which_thread_holds_the_run(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "emu", "run", "-n", "2", "--timeout", "9", str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    assert done.returncode == 3
    told = "PE 1 has returned, but waits for its thread 'keeper'"
    assert done.stderr.count(told) == 2, done.stderr  # while it waits, and in the report
