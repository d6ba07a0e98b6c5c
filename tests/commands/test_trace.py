"""``emu run --trace`` and ``emu trace convert``."""

from __future__ import annotations

import json

import pytest
from made_traces import write

SCRIPT = """
import sys
import numpy as np
import emu, emu.trace
world = emu.world()
with emu.trace.range("part"):
    world.all_reduce(np.ones(4, np.float32))
world.barrier()
if sys.argv[1:] == ["fail"] and world.my_pe == 1:
    raise ValueError("of the script")
"""


@pytest.fixture
def script(command):
    path = command.folder / "script.py"
    path.write_text(SCRIPT)
    return path


def test_a_run_writes_the_files_that_are_asked_for(command, script):
    done = command("run", "-n", "2", "--trace", "a.json", "--trace", "b.emutrace", script)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads((command.folder / "a.json").read_text())
    names = {(e["pid"], e["name"]) for e in document["traceEvents"] if e["ph"] == "X"}
    assert {(pe, name) for pe in (0, 1) for name in ("part", "all_reduce", "barrier")} <= names
    assert document["emu"]["status"] == "ok"
    assert (command.folder / "b.emutrace").exists()
    assert not (command.folder / "a.json.emutrace").exists()


def test_a_run_that_fails_writes_them_too(command, script):
    done = command("run", "-n", "2", "--trace", "a.json", script, "fail")
    assert done.returncode == 1
    document = json.loads((command.folder / "a.json").read_text())
    assert "of the script" in document["emu"]["status"]
    assert not (command.folder / "a.json.emutrace").exists()


@pytest.mark.parametrize("name", ["a.txt", "a", ".json", "a.emutrace.gz"])
def test_another_name_is_refused(command, script, name):
    done = command("run", "--trace", name, script)
    assert done.returncode == 2
    assert "end in .emutrace, .pftrace, .json, but got" in done.stderr


def test_a_folder_that_is_not_there_is_refused(command, script):
    done = command("run", "-n", "1", "--trace", "no/a.json", script)
    assert done.returncode == 2
    assert (
        "--trace must be a file that can be written, but got 'no/a.json': there is no folder"
        in done.stderr
    )


def test_a_trace_is_converted(command):
    write(command.folder / "a.emutrace")
    done = command("trace", "convert", "a.emutrace", "a.json")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert json.loads((command.folder / "a.json").read_text())["traceEvents"]


def test_what_cannot_be_converted_is_told(command):
    write(command.folder / "a.emutrace")
    for words, text in (
        (("a.emutrace", "a.txt"), "whose name ends in .pftrace or .json"),
        (("none.emutrace", "a.json"), "cannot be read"),
        (("--pe", "7", "a.emutrace", "a.json"), "pe must be in [0, 2), but got 7"),
    ):
        done = command("trace", "convert", *words)
        assert done.returncode == 2
        assert text in done.stderr
