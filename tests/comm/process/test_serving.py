"""The fork server's socket: nothing of it stays in the temporary folder, and only its owner reaches it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from emu.comm.process import serving

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = """
import multiprocessing, os, time
from multiprocessing import forkserver

import emu

def stay():
    open(os.environ["MARK"] + str(emu.world().my_pe), "w").close()
    time.sleep(float(os.environ["STAY"]))
    return os.listdir(os.environ["TMPDIR"])

def double(x):
    return 2 * x

if __name__ == "__main__":
    print(emu.launch(stay, 2)[1])
    print(forkserver._forkserver._forkserver_address.startswith("/proc/self/fd/"))
    print(emu.launch(stay, 1)[0])
    with multiprocessing.get_context("forkserver").Pool(2) as pool:  # it has the same server
        print(pool.map(double, range(4)))
"""

linux = pytest.mark.skipif(sys.platform != "linux", reason="macOS has no sockets without a name")


@pytest.fixture
def start(tmp_path):
    """Start the program with a temporary folder of its own."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)

    def start(stay):
        environment = {
            **os.environ,
            "TMPDIR": str(temporary),
            "STAY": str(stay),
            "MARK": str(tmp_path / "running"),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }
        return subprocess.Popen(
            [sys.executable, str(script)],
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    return start


@linux
def test_a_launcher_leaves_nothing_in_the_temporary_folder(start, tmp_path):
    out, err = start(0).communicate(timeout=100)
    assert out == "[]\nTrue\n[]\n[0, 2, 4, 6]\n", err
    assert err == ""
    assert list((tmp_path / "tmp").iterdir()) == []


@linux
def test_a_launcher_that_is_killed_leaves_nothing_in_the_temporary_folder(start, tmp_path):
    process = start(600)
    deadline = time.monotonic() + 90
    while len(list(tmp_path.glob("running*"))) < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert list((tmp_path / "tmp").iterdir()) == []


@linux
def test_a_socket_without_a_name_is_still_its_owners_alone(tmp_path):
    """Who connects to the fork server runs code in it: an abstract socket would let any user do so."""
    import socket

    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(str(tmp_path / "socket"))
        os.chmod(tmp_path / "socket", 0o600)
        listener.listen()
        nameless = serving._without_name(str(tmp_path / "socket"))
        os.unlink(tmp_path / "socket")
        client.connect(nameless)
        assert not listener.getsockname().startswith("\0")
        serving.close_address(nameless)
        assert not os.path.exists(nameless)


def test_where_it_does_not_work_multiprocessing_names_the_socket(monkeypatch):
    monkeypatch.setattr(serving, "_they_work", False)
    with serving._folder_for_the_socket() as folder:
        assert folder is None


def test_the_server_imports_from_where_the_launcher_does(tmp_path):
    """A module in the current folder that is named like one of ours, or of Python's, is not ours."""
    work, program = tmp_path / "work", tmp_path / "program"
    for folder in (work / "emu", program):
        folder.mkdir(parents=True)
    (work / "emu" / "__init__.py").write_text("raise RuntimeError('another emu')")
    for name in (
        "numpy",
        "socket",
        "selectors",
    ):  # those that multiprocessing's own processes load, too
        (work / f"{name}.py").write_text(f"raise RuntimeError('another {name}')")
    (program / "main.py").write_text(
        "import emu\n"
        "import sys\n"
        "def f(): return emu.__file__, sys.flags.safe_path\n"
        "if __name__ == '__main__': print(emu.launch(f, 1) == [f()])\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path])),
    }
    done = subprocess.run(
        [sys.executable, program / "main.py"],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("True\n", "")


_FORKING = """
import os, sys
import emu

def number():
    return emu.world().my_pe

if __name__ == "__main__":
    print(emu.launch(number, 2), flush=True)
    child = os.fork()
    if not child:
        print(emu.launch(number, 3), flush=True)
        sys.exit(0)  # by way of what multiprocessing does at the end
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), emu.launch(number, 2))
"""


def test_a_fork_starts_a_server_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "forking.py"
    path.write_text(_FORKING)
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, cwd=ROOT, timeout=120, check=True
    )
    assert done.stdout == "[0, 1]\n[0, 1, 2]\n0 [0, 1]\n"
    assert not done.stderr
