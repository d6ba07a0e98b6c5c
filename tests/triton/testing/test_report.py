"""Tables, files and plots of measurements."""

import csv
import importlib.util
import sys

import pytest

from emu.triton import testing


def bench(**changes):
    settings = {
        "x_names": ["n"],
        "x_vals": [1, 20],
        "line_arg": "kind",
        "line_vals": ["a", "b"],
        "line_names": ["First", "Second"],
        "plot_name": "times",
        "args": {"scale": 2},
        "ylabel": "ms",
    }
    return testing.Benchmark(**settings | changes)


def measure(n, kind, scale):
    value = float(n * scale + (kind == "b"))
    return value, value - 0.5, value + 0.5


def test_a_table_is_printed(capsys):
    assert testing.perf_report(bench())(measure).run(print_data=True) is None
    assert capsys.readouterr().out.splitlines() == [
        "times:",
        "    n  First (ms)  Second (ms)",
        "0   1    2.000000     3.000000",
        "1  20   40.000000    41.000000",
    ]


def test_nothing_is_printed_or_written_unasked(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    testing.perf_report(bench())(measure).run()
    assert capsys.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_files_are_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    folder = tmp_path / "new" / "results"
    testing.perf_report([bench(), bench(plot_name="again")])(measure).run(
        save_path=str(folder), save_precision=2
    )
    with (folder / "times.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["n", "First (ms)", "Second (ms)"],
        ["1", "2.00", "3.00"],
        ["20", "40.00", "41.00"],
    ]
    page = (folder / "results.html").read_text()
    assert page.index('"times.png"') < page.index('"again.png"')


def test_several_x_names_get_one_value_each_or_the_same(capsys):
    def product(m, n, kind):
        return m * n

    several = bench(x_names=["m", "n"], x_vals=[(2, 3), 4], args={})
    testing.perf_report(several)(product).run(print_data=True)
    assert [line.split()[1:4] for line in capsys.readouterr().out.splitlines()[2:]] == [
        ["2", "3", "6"],
        ["4", "4", "16"],
    ]


def test_an_x_value_of_the_wrong_length_is_refused_before_anything_runs():
    mark = testing.perf_report(bench(x_vals=[(1, 2)]))(lambda **_: pytest.fail("it ran"))
    with pytest.raises(ValueError, match="x_vals must have 1 values each"):
        mark.run()


def test_lines_need_names():
    with pytest.raises(ValueError, match="one name for each of the 2 line_vals, but got 1"):
        bench(line_names=["First"])


def test_a_missing_matplotlib_is_told_and_the_rest_is_done(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    testing.perf_report(bench())(measure).run(show_plots=True, save_path=tmp_path)
    assert "no plot of times: matplotlib is not installed" in capsys.readouterr().err
    assert (tmp_path / "times.csv").exists()


def test_a_missing_pandas_is_told_before_anything_runs(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    mark = testing.perf_report(bench())(lambda **_: pytest.fail("it ran"))
    with pytest.raises(ModuleNotFoundError, match="return_df must be False where pandas is not"):
        mark.run(return_df=True)


@pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed"
)
def test_a_plot_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    styled = bench(x_log=True, y_log=True, styles=[("blue", "-"), ("green", "--")])
    testing.perf_report(styled)(measure).run(save_path=tmp_path)
    assert (tmp_path / "times.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="pandas is not installed")
def test_frames_are_returned():
    frame = testing.perf_report(bench())(measure).run(return_df=True)
    assert list(frame.columns) == ["n", "First (ms)", "Second (ms)"]
    assert frame["Second (ms)"].tolist() == [3.0, 41.0]
    frames = testing.perf_report([bench()])(measure).run(return_df=True)
    assert len(frames) == 1


def test_a_difference_column_is_added(capsys):
    single = bench(line_vals=["b"], line_names=["Second"])
    testing.perf_report(single)(measure).run(print_data=True, diff_col=True)
    assert capsys.readouterr().out.splitlines()[-1].split() == ["1", "20", "41.000000", "21.000000"]
