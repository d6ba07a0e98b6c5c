"""Deaths, hangs and interrupts: the cause is told, and nothing is left behind."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import emu
from emu.comm.errors import DeadlockError, PEDiedError
from emu.comm.layout import H_ABORT
from emu.comm.watchdog.monitor import read_state

ROUNDS = int(os.environ.get("EMU_FAILURE_ROUNDS", "2"))
"""How often the kill, hang and two-launcher tests run; 20 before a release."""

ROUND_NUMBERS = [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, ROUNDS))]
"""As parameters; this file is run as a script, too, which finds no helpers of tests."""


def shared_memory_names() -> set[str]:
    # Only what SharedMemory makes: other programs' files come and go.
    return {n for n in os.listdir("/dev/shm") if n.startswith("psm_")}


def left_behind(before: set[str]) -> set[str]:
    """Return the names that stay: a World that another test makes has one for a moment."""
    left = shared_memory_names() - before
    for _ in range(100):
        if not left:
            break
        time.sleep(0.05)
        left &= shared_memory_names()
    return left


def die_by(number: int, log: str) -> None:
    world = emu.world()
    flags = world.alloc(2, np.int64, name="flags")
    if world.my_pe == 1:
        while not all(read_state(world.segment, pe).description for pe in (0, 2, 3)):
            time.sleep(0.01)  # until each other has said what it waits for
        os.kill(os.getpid(), number)
    try:
        if world.my_pe == 2:
            world.barrier()
        world.wait_until(flags, emu.Cmp.GE, 3, index=1)
    except BaseException as error:
        Path(log, f"{world.my_pe}").write_text(f"{type(error).__name__}\n{error}")
        raise


def leave_early() -> None:
    if emu.world().my_pe == 0:
        os._exit(3)
    emu.world().barrier()


def hang() -> None:
    world = emu.world()
    flags = world.alloc(3, np.int32, name="flags")
    if world.my_pe == 0:
        world.signal_op(flags, 7, 1, index=2)
        world.barrier()
    else:
        world.wait_until(flags, emu.Cmp.EQ, 5, index=2)


def poll_for_ever() -> None:
    world = emu.world()
    flags = world.alloc(1, np.int32, name="polled")
    if world.my_pe == 0:
        while not world.test(flags, emu.Cmp.EQ, 1):
            pass
    else:
        world.barrier()


def slow_but_alive(seconds: float) -> int:
    world = emu.world()
    flags = world.alloc(1, np.int32)
    if world.my_pe == 0:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            sum(range(10_000))
        world.signal_op(flags, 1, 1)
        return 0
    return world.wait_until(flags, emu.Cmp.EQ, 1)


def wait_for_ever() -> None:
    world = emu.world()
    world.wait_until(world.alloc(1, np.int32), emu.Cmp.EQ, 1)


def die_holding_a_lock() -> None:
    from emu.comm.sync import locks

    world = emu.world()
    tile = world.alloc((4, 4), np.float32, name="tile")
    world.barrier()
    if world.my_pe == 0:
        locks.acquire(world.me, locks.lock_address(world.me, 1, tile.offset))
        world.barrier()
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGKILL)
    world.barrier()
    world.put(tile, np.ones((4, 4), np.float32), 1, op=emu.AtomicOp.ADD)
    time.sleep(60)


def many_sums(value: int) -> float:
    world = emu.world()
    total = world.alloc((64, 64), np.float32)
    for _ in range(20):
        for pe in range(world.n_pes):
            world.put(total, np.full((64, 64), value, np.float32), pe, op=emu.AtomicOp.ADD)
    world.barrier()
    assert (total.local == total.local[0, 0]).all()
    return float(total.local[0, 0])


@pytest.mark.parametrize("round_", ROUND_NUMBERS)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_death_is_told_to_all(number: signal.Signals, round_: int, tmp_path: Path) -> None:
    before = shared_memory_names()
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(die_by, 4, args=(int(number), str(tmp_path)), timeout=math.inf)
    (error,) = caught.value.exceptions
    assert isinstance(error, PEDiedError)
    assert error.pe == 1
    assert error.exitcode == -number
    assert f"was killed by {number.name}" in str(error)
    for pe in (0, 2, 3):  # the same was raised where they waited
        kind, _, text = (tmp_path / str(pe)).read_text().partition("\n")
        assert kind == "PEDiedError"
        assert text == str(error)
    assert "PE 0 waits in wait_until for flags[1] GE 3 (there: 0" in str(error)
    assert "PE 2 waits in barrier of group 'world': 1 of 4 have arrived" in str(error)
    assert not left_behind(before)


def test_an_early_exit_is_a_death() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(leave_early, 3)
    (error,) = caught.value.exceptions
    assert isinstance(error, PEDiedError)
    assert error.exitcode == 3
    assert "ended with exit status 3 before its function returned" in str(error)


@pytest.mark.parametrize("round_", ROUND_NUMBERS)
def test_a_hang_is_reported(round_: int) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(hang, 3, timeout=60)
    report = str(caught.value)
    assert report.startswith("deadlock: nobody can release PEs 0, 1 and 2 any more\n")
    assert (
        "PE 0 waits in barrier of group 'world': 1 of 3 have arrived, missing PEs [1, 2]" in report
    )
    assert (
        "PE 1 waits in wait_until for flags[2] EQ 5 (there: 7, last writer: PE 0 (SET))" in report
    )
    assert "PE 2 waits in wait_until for flags[2] EQ 5 (there: 0, last writer: nobody)" in report
    assert [type(e) for e in caught.value.exceptions] == [DeadlockError] * 3
    assert {e.pe for e in caught.value.exceptions} == {0, 1, 2}  # type: ignore[attr-defined] # set on the exceptions of PEs
    assert "world.wait_until(flags" in "\n".join(caught.value.exceptions[1].__notes__)


def test_a_loop_of_tests_is_a_wait() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(poll_for_ever, 2, timeout=0.6)
    assert "PE 0 waits in test (in a loop) for polled[0] EQ 1" in str(caught.value)


def test_a_slow_program_is_no_hang() -> None:
    assert emu.launch(slow_but_alive, 2, args=(1.5,), timeout=0.4) == [0, 1]


def test_a_lock_of_a_dead_pe_is_recovered_and_told() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(die_holding_a_lock, 2, timeout=math.inf)
    assert caught.value.exceptions[0].pe == 0  # type: ignore[attr-defined] # set on the exceptions of PEs


SCRIPT = """
import sys, time, numpy as np, emu

