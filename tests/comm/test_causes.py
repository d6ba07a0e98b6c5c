"""Whatever ends a world, its cause is told: strange exceptions, lost servers, no shared memory."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import resource_tracker
from pathlib import Path

import numpy as np
import pytest

import emu
from emu.comm.errors import (
    ArgumentError,
    ForkServerError,
    PEDiedError,
    PEExitError,
    PERaisedError,
    SymmetricMemoryError,
)
from emu.comm.layout import Layout
from emu.comm.memory.segment import Segment


class Leave(SystemExit):
    pass


class Bare(BaseException):
    pass


class NeedsTwo(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class HasALambda(Exception):
    def __init__(self) -> None:
        super().__init__("with a lambda")
        self.function = lambda: 0


class NoText(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError("no text")


class Closed(Exception):
    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(name)


class ComesBackAsText(Exception):
    def __reduce__(self) -> tuple[type, tuple[str]]:
        return str, ("no exception at all",)


RAISED = {
    "keyboard": KeyboardInterrupt("me"),
    "generator": GeneratorExit(),
    "cancelled": asyncio.CancelledError("task"),
    "bare": Bare("hello"),
    "base group": BaseExceptionGroup("several", [KeyboardInterrupt("inner")]),
    "needs two": NeedsTwo(4, 2),
    "lambda": HasALambda(),
    "no text": NoText(),
    "closed": Closed("shut"),
    "as text": ComesBackAsText("odd"),
    "huge": ValueError("x" * (3 << 20)),
}


def raise_one(name: str) -> None:
    world = emu.world()
    if world.my_pe == 1:
        raise RAISED[name]
    world.barrier()


def raise_known(kind: str) -> None:
    if kind == "group":
        raise ExceptionGroup("several", [ValueError("one"), ExceptionGroup("deep", [KeyError(2)])])
    if kind == "surrogate":
        raise ValueError("a\udc80b")
    if kind == "long":
        raise ValueError("x" * 500_000)
    raise emu.DeadlockError("of my own")


def leave_as(code: object) -> None:
    raise Leave(code)


def return_what_interrupts() -> object:
    return Interrupts()


class Interrupts:
    def __reduce__(self) -> str:
        raise KeyboardInterrupt("while it was pickled")


def kill_the_server(number: int, folder: str) -> None:
    world = emu.world()
    Path(folder, str(os.getpid())).touch()
    world.barrier()
    if world.my_pe == 0:
        os.kill(os.getppid(), number)
    while True:
        time.sleep(0.01)


def my_number() -> int:
    return emu.world().my_pe


@pytest.mark.parametrize("name", RAISED)
def test_what_no_group_could_hold_is_told(name: str) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(raise_one, 2, args=(name,))
    (error,) = caught.value.exceptions
    assert isinstance(error, PERaisedError)
    assert error.pe == 1
    kind = type(RAISED[name]).__name__
    assert error.raised.endswith(kind)
    assert str(error).startswith("PE 1 raised ")
    assert kind in str(error)
    if name not in ("no text", "generator", "huge"):
        assert str(RAISED[name]) in str(error)
    note = "\n".join(error.__notes__)
    assert "in raise_one" in note
    assert len(str(error)) + len(note) < 100_000


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("group", ExceptionGroup), ("surrogate", ValueError), ("long", ValueError)],
)
def test_what_can_be_sent_arrives_as_it_is(kind: str, expected: type[Exception]) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(raise_known, 1, args=(kind,))
    assert [type(e) for e in caught.value.exceptions] == [expected]


def test_a_stopped_error_of_the_programs_own_is_a_cause() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(raise_known, 2, args=("stopped",))
    assert any(str(e) == "of my own" for e in caught.value.exceptions)


def test_subclasses_of_system_exit() -> None:
    assert emu.launch(leave_as, 1, args=(0,)) == [None]
    for code, status in ((7, 7), ("said", 1), (NoText(), 1)):
        with pytest.raises(ExceptionGroup) as caught:
            emu.launch(leave_as, 1, args=(code,))
        (error,) = caught.value.exceptions
        assert isinstance(error, PEExitError)
        assert error.code == status


def test_a_result_whose_pickling_interrupts() -> None:
    with pytest.raises(ExceptionGroup, match="1 of 1 PEs failed") as caught:
        emu.launch(return_what_interrupts, 1)
    assert "must be picklable, but is not: KeyboardInterrupt: while it was" in str(
        caught.value.exceptions[0]
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_fork_server_is_named_and_replaced(number: signal.Signals, tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup, match="the fork server died") as caught:
        emu.launch(kill_the_server, 3, args=(int(number), str(tmp_path)))
    (error,) = caught.value.exceptions
    assert isinstance(error, ForkServerError)
    assert f"was killed by {number.name}; its PEs were stopped" in str(error)
    assert emu.launch(my_number, 3) == [0, 1, 2]
    pids = [int(name) for name in os.listdir(tmp_path)]
    assert len(pids) == 3
    end = time.monotonic() + 20
    while any(is_alive(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(is_alive(pid) for pid in pids)


def is_alive(pid: int) -> bool:
    try:
        state = Path("/proc", str(pid), "stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


UNLOADABLE = """
import emu
from emu.comm.errors import ForkServerError
def f():
    return 0
