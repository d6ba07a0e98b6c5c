"""The processes that compile for later stops of the tour: when there are some, and that they always end."""

import os
import signal
import subprocess
import sys

import pytest

from emu.comm.server import server
from emu.commands.demo import ahead

SLEEP = "import time; time.sleep(60)"


@pytest.fixture
def started(monkeypatch, tmp_path):
    """Processes that are started with an empty cache on two cores; they sleep."""
    monkeypatch.setenv("EMU_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(ahead, "usable_cores", lambda: 2)
    monkeypatch.setattr(ahead, "_PROGRAM", SLEEP)
    processes = []

    class Recorded(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            processes.append(self)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    return processes


def test_they_end_with_the_tour(started):
    with ahead.compiling_ahead():
        assert [process.poll() for process in started] == [None, None]
    assert [process.returncode for process in started] == [-signal.SIGTERM] * 2


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_they_end_when_a_stop_fails(started, error):
    with pytest.raises(error), ahead.compiling_ahead():
        raise error
    assert [process.returncode for process in started] == [-signal.SIGTERM] * 2


def test_one_that_does_not_end_by_itself_is_killed(started, monkeypatch):
    monkeypatch.setattr(subprocess.Popen, "terminate", lambda process: None)
    monkeypatch.setattr(ahead, "_STOP_S", 0.1)
    with ahead.compiling_ahead():
        assert [process.poll() for process in started] == [None, None]
    assert [process.returncode for process in started] == [-signal.SIGKILL] * 2


def test_the_first_is_not_left_when_the_second_cannot_be_started(started, monkeypatch):
    recorded = subprocess.Popen

    def one(*arguments, **options):
        if started:
            raise OSError("no more processes")
        return recorded(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", one)
    with pytest.raises(OSError, match="no more processes"), ahead.compiling_ahead():
        pass
    assert [process.returncode for process in started] == [-signal.SIGTERM]


def test_a_single_core_has_none(started, monkeypatch):
    monkeypatch.setattr(ahead, "usable_cores", lambda: 1)
    with ahead.compiling_ahead():
        assert started == []


def test_a_cache_that_has_been_filled_needs_none(started, monkeypatch, tmp_path):
    assert ahead._is_empty()
    monkeypatch.delenv("EMU_CACHE_DIR")
    server.load_kernels()
    assert not ahead._is_empty()
    with ahead.compiling_ahead():
        assert started == []


def test_without_a_place_for_compiled_code_there_is_none(started, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with ahead.compiling_ahead():
        assert started == []


@pytest.mark.parametrize("part", range(len(ahead._PARTS)))
def test_an_orphan_compiles_nothing(tmp_path, part):
    done = subprocess.run(
        [sys.executable, "-c", ahead._PROGRAM, "1", str(part), *sys.path],
        env={**os.environ, "EMU_CACHE_DIR": str(tmp_path / "cache")},
        check=False,
    )
    assert done.returncode == 0
    assert not (tmp_path / "cache").exists()