def wait():
    print("up", flush=True)
    w = emu.world()
    if w.my_pe == 0:  # it might signal some day: the others' wait is no deadlock
        time.sleep(600)
    w.wait_until(w.alloc(1, np.int32), emu.Cmp.EQ, 1)

if __name__ == "__main__":
    emu.launch(wait, 3)
"""


def start_waiting_script(folder: Path) -> subprocess.Popen[str]:
    script = folder / "waiting.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    for _ in range(3):
        assert "up" in process.stdout.readline()
    return process


def living_members(session: int) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path("/proc", entry, "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(stat[3]) == session and stat[0] != "Z":
                found.append(int(entry))
    return found


def wait_until_none_is_left(session: int) -> list[int]:
    end = time.monotonic() + 15
    while (left := living_members(session)) and time.monotonic() < end:
        time.sleep(0.05)
    return left


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads /proc")
@pytest.mark.parametrize("round_", ROUND_NUMBERS)
def test_nothing_outlives_a_killed_launcher(round_: int, tmp_path: Path) -> None:
    before = shared_memory_names()
    process = start_waiting_script(tmp_path)
    assert len(living_members(process.pid)) >= 4
    process.kill()
    process.communicate()
    assert wait_until_none_is_left(process.pid) == []
    assert not left_behind(before)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads /proc")
def test_ctrl_c_stops_all(tmp_path: Path) -> None:
    process = start_waiting_script(tmp_path)
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does: everyone gets it
    _, err = process.communicate(timeout=30)
    assert process.returncode != 0
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert wait_until_none_is_left(process.pid) == []


@pytest.mark.parametrize("round_", ROUND_NUMBERS)
def test_two_launchers_never_meet(round_: int, tmp_path: Path) -> None:
    script = tmp_path / "adder.py"
    script.write_text(
        "import sys, importlib.util\n"
        f"spec = importlib.util.spec_from_file_location('failures', {str(Path(__file__))!r})\n"
        "module = importlib.util.module_from_spec(spec); sys.modules['failures'] = module\n"
        "spec.loader.exec_module(module)\n"
        "import emu\n"
        'if __name__ == "__main__":\n'
        "    print(emu.launch(module.many_sums, 3, args=(int(sys.argv[1]),)))\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, str(script), str(value)], stdout=subprocess.PIPE, text=True
        )
        for value in (1, 1000)
    ]
    outputs = [p.communicate(timeout=90)[0] for p in processes]
    assert outputs == [f"{[60.0] * 3}\n", f"{[60000.0] * 3}\n"]


def wrap_whatever_comes() -> None:
    world = emu.world()
    if world.my_pe == 0:
        while not read_state(world.segment, 1).description:
            time.sleep(0.01)
        raise KeyError("the cause")
    try:
        world.wait_until(world.alloc(1, np.int32), emu.Cmp.EQ, 5)
    except Exception as error:  # noqa: BLE001 - as careless programs do
        raise ValueError("src must be an array") from (error if world.my_pe == 1 else None)


def test_an_error_made_of_a_stop_does_not_stand_beside_the_cause() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(wrap_whatever_comes, 3, timeout=30)
    assert [type(error) for error in caught.value.exceptions] == [KeyError]


def stopped_while_loading(log: str) -> None:
    from numba.core.compiler_lock import global_compiler_lock

    world = emu.world()
    loading = world.alloc(1, np.int32)
    if world.my_pe == 1:
        world.wait_until(loading, emu.Cmp.EQ, 1)
        raise KeyError("the cause")
    left = False
    try:
        with global_compiler_lock:  # as whoever compiles a kernel, or loads one
            world.signal_op(loading, 1, 1)
            while not world.segment.header[H_ABORT]:
                pass
            begin = time.monotonic()
            while time.monotonic() - begin < 0.3:
                pass
            left = True
        while True:
            pass
    finally:
        Path(log).write_text("behind it" if left else "amid it")


def test_a_stop_does_not_come_amid_the_loading_of_code(tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(stopped_while_loading, 2, args=(str(tmp_path / "log"),), timeout=60)
    assert [type(error) for error in caught.value.exceptions] == [KeyError]
    assert (tmp_path / "log").read_text() == "behind it"