if __name__ == "__main__":
    try:
        emu.launch(f, 2, preload=("breaks_when_loaded",))
    except ForkServerError as error:
        print(error)
"""


def test_a_server_that_cannot_load_is_named(tmp_path: Path) -> None:
    (tmp_path / "breaks_when_loaded.py").write_text("raise ValueError('broken')\n")
    (tmp_path / "main.py").write_text(UNLOADABLE)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "main.py")],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
        check=False,
    )
    assert "PE 0 could not be started: the fork server (process" in done.stdout, done.stderr
    assert "ended with exit status 1" in done.stdout
    assert "ValueError: broken" in done.stderr


# --- shared memory -----------------------------------------------------------------------------


def without_shared_memory(size: str, script: Path) -> subprocess.CompletedProcess[str]:
    """Run a script with a /dev/shm of ``size``; skip where that cannot be made."""
    unshare = shutil.which("unshare")
    mount = f"mount -t tmpfs -o size={size} tmpfs /dev/shm"
    if (
        unshare is None
        or subprocess.run(
            [unshare, "-m", "sh", "-c", mount], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("needs the right to mount in a namespace of its own")
    command = f"{mount} && exec {sys.executable} {script}"
    return subprocess.run(
        [unshare, "-m", "sh", "-c", command],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )


SMALL = """
import emu
def f():
    return emu.world().my_pe
if __name__ == "__main__":
    try:
        emu.launch(f, 2)
    except emu.SymmetricMemoryError as error:
        print(error)
"""

FILLED = """
import emu, numpy as np, os
def f():
    world = emu.world()
    mine = world.alloc(1 << 20, np.uint8)
    if world.my_pe == 0:
        try:
            with open("/dev/shm/filler", "wb", 0) as file:
                while True:
                    file.write(bytes(65536))
        except OSError:
            pass
    world.barrier()
    mine.local[:] = 1
if __name__ == "__main__":
    try:
        emu.launch(f, 2)
    except ExceptionGroup as group:
        print(group.exceptions[0])
"""


def test_a_small_shared_memory_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    script = tmp_path / "small.py"
    script.write_text(SMALL)
    done = without_shared_memory("1m", script)
    assert "a world of 2 PEs needs " in done.stdout, done.stderr
    assert "1048576 bytes are free in /dev/shm" in done.stdout
    assert "--shm-size" in done.stdout
    assert done.returncode == 0


def test_shared_memory_that_runs_full_later_is_explained(tmp_path: Path) -> None:
    script = tmp_path / "filled.py"
    script.write_text(FILLED)
    done = without_shared_memory("30m", script)
    assert "was killed by SIGBUS; it touched memory that could not be had" in done.stdout
    assert "0 bytes of it are free now" in done.stdout
    assert "--shm-size" in done.stdout


def test_a_refused_reservation_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, offset: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    gc.collect()  # worlds of tests before: what they close meanwhile must not hide a leak
    resource_tracker.ensure_running()  # it keeps a pipe for good
    before = set(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "posix_fallocate", full)
    layout = Layout(n_pes=3, heap_bytes=1 << 20)
    with pytest.raises(SymmetricMemoryError, match=f"needs {layout.control_bytes} bytes of shared"):
        Segment.create(layout)
    assert set(os.listdir("/proc/self/fd")) <= before


HUGE = """
import emu
def f():
    return 0
if __name__ == "__main__":
    try:
        emu.launch(f, 1024, heap_size=1 << 42)
    except emu.SymmetricMemoryError as error:
        print(error)
"""


def test_heaps_that_no_machine_can_map_are_refused_quietly(tmp_path: Path) -> None:
    (tmp_path / "huge.py").write_text(HUGE)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "huge.py")],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    assert "a shared segment for 1024 PEs with heaps of 4398046511104 bytes" in done.stdout
    assert done.stderr == ""


# --- interrupts --------------------------------------------------------------------------------

LOADS_LONG = """
import sys, emu
def f():
    return 0
