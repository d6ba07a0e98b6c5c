from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

PROGRAM = """
import collections, itertools, time

import conftest, pytest

conftest.GRACE_S = 1


@pytest.mark.timeout(1)
def test_stuck_in_compiled_code():
    collections.deque(itertools.repeat(1), maxlen=0)


@pytest.mark.timeout(1)
def test_stuck_in_python():
    time.sleep(60)


def test_other():
    pass
"""


def test_a_test_that_is_stuck_in_compiled_code_is_named_and_the_others_run(tmp_path: Path) -> None:
    (tmp_path / "test_stuck.py").write_text(PROGRAM)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 100\nmarkers = slow: thorough\n")
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-n", "1", "-rA", "--import-mode=importlib", "."]  # fmt: skip
    ended = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "crashed while running 'test_stuck.py::test_stuck_in_compiled_code'" in ended.stdout
    assert (
        "in test_stuck_in_compiled_code" in ended.stdout + ended.stderr
    )  # the stack of its thread
    assert "Failed: Timeout" in ended.stdout
    assert "2 failed, 1 passed" in ended.stdout
