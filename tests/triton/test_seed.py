"""The vector addition of Triton's tutorial as a page prints it, with nothing changed but lost signs, runs."""

import csv
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = Path(__file__).parent / "seed_vector_add.py"
SIZES = [2**i for i in range(12, 28)]

# Runs the sample, but measures its three least sizes alone, and keeps what comes out.
BRIEF = """
import runpy, sys
import triton
run = triton.testing.Mark.run
triton.testing.Mark.run = lambda mark, **options: asked.append(options)
asked = []
after = runpy.run_path(sys.argv[1], run_name="__main__")
assert asked == [{"print_data": True, "show_plots": True}]
mark = after["benchmark"]
assert mark.benchmarks.x_vals == [2**i for i in range(12, 28)]
mark.benchmarks.x_vals = mark.benchmarks.x_vals[:3]
run(mark, print_data=True, save_path=sys.argv[2])
"""


def emu_run(folder, *arguments, timeout=100):
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-P", "-m", "emu", "run", "-n", "1", "--no-prefix", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "MPLBACKEND": "Agg"},
        text=True,
        capture_output=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def check_printed(lines, sizes):
    one, other, difference, *table = lines
    assert one == other
    assert re.fullmatch(r"tensor\(\[[01]\.\d{4}.*\], device='cuda:0'\)", one)
    assert difference == "The maximum difference between torch and triton is 0.0"
    assert table[0] == "vector-add-performance:"
    assert table[1].split() == ["size", "Triton", "(GB/s)", "Torch", "(GB/s)"]
    rows = [line.split() for line in table[2:]]
    assert [int(row[1]) for row in rows] == sizes
    assert all(float(value) > 0 for row in rows for value in row[2:])


@pytest.mark.slow
def test_the_sample_runs_and_measures(tmp_path):
    brief = tmp_path / "brief.py"
    brief.write_text(BRIEF)
    results = tmp_path / "results"
    check_printed(emu_run(tmp_path, brief, SAMPLE, results), SIZES[:3])
    with (results / "vector-add-performance.csv").open() as file:
        header, *rows = csv.reader(file)
    assert header == ["size", "Triton (GB/s)", "Torch (GB/s)"]
    assert [int(row[0]) for row in rows] == SIZES[:3]
    assert "vector-add-performance.png" in (results / "results.html").read_text()
    plot = results / "vector-add-performance.png"
    assert plot.exists() == (find_spec("matplotlib") is not None)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_sample_runs_unmodified(tmp_path):
    check_printed(emu_run(tmp_path, SAMPLE, timeout=500), SIZES)