if __name__ == "__main__":
    emu.launch(f, 2, preload=("loads_long",))
"""


def test_ctrl_c_while_the_fork_server_loads_is_quiet(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(LOADS_LONG)
    (tmp_path / "loads_long.py").write_text(
        f"import time\nopen({str(tmp_path / 'loading')!r}, 'w').close()\ntime.sleep(3)\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "main.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
    )
    end = time.monotonic() + 60
    while not (tmp_path / "loading").exists() and time.monotonic() < end:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does: everyone gets it
    out, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert err.count("Traceback") == 1, err  # the launcher's own
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert "loads_long.py" not in err
    assert not out


def takes_interrupts() -> bool:
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return signal.SIGINT not in blocked


def test_pes_may_handle_interrupts_themselves() -> None:
    assert emu.launch(takes_interrupts, 2) == [True, True]


# --- arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("n_pes", "2", "an integer in"),
        ("n_pes", None, "an integer in"),
        ("n_pes", np.ones(2, np.int64), "an integer in"),
        ("timeout", "a", "positive"),
        ("timeout", True, "positive"),
        ("timeout", 1j, "positive"),
        ("timeout", [], "positive"),
        ("timeout", -1.0, "positive"),
        ("heap_size", "1", "in"),
        ("heap_size", 1.5, "in"),
        ("heap_size", None, "in"),
        ("heap_size", True, "in"),
        ("heap_size", (1 << 42) + 1, "in"),
        ("args", 5, "a sequence"),
        ("args", "ab", "a sequence"),
        ("args", {"a": 1}, "a sequence"),
        ("args", itertools.count(), "a sequence"),
        ("args", np.array(1), "a sequence"),
        ("kwargs", 3, "a mapping"),
        ("kwargs", [("a", 1)], "a mapping"),
        ("kwargs", {1: 2}, "a mapping"),
        ("preload", 7, "a sequence of module names"),
        ("preload", "torch", "a sequence of module names"),
        ("preload", (1,), "a sequence of module names"),
        ("prefix_output", "x", "True or False"),
        ("poison", 1, "True or False"),
        ("link", 3, "an emu.Link or None"),
        ("options", 3, "an emu.LaunchOptions or None"),
        ("fn", 3, "callable"),
    ],
)
def test_a_bad_argument_is_refused_before_anything_starts(
    name: str, value: object, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a segment was made")

    monkeypatch.setattr(Segment, "create", never)
    arguments: dict[str, object] = {"fn": my_number, "n_pes": 1, name: value}
    with pytest.raises(ArgumentError) as caught:
        emu.launch(**arguments)  # type: ignore[arg-type] # the mistake under test
    assert str(caught.value).startswith(f"{name} must be {rule}")
    assert "but got" in str(caught.value)


def test_numpy_numbers_are_numbers() -> None:
    numbers = {"timeout": np.float32(9), "heap_size": np.int64(1 << 20), "poison": np.bool_(False)}
    assert emu.launch(my_number, np.int32(2), **numbers) == [0, 1]  # type: ignore[arg-type] # NumPy scalars


# --- crashes -------------------------------------------------------------------------------------


def crash_deep(how: str, depth: int) -> None:
    if depth:
        crash_deep(how, depth - 1)
    elif how == "abort":
        os.abort()
    else:
        ctypes.string_at(0)


def crash(how: str) -> None:
    world = emu.world()
    if world.my_pe == 1:
        if how == "in a thread":
            thread = threading.Thread(target=crash_deep, args=(how, 2))
            thread.start()
            thread.join()
        crash_deep(how, 2)
    world.barrier()


@pytest.mark.parametrize("how", ["read", "abort", "in a thread"])
def test_a_crash_shows_where_the_pe_was(how: str) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(crash, 2, args=(how,))
    (error,) = caught.value.exceptions
    assert isinstance(error, PEDiedError)
    assert error.pe == 1
    report = str(error)
    name = "SIGABRT" if how == "abort" else "SIGSEGV"
    assert f"was killed by {name}; it was in (innermost call first)\n" in report
    assert report.count(" in crash_deep: crash_deep(how, depth - 1)") == 2
    last = "os.abort()" if how == "abort" else "ctypes.string_at(0)"
    assert f" in crash_deep: {last}" in report
    assert f"{__file__}:" in report
    assert "comm/process/pe.py" not in report  # how every PE begins says nothing
    assert "When that happened:\n  PE 0 " in report


def test_deaths_still_have_their_status() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(os._exit, 1, args=(255,))
    (error,) = caught.value.exceptions
    assert isinstance(error, PEDiedError)
    assert error.exitcode == 255
