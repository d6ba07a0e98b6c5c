"""The plugin behind ``make check-sweep``: what it lets pass, what it does not, and its list of known alarms."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

TESTS = """
import numpy as np
import pytest
import emu
import emu.triton.language as tl
from emu import triton

@triton.jit
def count(to):
    tl.store(to, tl.load(to) + 1)

def race_between_pes():
    world = emu.world()
    cell = world.alloc(1, np.int32)
    world.put(cell, [world.my_pe], 0)

def test_clean():
    count[(1,)](np.zeros(1, np.int32))

def test_grid():
    count[(2,)](np.zeros(1, np.int32))

def test_bounds():
    count[(1,)](np.zeros(0, np.int32))

def test_pes():
    emu.launch(race_between_pes, 2)

def test_expected():
    with pytest.raises(triton.GridRaceError):
        count[(2,)](np.zeros(1, np.int32))

def test_left_out():
    raise AssertionError

@pytest.mark.parametrize("n", [1, 2])
def test_known(n):
    count[(n,)](np.zeros(1, np.int32))
"""


def run(folder: Path, known: str) -> dict[str, str]:
    """Return the outcomes of the tests above with a list of known alarms."""
    (folder / "tests").mkdir()
    (folder / "tests" / "test_alarms.py").write_text(TESTS)
    (folder / "known.toml").write_text(known)
    (folder / "short.py").write_text(
        "from pathlib import Path\nimport check_sweep\ncheck_sweep.read_known.__defaults__ = (Path('known.toml'),)\n"
    )
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support"), str(folder)])
    environment = {**os.environ, "PYTHONPATH": path}
    environment.pop("EMU_CHECK", None)
    options = ("-p", "check_sweep", "-p", "short", "-p", "no:cacheprovider", "-v")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--rootdir", folder, "tests"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return dict(re.findall(r"^tests/test_alarms.py::(\S+) ([A-Z]+)", done.stdout, re.MULTILINE))


KNOWN = """
[[alarm]]
tests = ["tests/test_alarms.py::test_known[2]"]
kind = "true"
reason = "It is there to be told."

[[alarm]]
tests = ["tests/test_alarms.py::test_left_out"]
kind = "left out"
reason = "It chooses its own checks."
"""


def test_alarms_fail_and_known_ones_are_expected(tmp_path: Path) -> None:
    assert run(tmp_path, KNOWN) == {
        "test_clean": "PASSED",
        "test_grid": "FAILED",
        "test_bounds": "FAILED",
        "test_pes": "FAILED",
        "test_expected": "PASSED",
        "test_known[1]": "PASSED",
        "test_known[2]": "XFAIL",
    }


def test_an_entry_that_is_not_needed_is_an_error(tmp_path: Path) -> None:
    found = run(tmp_path, KNOWN.replace("[2]", ""))
    assert (found["test_known[1]"], found["test_known[2]"]) == ("FAILED", "XFAIL")


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch) -> object:
    """Import the plugin without what it sets in the environment."""
    monkeypatch.setenv("EMU_CHECK", os.environ.get("EMU_CHECK", ""))
    import check_sweep

    return check_sweep


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"reason": '"short"'}, "reason must be a sentence"),
        ({"kind": '"false"'}, "kind must be one of"),
        ({"tests": "[]"}, "tests must be ids"),
        ({"tests": '["comm"]'}, "tests must be ids"),
        ({"test": '"x"'}, "must have tests, kind and reason"),
    ],
)
def test_a_bad_entry_is_refused(
    change: dict[str, str], said: str, tmp_path: Path, sweep: object
) -> None:
    entry = {"tests": '["tests/x"]', "kind": '"true"', "reason": '"It is there on purpose."'}
    text = "\n".join(f"{key} = {value}" for key, value in {**entry, **change}.items())
    file = tmp_path / "known.toml"
    file.write_text(f"[[alarm]]\n{text}\n")
    with pytest.raises(ValueError, match=said):
        sweep.read_known(file)  # type: ignore[attr-defined]


def test_every_known_alarm_is_a_test_that_there_is(sweep: object) -> None:
    known = sweep.read_known()  # type: ignore[attr-defined]
    assert known
    for entry in known:
        for test in entry.tests:
            file, _, function = test.partition("::")
            assert (ROOT / file).exists(), test
            if function:
                name = function.partition("[")[0]
                assert f"def {name}(" in (ROOT / file).read_text(), test
