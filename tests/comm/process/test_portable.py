"""What macOS runs, on Linux: no futexes, timer slack, nameless sockets, ``/proc``, nor signals of descriptors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from emu.comm.layout import Layout
from emu.comm.memory import nameless
from emu.comm.memory.segment import Segment
from emu.kernels.core import environment, system

PROGRAM = """
import os
import numpy as np
import emu
from emu.comm.sync.futex import HAVE_FUTEX
from emu.kernels.core import system

def on_each():
    world = emu.world()
    assert not HAVE_FUTEX and not system.LINUX
    n, me = world.n_pes, world.my_pe
    ring = world.alloc((n,), np.int64)
    for turn in range(50):
        world.put(ring, np.array([turn * n + me]), (me + 1) % n, offsets=(me,))
        world.barrier()
        assert ring.local[(me - 1) % n] == turn * n + (me - 1) % n
        world.barrier()
    large = world.alloc((1 << 18,), np.float32)
    world.put(large, np.full(1 << 18, me + 1, np.float32), 0, op=emu.AtomicOp.ADD)
    world.barrier()
    total = float(large.on(0)[-1])
    world.barrier()
    del large
    again = world.alloc((1 << 18,), np.float32)
    return total, float(np.abs(again.local).max()), float(world.all_reduce(np.ones(3, np.float32))[0])

def hangs():
    world = emu.world()
    word = world.alloc((1,), np.int64)
    if world.my_pe == 0:
        world.wait_until(word, emu.Cmp.EQ, 1)

if __name__ == "__main__":
    for _ in range(2):
        print(emu.launch(on_each, 4))
    try:
        emu.launch(hangs, 2)
    except ExceptionGroup as error:
        print([type(one).__name__ for one in error.exceptions])
"""

ENDLESS = """
import os, sys, time
import emu

def stay(folder):
    open(os.path.join(folder, str(os.getpid())), "w").close()
    time.sleep(1000)

if __name__ == "__main__":
    emu.launch(stay, 2, args=(sys.argv[1],))
"""


def portable() -> dict[str, str]:
    return {**os.environ, "EMU_FORCE_PORTABLE": "1"}


def test_the_variable_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EMU_FORCE_PORTABLE", raising=False)
    assert not environment.is_portable()
    monkeypatch.setenv("EMU_FORCE_PORTABLE", "1")
    assert environment.is_portable()


@pytest.mark.parametrize("linux", [False, True])
def test_memory_has_no_name_and_any_size(linux: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "LINUX", linux)
    descriptor = nameless.make()
    try:
        os.ftruncate(descriptor, 1 << 30)  # sparse
        assert os.fstat(descriptor).st_nlink == 0
        os.pwrite(descriptor, b"seen", (1 << 30) - 4)
        assert os.pread(descriptor, 8, (1 << 30) - 4) == b"seen"
        assert os.fstat(descriptor).st_blocks * 512 < 1 << 20
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("page", [4096, 16384, 65536])
def test_only_whole_pages_of_the_system_are_given_back(
    page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mmap.PAGESIZE", page)
    segment = Segment.create(Layout(n_pes=1, heap_bytes=1 << 20))
    start = segment.layout.heaps
    try:
        heap = segment.bytes[start : start + (1 << 18)]
        heap[:] = 7
        segment.discard(start + 4096, 1 << 17)
        first, last = -(-4096 // page) * page, (4096 + (1 << 17)) // page * page
        assert (heap[:first] == 7).all()
        assert (heap[first:last] == 0).all()
        assert (heap[last:] == 7).all()
        segment.discard(start, page - 1)
        assert (heap[:first] == 7).all()
    finally:
        segment.close()


def test_memory_is_kept_where_it_cannot_be_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("mmap.MADV_REMOVE", raising=False)
    segment = Segment.create(Layout(n_pes=1, heap_bytes=1 << 20))
    start = segment.layout.heaps
    try:
        segment.bytes[start : start + (1 << 18)] = 7
        segment.discard(start, 1 << 17)
        assert (segment.bytes[start : start + (1 << 18)] == 7).all()
    finally:
        segment.close()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_programs_give_the_same_without_what_only_linux_has(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    ended = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=390,
        env=portable(),
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    expected = str([(10.0, 0.0, 4.0)] * 4)
    assert ended.stdout.splitlines() == [expected, expected, "['DeadlockError']"]


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_no_pe_outlives_a_launcher_that_was_killed(tmp_path: Path) -> None:
    script, folder = tmp_path / "program.py", tmp_path / "pids"
    script.write_text(ENDLESS)
    folder.mkdir()
    launcher = subprocess.Popen([sys.executable, str(script), str(folder)], env=portable())
    try:
        _wait_until(lambda: len(os.listdir(folder)) == 2)
        pids = [int(name) for name in os.listdir(folder)]
        launcher.send_signal(signal.SIGKILL)
        _wait_until(lambda: not any(_runs(pid) for pid in pids))
    finally:
        launcher.kill()
        launcher.wait()


def _wait_until(condition) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
