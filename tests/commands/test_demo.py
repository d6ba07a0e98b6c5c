"""`emu demo`: its cases, its measure of error, its exit status, and what it does with files."""

import io
import json
import struct

import ml_dtypes
import numpy as np
import pytest
from rich.console import Console

from emu.commands import demo
from emu.commands.demo import GATHER, REDUCE, Case, Outcome
from emu.commands.weights import WeightFileError


def case(operation=GATHER, **changes):
    return Case(**{"operation": operation, "m": 4, "k": 6, "n": 8, "n_pes": 2, **changes})


def test_the_command_runs_both_operations_on_several_shapes(command):
    done = command("demo", "-n", 2)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("AllGather+MatMul") == 3
    assert done.stdout.count("MatMul+AllReduce+RMSNorm") == 3
    assert done.stdout.count(" ok") == 6


@pytest.mark.parametrize("operation", [GATHER, REDUCE])
@pytest.mark.parametrize("n_pes", [1, 3])
def test_a_case_is_within_its_tolerance(operation, n_pes):
    outcome = demo.run_case(case(operation, m=6, k=9, n=15, n_pes=n_pes))
    assert outcome.passed
    assert outcome.seconds > 0


def test_the_error_is_relative_to_the_element_or_the_mean_magnitude():
    reference = np.array([[4.0, 0.0, 2.0, 2.0]])
    assert demo.error_of(np.array([[4.4, 0.0, 2.0, 2.0]]), reference) == pytest.approx(0.1)
    assert demo.error_of(np.array([[4.0, 0.2, 2.0, 2.0]]), reference) == pytest.approx(0.1)


def test_an_error_over_the_tolerance_fails_the_demo(monkeypatch):
    text = io.StringIO()
    monkeypatch.setattr(
        demo, "run_case", lambda c: Outcome(case=c, error=c.tolerance * 1.01, seconds=1.0)
    )
    assert demo.run_demo(2, console=Console(file=text, width=120)) == 1
    assert "WRONG" in text.getvalue()


def test_nan_is_wrong():
    reference = np.ones((1, 2))
    error = demo.error_of(np.array([[1.0, np.nan]]), reference)
    assert not Outcome(case=case(), error=error, seconds=1.0).passed


def test_a_matrix_that_does_not_divide_is_padded_and_that_is_said(tmp_path):
    path = tmp_path / "w.npy"
    matrix = np.arange(35, dtype=np.float32).reshape(5, 7)
    np.save(path, matrix)
    (gather, reduce), notes = demo.cases_of_file(path, 4)
    assert (gather.k, gather.n) == (5, 8)
    assert (reduce.k, reduce.n) == (8, 7)
    assert notes == [
        "w.npy: 1 arrays, 1 float matrices, 1 used",
        "w: rounded from float32 to bfloat16",
        f"w: 1 zero columns added for {GATHER}",
        f"w: 3 zero rows added for {REDUCE}",
    ]
    np.testing.assert_array_equal(demo._inputs(gather)[1][:, :7], matrix.astype(ml_dtypes.bfloat16))
    assert not demo._inputs(gather)[1][:, 7:].any()


def test_a_large_matrix_is_cut_off_and_that_is_said(tmp_path):
    np.save(tmp_path / "w.npy", np.zeros((4, demo._MAX_SIDE + 8), np.float16))
    (gather, _), notes = demo.cases_of_file(tmp_path / "w.npy", 4)
    assert gather.n == demo._MAX_SIDE
    assert f"w: the first 4 x {demo._MAX_SIDE} of 4 x {demo._MAX_SIDE + 8}" in notes


def test_a_file_without_a_float_matrix_is_refused(tmp_path):
    np.save(tmp_path / "ids.npy", np.zeros((3, 3), np.int64))
    with pytest.raises(WeightFileError, match=r"must have a matrix .* none among 1 arrays"):
        demo.cases_of_file(tmp_path / "ids.npy", 2)


def test_the_command_takes_weights_from_a_safetensors_file(command):
    matrix = np.linspace(-1, 1, 30, dtype=np.float32).reshape(6, 5).astype(ml_dtypes.bfloat16)
    header = json.dumps({"layer": {"dtype": "BF16", "shape": [6, 5], "data_offsets": [0, 60]}})
    path = command.folder / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode() + matrix.tobytes())
    done = command("demo", "-n", 2, "--input", path)
    assert done.returncode == 0, done.stderr
    assert "1 arrays, 1 float matrices, 1 used" in done.stdout
    assert "1 zero columns added" in done.stdout
    assert done.stdout.count(" ok") == 2


@pytest.mark.parametrize("name", ["absent.npy", "broken.npy", "model.bin"])
def test_a_file_that_cannot_be_read_is_a_usage_error(command, name):
    if name != "absent.npy":
        (command.folder / name).write_bytes(b"nothing")
    done = command("demo", "-n", 2, "--input", command.folder / name)
    assert done.returncode == 2
    assert done.stderr.startswith("emu: ")
    assert name in done.stderr
