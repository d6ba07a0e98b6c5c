"""Kernels are compiled when they are first called, by one process, and nobody takes that for a hang."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import emu
from emu.comm.errors import PeerFailedError, StoppedError
from emu.comm.layout import (
    B_COMPILING,
    B_COMPILING_COUNT,
    B_STATE,
    B_WAITING,
    RUNNING,
    Layout,
)
from emu.comm.memory.segment import Segment
from emu.comm.memory.stop import PEER_FAILED, publish_stop
from emu.comm.watchdog import compiling
from emu.comm.watchdog.compiling import report_to
from emu.comm.watchdog.monitor import describe
from emu.comm.watchdog.progress import Progress
from emu.kernels.core import cache_files

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def python(tmp_path):
    """Run a program on an empty cache of compiled code."""

    def run(text, *, check=True, **more):
        script = tmp_path / "program.py"
        script.write_text(text)
        environment = {**os.environ, "EMU_CACHE_DIR": str(tmp_path / "cache"), **more}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
        return subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            timeout=110,
            check=check,
            env=environment,
        )

    return run


def compiled(tmp_path):
    """Return the names of the functions in the cache."""
    return {path.name.split("-")[0] for path in (tmp_path / "cache").rglob("*.nbc")}


def test_a_program_that_calls_no_kernel_compiles_none(python, tmp_path):
    text = """
import emu
def say():
    return emu.world().my_pe
if __name__ == "__main__":
    print(emu.launch(say, 2))
"""
    assert python(text).stdout == "[0, 1]\n"
    assert compiled(tmp_path) == set()


def test_a_program_compiles_what_it_calls(python, tmp_path):
    text = """
import os, time
from pathlib import Path
import emu
def meet():
    cache = Path(os.environ["EMU_CACHE_DIR"])
    while emu.world().my_pe and not list(cache.rglob("signals.barrier_wait-*.nbc")):
        time.sleep(0.02)  # else it may come so soon that the other has no need to wait
    emu.world().barrier()
if __name__ == "__main__":
    emu.launch(meet, 2)
"""
    python(text)
    names = compiled(tmp_path)
    assert {"signals.barrier_arrive", "signals.barrier_wait"} <= names
    assert not {name for name in names if name.startswith(("exchange.", "reduce.", "grids."))}
    assert "signals.put_dense" not in names


def test_a_triton_kernel_needs_no_kernel_of_the_machine(python, tmp_path):
    text = """
import numpy as np
from emu import triton
import emu.triton.language as tl

@triton.jit
def fill(y_ptr, value):
    tl.store(y_ptr + tl.program_id(0), value)

y = np.zeros(4, np.float32)
fill[(4,)](y, 3.0)
print(y.sum())
"""
    assert python(text).stdout == "12.0\n"
    assert compiled(tmp_path) == set()
    assert len(list((tmp_path / "cache").rglob("*.kernel"))) == 1


TWICE = """
import os, emu
from emu.comm.sync import entry_points, signals

def look():
    world = emu.world()
    before = signals.barrier_arrive.stats.cache_hits, type(entry_points.barrier_arrive).__name__
    world.barrier()
    return os.getppid(), type(before[1]).__name__ and before[1], type(entry_points.barrier_arrive).__name__

def nothing():
    return os.getppid()

if __name__ == "__main__":
    first, second, third = emu.launch(look, 1)[0], emu.launch(look, 1)[0], emu.launch(look, 1)[0]
    print(first[0] == second[0], second[0] == third[0], first[1], first[2], second[1])
"""


@pytest.mark.slow
def test_after_a_launch_that_compiled_the_next_has_a_fresh_server_with_the_kernels(python):
    """What stood in for a kernel is gone, too, after the first call."""
    out = python(TWICE).stdout.split()
    assert out == ["False", "True", "function", "builtin_function_or_method", out[3]]
    assert python(TWICE).stdout.split()[:3] == ["True", "True", "builtin_function_or_method"]


def test_pes_that_wait_for_a_compiler_are_not_deadlocked(python, tmp_path):
    """Another process holds the lock of a kernel for longer than the time-out."""
    text = """
