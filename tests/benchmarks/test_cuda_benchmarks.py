"""The CUDA rows of ``asv_benchmarks/compare.py``: without a device they say so, and have no numbers."""

import json
import subprocess
import sys
from pathlib import Path

from numba import cuda

COMPARE = Path(__file__).parents[2] / "asv_benchmarks" / "compare.py"


def test_rows_have_numbers_exactly_where_there_is_a_device(tmp_path):
    result = tmp_path / "rows.json"
    subprocess.run(
        [sys.executable, COMPARE, "--quick", "--only", "cuda/*", "--json", result],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        timeout=110,
    )
    rows = json.loads(result.read_text())
    assert {row["name"].split()[0] for row in rows} == {
        "cuda/set",
        "cuda/quant_scatter",
        "cuda/matmul",
    }
    for row in rows:
        if cuda.is_available():
            assert row["ours"] > 0
        else:
            assert (row["ours"], row["theirs"], row["note"]) == (None, None, "no CUDA device")
