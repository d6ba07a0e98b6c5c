"""Signals among devices in PTX: loops over compare-and-swap, by all lanes of a tile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "support" / "ptx_signals.py"


@pytest.mark.parametrize("n_pes", [1, 2, 4])
def test_blocks_of_several_pes_meet(n_pes: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "emu", "run", "-n", str(n_pes), PROGRAM],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("met") == n_pes