import numpy as np, emu
def work():
    world = emu.world()
    words = world.alloc(4, np.int64)
    if world.my_pe == 0:
        world.put(words, np.arange(4), 1)
    world.barrier()
    return int(words.local.sum())
if __name__ == "__main__":
    print(emu.launch(work, 3, timeout=0.5))
"""
    name = hashlib.sha256(b"emu.comm.sync.signals.put_short").hexdigest()[:24]
    from emu.kernels.core.jit import cache_dir

    folder = tmp_path / "cache" / cache_dir("emu.comm").name
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o700)
    folder.chmod(0o700)
    with open(folder / f"lock-{name}", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        holder = subprocess.Popen(["sleep", "4"], pass_fds=[lock.fileno()])
    try:
        started = time.monotonic()
        assert python(text).stdout == "[0, 6, 0]\n"
        assert time.monotonic() - started >= 1  # it had to wait
    finally:
        holder.kill()
        holder.wait()


# --- in one process ------------------------------------------------------------------------


@pytest.fixture
def segment():
    made = Segment.create(Layout(n_pes=2, heap_bytes=1 << 20))
    for pe in range(2):  # both wait
        made.block(pe)[B_STATE], made.block(pe)[B_WAITING] = RUNNING, 1
    yield made
    made.close()


@pytest.fixture
def listening(segment, monkeypatch, tmp_path):
    monkeypatch.setattr(cache_files, "_listeners", [])
    monkeypatch.setenv("EMU_CACHE_DIR", str(tmp_path / "cache"))
    report_to(segment, 1)
    return segment


def test_a_pe_notes_that_it_compiles(listening):
    progress = Progress(listening, [os.getpid(), os.getpid()], 1e-9)
    progress.stalled()
    assert progress.stalled()
    with cache_files.alone("0" * 32, "lock", "emu.comm.sync.signals.put_dense"):
        assert compiling.is_compiling(listening, 1)
        assert not compiling.is_compiling(listening, 0)
        assert describe(listening, 1) == "PE 1 is compiling a kernel"
        for _ in range(3):
            assert not progress.stalled()
    assert not compiling.is_compiling(listening, 1)
    assert list(listening.block(1)[[B_COMPILING, B_COMPILING_COUNT]]) == [0, 1]


def test_only_kernels_of_the_machine_are_announced(listening, monkeypatch):
    said = []
    monkeypatch.setattr(compiling, "announce", lambda: said.append(1))
    watch = compiling.Watch(listening)
    with cache_files.alone("0" * 32, "lock", "a kernel of the user's"):
        watch.observe()
    assert not watch.anything_compiled()
    with cache_files.alone("0" * 32, "lock", "emu.kernels.strided.copy.copy_strided"):
        for _ in range(3):
            watch.observe()
    assert said == [1]


def test_a_stop_inside_the_compiler_is_told_as_the_stop(listening):
    """Whatever the compiler made of the exception that was raised inside of it."""

    def compile_and_fail():
        with cache_files.alone("0" * 32, "lock", "emu.x"):
            publish_stop(listening, PEER_FAILED, "PE 0 raised something")
            raise TypeError("the compiler's")

    with pytest.raises(PeerFailedError, match="PE 0 raised"):
        compile_and_fail()
    assert not compiling.is_compiling(listening, 1)


def fail_while_others_compile() -> None:
    world = emu.world()
    if world.my_pe == 0:
        while not all(compiling.is_compiling(world.segment, pe) for pe in (1, 2)):
            time.sleep(0.01)
        raise LookupError("the cause")
    with cache_files.alone("0" * 32, f"lock-{world.my_pe}", "emu.x"):
        end = time.monotonic() + 1.5  # longer than a stopped PE has to end
        while time.monotonic() < end:
            try:
                time.sleep(0.1)
            except StoppedError:
                continue  # as native code does
    np.zeros(1)


def test_pes_that_are_stopped_inside_the_compiler_are_given_time(tmp_path, monkeypatch):
    monkeypatch.setenv("EMU_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(fail_while_others_compile, 3)
    (error,) = caught.value.exceptions
    assert isinstance(error, LookupError)
    assert not any("killed" in note for note in error.__notes__)
