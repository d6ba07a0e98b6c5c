"""``emu predict`` and ``emu calibrate``: what they print, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from trace_samples import sample

from emu.commands.main import main
from emu.commands.predict import predict_file
from emu.trace.prediction.calibration.suite import cases
from emu.trace.prediction.devices.files import load_device, to_toml
from emu.trace.prediction.kernels import kernel_time
from emu.trace.reading import read_trace


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    sample().write(tmp_path / "run.emutrace")
    return tmp_path


def test_the_table_says_what_bounds_each_kernel_and_that_nothing_is_calibrated(
    folder: Path, capsys
) -> None:
    assert main(["predict", "run.emutrace", "--device", "h200", "--set", "hbm=2x"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("NVIDIA H200 SXM 141GB (uncalibrated; changed: hbm=2x): ")
    assert "bound by compute" in printed.splitlines()[0]
    row = next(line for line in printed.splitlines() if line.startswith("matmul"))
    assert row.split()[8:11] == ["compute", "dot", "f16"]
    assert "TFLOP/s" in row
    assert "compute, scaled" in printed
    assert "note: the numbers of NVIDIA H200 SXM 141GB are uncalibrated" in printed


def test_json_has_the_same_and_other_devices_other_times(folder: Path, capsys) -> None:
    seconds = {}
    for device in ("h100", "a2"):
        assert main(["predict", "run.emutrace", "--device", device, "--json"]) == 0
        data = json.loads(capsys.readouterr().out)
        assert data["status"] == "uncalibrated"
        seconds[device] = data["seconds"]
        assert {row["name"] for row in data["rows"]} >= {"matmul", "all_reduce"}
    assert seconds["a2"] > seconds["h100"]


def test_links_and_grids_can_be_others(folder: Path, capsys) -> None:
    def seconds(*words: str) -> float:
        assert main(["predict", "run.emutrace", "--json", *words]) == 0
        return float(json.loads(capsys.readouterr().out)["seconds"])

    plain = seconds()
    assert seconds("--link", "0.1x") > plain > seconds("--link", "inf") - 1e-12
    assert seconds("--link", "1GB/s,5us") > seconds("--link", "0.1x")
    assert seconds("--programs", "matmul=4") > plain
    assert seconds("--host", "1") > plain


def test_the_predicted_timeline_is_written(folder: Path, capsys) -> None:
    assert main(["predict", "run.emutrace", "-o", "p.emutrace", "--beside"]) == 0
    assert read_trace(folder / "p.emutrace").n_pes == 4
    assert main(["predict", "p.emutrace", "--most", "1"]) == 0  # it can be predicted again
    assert "… and" in capsys.readouterr().out


def test_configurations_and_turns_are_ordered(folder: Path, capsys) -> None:
    assert main(["predict", "run.emutrace", "--rank", "matmul"]) == 0
    assert (
        "matmul on NVIDIA H100 SXM5 80GB (uncalibrated), the fastest first"
        in capsys.readouterr().out
    )
    assert main(["predict", "run.emutrace", "--rank", "matmul", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["configurations"][0]["programs"] == 512
    words = ["predict", "--mc2", "matmul_all_reduce", "--shape", "4096,8192,8192", "--device", "a3"]
    assert main(words) == 0
    assert "best in " in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    turns = json.loads(capsys.readouterr().out)["turns"]
    assert [each["seconds"] for each in turns] == sorted(each["seconds"] for each in turns)


def test_the_numbers_of_a_device_are_shown_with_their_sources(folder: Path, capsys) -> None:
    assert main(["predict", "--device", "a2", "--numbers"]) == 0
    printed = capsys.readouterr().out
    assert "Ascend 910B2 (A2), one device (uncalibrated)" in printed
    assert "half an Ascend 910C by inference" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "TRACE is missing"),
        (["none.emutrace"], "the trace 'none.emutrace' cannot be read: No such file"),
        (["cut.emutrace"], "the trace cut.emutrace is damaged at byte "),
        (
            ["run.emutrace", "--device", "b300"],
            "device must be one of a2, a3, h100, h200, mi300x, or FILE.toml, but got 'b300'",
        ),
        (
            ["run.emutrace", "--device", "bad.toml"],
            "the device bad.toml: value of [hbm] must be at least 1 (B/s), but got -1",
        ),
        (["run.emutrace", "--set", "hbm=-1"], "set: hbm must be at least 1 (B/s), but got -1"),
        (
            ["run.emutrace", "--link", "quick"],
            "link must be a factor as in 2x, or BANDWIDTH[,LATENCY], but got 'quick'",
        ),
        (
            ["run.emutrace", "--link=-1x"],
            "the factor of link.bandwidth must be a number of at least 0",
        ),
        (["run.emutrace", "--host", "-1"], "host must be a number in [0, 1e6], but got -1.0"),
        (["run.emutrace", "--programs", "matmul"], "programs must be KERNEL=N, but got 'matmul'"),
        (["run.emutrace", "--programs", "matmul=0"], "programs of 'matmul' must be in [1, "),
        (["run.emutrace", "--programs", "x=1"], "programs must name a kernel of the trace"),
        (
            ["run.emutrace", "--rank", "x"],
            "kernel must be one that was counted (matmul, rms_norm), but got 'x'",
        ),
        (["run.emutrace", "-o", "none/p.emutrace"], "the trace none/p.emutrace cannot be written"),
        (["--mc2", "matmul_all_reduce"], "shape must be M,K,N, as in 512,5120,640, but got None"),
        (["--mc2", "matmul_all_reduce", "--shape", "1,2,x"], "shape must be M,K,N"),
        (["--mc2", "sum", "--shape", "1,2,3"], "mc2 must be one of all_gather_matmul"),
        (
            ["--mc2", "matmul_all_reduce", "--shape", "1,2,3", "--pes", "1"],
            "pes must be in [2, 65536], but got 1",
        ),
    ],
)
def test_what_cannot_be_is_refused(folder: Path, capsys, words: list[str], message: str) -> None:
    (folder / "cut.emutrace").write_bytes((folder / "run.emutrace").read_bytes()[:-5])
    text = to_toml(load_device("h100")).replace("value = 3350000000000.0", "value = -1")
    (folder / "bad.toml").write_text(text)
    assert main(["predict", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("emu predict: ")
    assert message in error
    assert error.count("\n") == 1


def test_a_trace_that_was_just_recorded_is_predicted(folder: Path, capsys) -> None:
    predict_file(folder / "run.emutrace", "h200")
    assert "NVIDIA H200" in capsys.readouterr().out


# emu calibrate


def test_times_that_were_measured_before_are_fitted_and_the_file_is_used(
    folder: Path, capsys
) -> None:
    truth = load_device("h100").changed(["efficiency.dot=0.6", "launch.latency=9us"])
    seconds = {case.name: kernel_time(case.work, truth).seconds for case in cases(truth)}
    (folder / "times.json").write_text(json.dumps({"device": "a GPU", "seconds": seconds}))
    assert (
        main(["calibrate", "--device", "h100", "--timings", "times.json", "-o", "mine.toml"]) == 0
    )
    assert "a GPU: mean error 0.0%" in capsys.readouterr().out
    assert load_device("mine.toml")["efficiency.dot"] == pytest.approx(0.6)
    assert main(["predict", "run.emutrace", "--device", "mine.toml"]) == 0
    assert capsys.readouterr().out.startswith("NVIDIA H100 SXM5 80GB (calibrated)")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--device", "x"], "device must be one of"),
        (["--device", "h100", "--timings", "none.json"], "the timings none.json cannot be read"),
        (["--device", "h100", "--timings", "run.emutrace"], "the timings run.emutrace are no JSON"),
        (["--device", "h100", "--timings", "list.json"], "the timings list.json must be"),
        (
            ["--device", "h100", "--timings", "few.json"],
            "measured must have times of at least 8 of the 62 micro-kernels, but has 0",
        ),
    ],
)
def test_wrong_timings_are_refused(folder: Path, capsys, words: list[str], message: str) -> None:
    (folder / "list.json").write_text("[1]")
    (folder / "few.json").write_text('{"device": "x", "seconds": {"empty": 1}}')
    assert main(["calibrate", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_the_micro_kernels_are_triton_that_compiles_and_runs(command) -> None:
    script = command.script(
        """
from emu.trace.prediction.calibration import measure
from emu.trace.prediction.calibration.suite import Case
from emu.trace.prediction.work import Work

measure._RUNS = 3
rounds = {"empty": 0, "copy": 1, "reread": 3, "fma": 5, "exp": 3, "dot": 2, "chain": 4}
cases = [Case(family, "f16" if family == "dot" else "f32", 4, n, Work(programs=4)) for family, n in rounds.items()]
device, seconds = measure.measure(cases, lambda case: None)
print(device, len(seconds), all(value > 0 for value in seconds.values()))
"""
    )
    done = command("run", "-n", "1", "--no-prefix", script)
    assert done.stdout == "emu cuda:0 7 True\n", done.stderr
