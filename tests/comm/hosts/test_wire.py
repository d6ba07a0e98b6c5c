"""What agents send each other, without agents: one process of MPI that sends to itself."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import wire_program

import emu


@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="there is no mpi4py")
def test_what_is_sent_comes_whole_and_in_its_order() -> None:
    root = str(Path(emu.__file__).parents[1])
    run = subprocess.run(
        [sys.executable, wire_program.__file__],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    assert "all have come" in run.stdout
