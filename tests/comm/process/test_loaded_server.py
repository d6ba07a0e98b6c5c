"""Servers that have loaded what all PEs of a session need: they load once, and failures cost time only."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import deque
from pathlib import Path

import pytest

from emu.comm.errors import ForkServerError
from emu.comm.process import loaded_server
from emu.comm.process.session import Session

ROOT = Path(__file__).parents[3]
_loaded: list[tuple[int, str, str | None]] = []


def load(text: str) -> None:
    _loaded.append((os.getpid(), text, os.environ.get("LOADED_TEST")))


def load_and_fail(how: str) -> None:
    load("half")
    if how == "raise":
        raise ValueError("cannot load")
    if how == "exit":
        sys.exit(0)
    if how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def answer(orders) -> None:
    for _ in orders:
        orders.reply((os.getppid(), list(_loaded)))


def has_ended(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_what_pes_need_is_loaded_once_and_ends_with_the_session(monkeypatch) -> None:
    monkeypatch.setenv("LOADED_TEST", "here")
    with (
        Session(answer, 3, load=(load, ("a",))) as first,
        Session(answer, 2, load=(load, ("b",))) as second,
    ):
        found = first.order(None)
        (server,) = {parent for parent, _ in found}
        assert [each for _, each in found] == [[(server, "a", "here")]] * 3
        other = second.order(None)[0]
        assert other[1] == [(other[0], "b", "here")]
        assert other[0] != server
        assert first.order(None) == found
    assert has_ended(server)
    assert has_ended(other[0])
    with Session(answer, 2) as third:  # the common server has loaded nothing
        assert [each for _, each in third.order(None)] == [[], []]


@pytest.mark.parametrize("how", ["raise", "exit", "die", "hang"])
def test_where_loading_fails_pes_are_started_all_the_same(monkeypatch, how) -> None:
    if how == "hang":
        monkeypatch.setattr(loaded_server, "_LOAD_S", 0.3)
    with Session(answer, 2, load=(load_and_fail, (how,))) as session:
        assert [each for _, each in session.order(None)] == [[], []]


def test_the_server_that_dies_is_named() -> None:
    with Session(answer, 2, load=(load, ("a",))) as session:
        ((server, _), _) = session.order(None)
        os.kill(server, signal.SIGKILL)
        with pytest.raises(ExceptionGroup) as caught:
            deque(iter(lambda: session.order(None), ()), 0)  # until its end is noticed
    (error,) = caught.value.exceptions
    assert isinstance(error, ForkServerError)
    assert f"the fork server of the session (process {server}) was killed by SIGKILL" in str(error)


SCRIPT = """
import os, sys, time
from tests.comm.process import test_loaded_server as t
from emu.comm.process.session import Session
with open(sys.argv[1], "a") as file:
    file.write("run\\n")
if __name__ == "__main__":
    session = Session(t.answer, 2, load=(t.load, ("a",)))
    print(session.order(None)[0][0], flush=True)
    if sys.argv[2] == "wait":
        time.sleep(60)
"""


@pytest.mark.parametrize("how", ["wait", "leave"])
def test_the_script_is_run_by_pes_only_and_nothing_outlives_it(tmp_path, how) -> None:
    script, log = tmp_path / "script.py", tmp_path / "log"
    script.write_text(textwrap.dedent(SCRIPT))
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, str(script), str(log), how],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    with contextlib.closing(process.stdout):
        server = int(process.stdout.readline())
        assert log.read_text().count("run") == 3
        if how == "wait":
            process.kill()
        assert process.wait() == (-signal.SIGKILL if how == "wait" else 0)
    assert has_ended(server)
