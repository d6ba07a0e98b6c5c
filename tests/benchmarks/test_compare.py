"""``asv_benchmarks/compare.py``: what it writes, and what it does without a peer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

COMPARE = Path(__file__).parents[2] / "asv_benchmarks" / "compare.py"
SCHEMA = {
    "name": str,
    "peer": str,
    "ours": float | None,
    "theirs": float | None,
    "unit": str,
    "ratio": float | None,
    "goal": str,
    "met": bool | None,
    "note": str,
    "cpu": str,
    "date": str,
}
HIDE_MPI = (
    "import sys, runpy; sys.modules['mpi4py'] = None; path = sys.argv[1]; sys.argv = sys.argv[1:]; "
    "runpy.run_path(path, run_name='__main__')"
)


def compare(tmp_path, *arguments, hide_mpi=False):
    """Run it from another folder; return the rows and what it printed."""
    result = tmp_path / "rows.json"
    done = subprocess.run(
        [
            sys.executable,
            *(["-c", HIDE_MPI] if hide_mpi else []),
            str(COMPARE),
            *("--quick", "--json", str(result), *arguments),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(result.read_text())
    for row in rows:
        assert row.keys() == SCHEMA.keys()
        for key, kind in SCHEMA.items():
            assert isinstance(row[key], kind), (key, row[key])
    return rows, done.stdout


def test_a_row_has_both_contenders_and_their_ratio(tmp_path):
    (row,), printed = compare(tmp_path, "--only", "put_set/64 KiB")
    assert (row["name"], row["peer"], row["unit"]) == ("put_set/64 KiB", "np.copyto", "us")
    assert row["goal"] == ">= 0.9 x"
    assert row["ratio"] == pytest.approx(row["theirs"] / row["ours"])
    assert row["met"] is (row["ratio"] >= 0.9)
    assert row["name"] in printed
    assert "of 1 goals met" in printed


@pytest.mark.slow
def test_two_multiprocessing_peers_in_one_run(tmp_path):
    rows, _ = compare(tmp_path, "--only", "signal/one way from Python*")
    assert len(rows) == 2
    assert all(row["ratio"] > 0 for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["--without", "not installed"])
def test_a_missing_peer_leaves_null_and_says_so(tmp_path, how):
    arguments = ["--only", "put_add/4 KiB"]
    if how == "--without":
        (row,), printed = compare(tmp_path, *arguments, "--without", "mpi")
        reason = "mpi is left out (--without)"
    else:
        (row,), printed = compare(tmp_path, *arguments, hide_mpi=True)
        reason = "mpi4py is not installed"
    assert row["ours"] > 0
    assert (row["theirs"], row["ratio"], row["met"]) == (None, None, None)
    assert row["note"] == reason
    assert reason in printed


@pytest.mark.slow
def test_a_peer_that_fails_leaves_null_and_its_reason(tmp_path, monkeypatch):
    # A module of that name which cannot be imported, found before the installed one by every process.
    (tmp_path / "mpi4py.py").write_text("raise RuntimeError('no fabric here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    (row,), _ = compare(tmp_path, "--only", "put_add/4 KiB")
    assert row["ours"] > 0
    assert row["theirs"] is None
    assert row["note"].startswith("mpi of 2 ended with")


def test_without_jaxlib_shardy_in_c_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setenv("EMU_BENCH_JAX_PYTHON", str(tmp_path / "python"))
    (row,), _ = compare(tmp_path, "--only", "sdy/populate rules*")
    assert row["ours"] > 0
    assert row["theirs"] is None
    assert "No such file" in row["note"]


def test_a_pattern_that_matches_nothing_is_refused(tmp_path):
    done = subprocess.run(
        [sys.executable, str(COMPARE), "--only", "no such row"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "no row matches 'no such row'" in done.stderr


def test_code_for_a_lesser_cpu(tmp_path, monkeypatch):
    for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"):
        monkeypatch.delenv(name, raising=False)
    if "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this machine has no AVX2")
    (row,), printed = compare(tmp_path, "--only", "put_set/64 KiB", "--cpu", "x86-64-v3")
    assert row["cpu"] == "x86-64-v3"
    assert row["ours"] > 0
    assert "code for x86-64-v3" in printed


def test_an_unknown_cpu_is_refused_with_those_that_are_known(tmp_path):
    done = subprocess.run(
        [sys.executable, str(COMPARE), "--list", "--cpu", "z80"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "--cpu must be one of x86-64-v3, " in done.stderr
    assert "but is 'z80'" in done.stderr
    assert not done.stdout


def _row(name, ratio, cpu, met=True):
    fields = {"ours": 2.0, "theirs": 1.0, "unit": "us", "goal": ">= 0.9 x", "note": ""}
    about = {"cpu": cpu, "date": "2026-11-23", "met": met}
    return {"name": name, "peer": "NumPy", "ratio": ratio, **fields, **about}


def test_a_table_has_a_column_for_each_cpu(tmp_path):
    wide, narrow = tmp_path / "wide.json", tmp_path / "narrow.json"
    wide.write_text(json.dumps([_row("a", 1.25, "znver4"), _row("b", 0.5, "znver4", met=False)]))
    narrow.write_text(json.dumps([_row("a", 0.75, "x86-64-v3")]))
    done = subprocess.run(
        [sys.executable, str(COMPARE.with_name("columns.py")), str(wide), str(narrow)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "| row | peer | goal | znver4, 2026-11-23 | x86-64-v3, 2026-11-23 |",
        "|---|---|---|---|---|",
        "| a | NumPy | >= 0.9 x | 1.25 | 0.75 |",
        "| b | NumPy | >= 0.9 x | **0.50** | - |",
    ]
