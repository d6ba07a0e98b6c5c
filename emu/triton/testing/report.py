"""Tables, plots and files of measurements: ``perf_report`` and what it takes."""

from __future__ import annotations

import csv
import html
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emu.kernels.core.messages import shown
from emu.triton.runtime import checks


class Benchmark:
    """Description of a measurement: one plot, with x values along its axis and some lines.

    Args:
        x_names: Arguments of the function that ``x_vals`` are given to.
        x_vals: The values, in order; a tuple or list gives one to each of ``x_names``, anything else is
            given to all of them.
        line_arg: Argument of the function that selects the line.
        line_vals: Its values, one per line.
        line_names: Labels of the lines.
        plot_name: Title of the table, and name of the files. Empty: no plot.
        args: Further arguments of the function.
        xlabel: Default: the first of ``x_names``.
        ylabel: Unit of what is measured.
        x_log: Whether the x axis is logarithmic.
        y_log: Whether the y axis is logarithmic.
        styles: Colour and line style of each line, as matplotlib names them. Default: its own choice.

    Raises:
        ValueError: ``line_names`` and ``line_vals`` do not have the same length.
    """

    def __init__(
        self,
        x_names: Sequence[str],
        x_vals: Sequence[object],
        line_arg: str,
        line_vals: Sequence[object],
        line_names: Sequence[str],
        plot_name: str,
        args: Mapping[str, object],
        xlabel: str = "",
        ylabel: str = "",
        x_log: bool = False,
        y_log: bool = False,
        styles: Sequence[tuple[str, str]] | None = None,
    ) -> None:
        x_names, line_names = (
            checks.as_names("x_names", x_names),
            checks.as_names("line_names", line_names),
        )
        x_vals, line_vals = checks.as_list("x_vals", x_vals), checks.as_list("line_vals", line_vals)
        if not x_names:
            raise ValueError("x_names must name at least one argument, but is empty")
        for name, text in (
            ("line_arg", line_arg),
            ("plot_name", plot_name),
            ("xlabel", xlabel),
            ("ylabel", ylabel),
        ):
            if not isinstance(text, str):
                raise TypeError(f"{name} must be a string, but got {shown(text, with_type=True)}")
        args = checks.as_mapping("args", args)
        if styles is not None:
            styles = checks.as_list("styles", styles)
        if len(line_names) != len(line_vals):
            raise ValueError(
                f"line_names must have one name for each of the {len(line_vals)} line_vals, but got "
                f"{len(line_names)}"
            )
        self.x_names = x_names
        self.x_vals = x_vals
        self.x_log = x_log
        self.line_arg = line_arg
        self.line_vals = line_vals
        self.line_names = line_names
        self.y_log = y_log
        self.styles = styles
        self.xlabel = xlabel
        self.ylabel = ylabel
        self.plot_name = plot_name
        self.args = args


@dataclass
class _Table:
    """Measured values: a column per x name, then one per line."""

    columns: list[str]
    rows: list[list[Any]] = field(default_factory=list)
    bounds: list[list[tuple[object, object]]] = field(default_factory=list)

    def text(self) -> str:
        """Return the table with right-aligned columns and numbered rows."""
        cells = [["", *self.columns]]
        cells += [[str(i), *map(_cell, row)] for i, row in enumerate(self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        lines = []
        for row in cells:
            first = row[0].ljust(widths[0])
            rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
            lines.append("  ".join((first, *rest)))
        return "\n".join(lines)

    def write(self, path: Path, precision: int) -> None:
        with path.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self.columns)
            for row in self.rows:
                writer.writerow(
                    f"{value:.{precision}f}" if isinstance(value, float) else value for value in row
                )

    def frame(self) -> Any:
        try:
            pandas = importlib.import_module("pandas")
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "return_df must be False where pandas is not installed, but got True"
            ) from error
        return pandas.DataFrame(self.rows, columns=self.columns)


def _cell(value: object) -> str:
    return f"{value:.6f}" if isinstance(value, float) else str(value)


