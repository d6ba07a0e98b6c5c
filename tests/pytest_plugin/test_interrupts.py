"""Ctrl-C while PEs run: nothing of them is left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="looks for processes in /proc"
)

TEXT = """
import ctypes, os, pathlib, time
import pytest

@pytest.mark.pes(2)
@pytest.mark.parametrize("how", ["python", "c", "machine"])
def test_waits(world, how):
    pathlib.Path(f"started-{world.my_pe}").touch()
    if how == "python":
        time.sleep(1000)
    if how == "c":
        ctypes.CDLL(None).sleep(1000)
    if world.my_pe:
        world.barrier()
    time.sleep(1000)
"""


def processes_with(mark: str) -> list[int]:
    """Return the processes whose environment has this text."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if mark.encode() in environment:
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize("how", ["python", pytest.param("c", marks=pytest.mark.slow), "machine"])
def test_an_interrupt_leaves_no_process_and_no_memory(how: str, tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(TEXT)
    mark = f"EMU_TEST_MARK={tmp_path}"
    shared = Path("/dev/shm")
    before = set(shared.iterdir()) if shared.exists() else set()
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-k", how, "-p", "no:randomly"],
        cwd=tmp_path,
        env={**os.environ, "EMU_TEST_MARK": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # a terminal would signal its whole group
    )
    while not all((tmp_path / f"started-{pe}").exists() for pe in range(2)):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, said
    assert "KeyboardInterrupt" in said
    deadline = (
        time.monotonic() + 30
    )  # the server of forks ends by itself, when it sees that nobody is left
    while processes_with(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not processes_with(mark)
    if shared.exists():
        assert not [p for p in set(shared.iterdir()) - before if "emu" in p.name]
