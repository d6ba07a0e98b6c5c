"""Too little shared memory, and what the errors say to do."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from multiprocessing import resource_tracker
from pathlib import Path

import pytest

from emu.comm.errors import (
    SymmetricMemoryError,
)
from emu.comm.layout import Layout
from emu.comm.memory.segment import Segment


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