class Mark:
    """A function with the benchmarks that it is measured in; :func:`perf_report` makes it."""

    def __init__(
        self, fn: Callable[..., object], benchmarks: Benchmark | Sequence[Benchmark]
    ) -> None:
        self.fn = fn
        self.benchmarks = benchmarks

    def run(
        self,
        show_plots: bool = False,
        print_data: bool = False,
        save_path: str | Path = "",
        return_df: bool = False,
        diff_col: bool = False,
        save_precision: int = 6,
        **kwargs: object,
    ) -> Any:
        """Call the function for every x value and every line.

        Plots need matplotlib (``pip install tile-emu[viz]``); without it a line on stderr says that
        there is none, and everything else is done.

        Args:
            show_plots: Show the plots on the screen.
            print_data: Print the tables.
            save_path: Folder, made if needed, that ``<plot_name>.csv``, ``<plot_name>.png`` and
                ``results.html`` go into. Default: nothing is written.
            return_df: Return the tables; needs pandas.
            diff_col: Add the column ``Diff``, second line minus first, where there are two columns.
            save_precision: Digits after the point in the CSV file.
            **kwargs: Further arguments of the function.

        Returns:
            None; with ``return_df`` a pandas ``DataFrame``, or a list of them for a list of benchmarks.

        Raises:
            ValueError: An x value does not have one item for each of ``x_names``.
            ModuleNotFoundError: ``return_df`` is set, and pandas is not installed.
        """
        given = self.benchmarks
        single = isinstance(given, Benchmark)
        benchmarks: Sequence[Benchmark] = [given] if isinstance(given, Benchmark) else given
        for bench in benchmarks:
            _check_x_vals(bench)
        if return_df:
            _Table([]).frame()  # raises its error for missing pandas before anything is measured
        folder = Path(save_path) if save_path else None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        tables: list[_Table] = []
        try:
            for bench in benchmarks:
                tables.append(self._measure(bench, kwargs))
                _plot(bench, tables[-1], folder, show_plots)
                _publish(bench, tables[-1], folder, print_data, diff_col, save_precision)
        finally:
            if folder is not None:
                _write_page(folder, [b.plot_name for b in benchmarks[: len(tables)]])
        if not return_df:
            return None
        frames = [table.frame() for table in tables]
        return frames[0] if single else frames

    def _measure(self, bench: Benchmark, kwargs: dict[str, object]) -> _Table:
        lines = [f"{name} ({bench.ylabel})" for name in bench.line_names]
        table = _Table([*bench.x_names, *lines])
        for x in bench.x_vals:
            values = list(x) if isinstance(x, (list, tuple)) else [x] * len(bench.x_names)
            arguments = dict(zip(bench.x_names, values, strict=True))
            row, bounds = [], []
            for line in bench.line_vals:
                found = self.fn(**arguments, **{bench.line_arg: line}, **bench.args, **kwargs)
                value, low, high = (
                    found if isinstance(found, (list, tuple)) else (found, None, None)
                )
                row.append(value)
                bounds.append((low, high))
            table.rows.append([*values, *row])
            table.bounds.append(bounds)
        return table


def _check_x_vals(bench: Benchmark) -> None:
    count = len(bench.x_names)
    for x in bench.x_vals:
        if isinstance(x, (list, tuple)) and len(x) != count:
            raise ValueError(f"x_vals must have {count} values each as x_names, but got {x!r}")


def _publish(
    bench: Benchmark,
    table: _Table,
    folder: Path | None,
    print_data: bool,
    diff_col: bool,
    precision: int,
) -> None:
    if diff_col and len(table.columns) == 2:
        table.columns.append("Diff")
        for row in table.rows:
            row.append(row[1] - row[0])
    if print_data:
        sys.stdout.write(f"{bench.plot_name}:\n{table.text()}\n")
        sys.stdout.flush()
    if folder is not None:
        table.write(folder / f"{bench.plot_name}.csv", precision)


def _write_page(folder: Path, plots: list[str]) -> None:
    images = "".join(f'<img src="{html.escape(name)}.png"/>\n' for name in plots)
    (folder / "results.html").write_text(f"<html><body>\n{images}</body></html>\n")


def _draw(axes: Any, bench: Benchmark, table: _Table) -> None:
    """Draw the lines with their bounds into axes of matplotlib."""
    count = len(bench.x_names)
    x = [row[0] for row in table.rows]
    for i, label in enumerate(table.columns[count : count + len(bench.line_names)]):
        colour, style = bench.styles[i] if bench.styles else (None, None)
        axes.plot(x, [row[count + i] for row in table.rows], label=label, color=colour, ls=style)
        bounds = [row[i] for row in table.bounds]
        if all(low is not None and high is not None for low, high in bounds):
            axes.fill_between(x, *zip(*bounds, strict=True), alpha=0.15, color=colour)
    axes.legend()
    axes.set_xlabel(bench.xlabel or bench.x_names[0])
    axes.set_ylabel(bench.ylabel)
    axes.set_xscale("log" if bench.x_log else "linear")
    axes.set_yscale("log" if bench.y_log else "linear")


def _plot(bench: Benchmark, table: _Table, folder: Path | None, show: bool) -> None:
    if not bench.plot_name or not (show or folder is not None):
        return
    try:
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ModuleNotFoundError as error:
        if error.name not in (
            "matplotlib",
            "matplotlib.pyplot",
        ):  # a package that pyplot needs is missing
            raise
        sys.stderr.write(
            f"no plot of {bench.plot_name}: matplotlib is not installed "
            "(pip install tile-emu[viz])\n"
        )
        return
    figure, axes = pyplot.subplots()
    _draw(axes, bench, table)
    if show:
        pyplot.show()
    if folder is not None:
        figure.savefig(folder / f"{bench.plot_name}.png")
    pyplot.close(figure)


def perf_report(
    benchmarks: Benchmark | Sequence[Benchmark],
) -> Callable[[Callable[..., object]], Mark]:
    """Return a decorator that makes a function measurable: call ``run`` on the result.

    Args:
        benchmarks: One or several. The decorated function takes their arguments and returns one number,
            or a value with a lower and an upper bound.

    Raises:
        TypeError: One is no benchmark.
    """
    given = (
        [benchmarks]
        if isinstance(benchmarks, Benchmark)
        else checks.as_list("benchmarks", benchmarks)
    )
    for one in given:
        if not isinstance(one, Benchmark):
            raise TypeError(
                f"benchmarks must be of triton.testing.Benchmark, but got {shown(one, with_type=True)}"
            )

    def decorate(fn: Callable[..., object]) -> Mark:
        return Mark(fn, benchmarks)

    return decorate
