"""``emu run --predict``: a run is recorded and counted, and replayed on a device."""

from __future__ import annotations

from pathlib import Path

import pytest

from emu.commands.main import main
from emu.trace import read_trace
from emu.trace.events import Kind

PROGRAM = """
import torch, triton
import triton.language as tl

@triton.jit
def twice(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

x = torch.ones(1000, device="cuda")
for _ in range(3):
    twice[(8,)](x, 1000, BLOCK=128)
twice[(4,)](x, 500, BLOCK=128)
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def test_a_run_is_predicted_from_exact_counts(
    program: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "run.emutrace"
    assert main(["run", "-n", "1", "--predict", "h200", "--trace", str(trace), program]) == 0
    said = capfd.readouterr().out
    assert "NVIDIA H200" in said
    assert "twice" in said
    read = read_trace(trace)
    launches = [e for e in read.events[0] if e["kind"] == Kind.LAUNCH]
    sites = [read.sites[0][e["site"]] for e in launches]
    grids = [(s.details or {})["grid"] for s in sites if s.name == "twice"]
    assert grids == [[8, 1, 1]] * 3 + [[4, 1, 1]]
    counts = [(s.details or {})["counts"] for s in sites if s.name == "twice"]
    assert [c["programs"] for c in counts] == [8, 8, 8, 4]
    assert [sum(c["work"]["vector"].values()) for c in counts] == [1024, 1024, 1024, 512]


def test_a_device_that_is_not_known_is_told_before_anything_runs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.py"
    path.write_text("print('ran')")
    assert main(["run", "-n", "1", "--predict", "h900", str(path)]) == 2
    out, err = capfd.readouterr()
    assert "ran" not in out
    assert "device must be one of a2, a3, h100, h200, mi300x" in err
