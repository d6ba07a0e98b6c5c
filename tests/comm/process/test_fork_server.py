"""The fork server: killed, unable to load, interrupted while it loads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import emu
from emu.comm.errors import (
    ForkServerError,
)
from emu.comm.process import serving


def kill_the_server(number: int, folder: str) -> None:
    world = emu.world()
    Path(folder, str(os.getpid())).touch()
    world.barrier()
    if world.my_pe == 0:
        time.sleep(1)  # the launch may not have heard yet that the last PE runs
        os.kill(os.getppid(), number)
    while True:
        time.sleep(0.01)


def my_number() -> int:
    return emu.world().my_pe


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


def modules_of_this_process() -> set[str]:
    return set(sys.modules)


@pytest.mark.slow
def test_modules_that_a_server_lacks_are_loaded_by_a_fresh_one_that_keeps_the_others() -> None:
    emu.launch(my_number, 1)
    before = serving.server_pid()
    (first,) = emu.launch(modules_of_this_process, 1, preload=["colorsys"])
    (second,) = emu.launch(modules_of_this_process, 1, preload=["sndhdr_of_nobody", "wave"])
    assert "colorsys" in first
    assert {"colorsys", "wave"} <= second
    after = serving.server_pid()
    assert after != before
    emu.launch(my_number, 1, preload=["wave", "colorsys"])
    assert serving.server_pid() == after
