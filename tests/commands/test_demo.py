"""`emu demo`: its tour, its measure of error, its exit status, and what it does with files."""

import io
import json
import struct

import ml_dtypes
import numpy as np
import pytest
from rich.console import Console

from emu.commands.demo import programs, pypto, tour
from emu.commands.demo.pypto import GATHER, REDUCE, Case, Outcome
from emu.commands.demo.result import Result
from emu.commands.weights import WeightFileError


def case(operation=GATHER, **changes):
    return Case(**{"operation": operation, "m": 4, "k": 6, "n": 8, "n_pes": 2, **changes})


def result(**changes):
    values = {"system": "x", "what": "y", "n_pes": 1, "reference": "z", "seconds": 1.0}
    return Result(**{**values, **changes})


def test_the_command_shows_each_system_and_every_result_is_right(command):
    done = command("demo", "-n", 2)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    rows = [line.split()[0] for line in lines if line.rstrip().endswith(" ok")]
    assert rows == ["Triton", "Triton", "PyPTO", "PyPTO", "MC2", "torch_npu", "Shardy", "machine"]
    assert "PE 0 waits in wait_until" in done.stdout
    tried = lines[lines.index("Try next:") + 1 :]
    assert len(tried) == 3
    assert all(line.startswith("  emu ") for line in tried)


def test_the_commands_to_try_next_exist(command):
    for line, _ in tour.TRY_NEXT:
        words = line.split()[1:]
        shown = command(*words[: 2 if words[0] == "sdy" else 1], "--help").stdout
        assert [word for word in words if word.startswith("-") and word not in shown] == []


@pytest.mark.parametrize("n_pes", [1, 3])
def test_a_fused_operator_over_a_link_is_right_on_any_number_of_pes(n_pes):
    assert programs.fused_over_a_link(n_pes).passed


def test_without_torch_the_softmax_is_timed_beside_numpy(monkeypatch):
    monkeypatch.setattr(programs, "find_spec", lambda name: None)
    found = programs.softmax()
    assert found.passed
    assert "NumPy" in found.time_text


@pytest.mark.parametrize(
    ("changes", "passed", "text"),
    [
        ({"error": 0.0}, True, "0 (exact)"),
        ({"error": 3.0}, False, "3 (exact)"),
        ({"error": 0.004, "limit": 0.008}, True, "0.004 (0.008)"),
        ({"error": float("nan"), "limit": 0.008}, False, "nan (0.008)"),
        ({}, True, "-"),
        ({"right": False}, False, "-"),
    ],
)
def test_a_result_is_right_within_its_limit(changes, passed, text):
    assert result(**changes).passed is passed
    assert result(**changes).error_text == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(1.5, "1.5 s"), (0.0125, "12.5 ms"), (42e-6, "42 us")]
)
def test_a_time_has_a_unit_that_suits_it(seconds, text):
    assert result(seconds=seconds).time_text == text
    assert result(seconds=seconds, beside="NumPy 1 s").time_text == f"{text} (NumPy 1 s)"


@pytest.mark.parametrize("operation", [GATHER, REDUCE])
@pytest.mark.parametrize("n_pes", [1, 3])
def test_a_case_is_within_its_tolerance(operation, n_pes):
    outcome = pypto.run_case(case(operation, m=6, k=9, n=15, n_pes=n_pes))
    assert outcome.passed
    assert outcome.seconds > 0


def test_the_error_is_relative_to_the_element_or_the_mean_magnitude():
    reference = np.array([[4.0, 0.0, 2.0, 2.0]])
    assert pypto.error_of(np.array([[4.4, 0.0, 2.0, 2.0]]), reference) == pytest.approx(0.1)
    assert pypto.error_of(np.array([[4.0, 0.2, 2.0, 2.0]]), reference) == pytest.approx(0.1)


def test_an_error_over_its_limit_fails_the_demo(monkeypatch):
    text = io.StringIO()
    monkeypatch.setattr(tour, "stops", lambda n_pes: [("x", lambda: result(error=1.0))])
    assert tour.run_demo(2, console=Console(file=text, width=120)) == 1
    assert "WRONG" in text.getvalue()


def test_nan_is_wrong():
    reference = np.ones((1, 2))
    error = pypto.error_of(np.array([[1.0, np.nan]]), reference)
    assert not Outcome(case=case(), error=error, seconds=1.0).passed


def test_a_matrix_that_does_not_divide_is_padded_and_that_is_said(tmp_path):
    path = tmp_path / "w.npy"
    matrix = np.arange(35, dtype=np.float32).reshape(5, 7)
    np.save(path, matrix)
    (gather, reduce), notes = pypto.cases_of_file(path, 4)
    assert (gather.k, gather.n) == (5, 8)
    assert (reduce.k, reduce.n) == (8, 7)
    assert notes == [
        "w.npy: 1 arrays, 1 float matrices, 1 used",
        "w: rounded from float32 to bfloat16",
        f"w: 1 zero columns added for {GATHER}",
        f"w: 3 zero rows added for {REDUCE}",
    ]
    np.testing.assert_array_equal(
        pypto._inputs(gather)[1][:, :7], matrix.astype(ml_dtypes.bfloat16)
    )
    assert not pypto._inputs(gather)[1][:, 7:].any()


def test_a_large_matrix_is_cut_off_and_that_is_said(tmp_path):
    np.save(tmp_path / "w.npy", np.zeros((4, pypto._MAX_SIDE + 8), np.float16))
    (gather, _), notes = pypto.cases_of_file(tmp_path / "w.npy", 4)
    assert gather.n == pypto._MAX_SIDE
    assert f"w: the first 4 x {pypto._MAX_SIDE} of 4 x {pypto._MAX_SIDE + 8}" in notes


def test_a_file_without_a_float_matrix_is_refused(tmp_path):
    np.save(tmp_path / "ids.npy", np.zeros((3, 3), np.int64))
    with pytest.raises(WeightFileError, match=r"must have a matrix .* none among 1 arrays"):
        pypto.cases_of_file(tmp_path / "ids.npy", 2)


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
