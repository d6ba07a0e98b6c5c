"""The page on StableHLO says what the code does."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_tables_are_those_of_the_code() -> None:
    script = ROOT / "docs" / "dev" / "stablehlo_table.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
