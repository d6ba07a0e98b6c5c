"""``emu trace stats`` and ``html`` say what is in a trace, and refuse what is none."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from traces import trace_of, training_loop, write

from emu.commands.main import main
from emu.trace.format import TraceWriter
from emu.trace.statistics.summary import statistics_of


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "ring.emutrace"
    write(path, training_loop(3, 4))
    return path


def test_all_tables_are_printed_in_words(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "stats", str(trace)]) == 0
    printed = capsys.readouterr().out
    for title in (
        "What each PE did",
        "Time by kind",
        "Time by kernel",
        "Time by line",
        "Bytes that moved",
        "Critical path",
        "Imbalance 1.",
    ):
        assert title in printed
    assert "3 PEs" in printed
    assert "train.py:31" in printed
    assert "2 MiB" in printed
    assert "program, between events" in printed


@pytest.mark.parametrize(
    ("by", "title"),
    [
        ("kind", "Time by kind"),
        ("kernel", "Time by kernel"),
        ("line", "Time by line"),
        ("pe", "What each PE did"),
    ],
)
def test_one_table_is_printed_alone(
    trace: Path, by: str, title: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "stats", str(trace), "--by", by, "--top", "2"]) == 0
    printed = capsys.readouterr().out
    assert title in printed
    assert ("Critical path" in printed) is False
    assert ("more rows" in printed) == (by != "kernel")


def test_json_has_the_figures(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "stats", str(trace), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = statistics_of(training_loop(3, 4))
    assert found == json.loads(json.dumps(expected.to_json()))
    assert found["elapsed"] == sum(row["time"] for row in found["critical_path"])


def test_many_pes_have_pairs_instead_of_a_matrix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.emutrace"
    write(path, training_loop(16, 1))
    assert main(["trace", "stats", str(path)]) == 0
    assert "Bytes that moved between PEs" in capsys.readouterr().out


def test_an_empty_trace_and_one_that_stops_have_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.emutrace"
    write(path, trace_of([[], []], [[], []], status=None))
    assert main(["trace", "stats", str(path)]) == 0
    assert "stops before the run had ended" in capsys.readouterr().out
    assert main(["trace", "html", str(path)]) == 0


@pytest.mark.parametrize("tool", ["stats", "html"])
def test_what_is_no_trace_is_refused_with_a_line(
    trace: Path, tool: str, capsys: pytest.CaptureFixture[str]
) -> None:
    trace.write_bytes(trace.read_bytes()[:-7])
    assert main(["trace", tool, str(trace)]) == 2
    err = capsys.readouterr().err
    assert err.startswith("emu: the trace ")
    assert "is cut off" in err
    assert err.count("\n") == 1
    assert main(["trace", tool, str(trace.with_name("none"))]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_page_is_written_beside_the_trace_or_where_one_says(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "html", str(trace)]) == 0
    assert "open it in a browser" in capsys.readouterr().out
    assert trace.with_suffix(".html").read_text().startswith("<!doctype html>")
    other = tmp_path / "other.html"
    assert main(["trace", "html", str(trace), "-o", str(other)]) == 0
    assert other.exists()
    assert main(["trace", "html", str(trace), "-o", str(tmp_path / "no" / "page.html")]) == 2
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("end", [".svg", ".png"])
def test_a_picture_is_drawn(trace: Path, end: str) -> None:
    pytest.importorskip("matplotlib")
    picture = trace.with_suffix(end)
    assert main(["trace", "stats", str(trace), "--plot", str(picture)]) == 0
    begin = picture.read_bytes()[:5]
    assert begin in (b"\x89PNG\r", b"<?xml")
    if end == ".svg":
        assert "critical path" in picture.read_text() or "<path" in picture.read_text()


def test_a_picture_that_cannot_be_drawn_is_refused(
    trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "stats", str(trace), "--plot", "picture.gif"]) == 2
    assert "must end in one of .png, .svg" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["trace", "stats", str(trace), "--plot", "picture.png"]) == 2
    assert "tile-emu[viz]" in capsys.readouterr().err


def test_a_meta_that_says_little_is_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.emutrace"
    with TraceWriter(path, {"n_pes": 1}):
        pass
    assert main(["trace", "stats", str(path)]) == 0
    assert "A trace: 1 PE" in capsys.readouterr().out
