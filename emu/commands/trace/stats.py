"""``emu trace stats``: prints where the time of a run went."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from emu.trace.errors import TraceError
from emu.trace.events import Kind
from emu.trace.reading import Trace, read_trace
from emu.trace.statistics.summary import Statistics, statistics_of
from emu.trace.statistics.totals import Row
from emu.trace.statistics.words import KINDS, duration, percent, size

_BAD = 2
_WIDEST_MATRIX = 12
_NARROWEST = 110
"""Columns where the output is no terminal."""


def run_stats(source: Path, *, by: str | None, top: int, as_json: bool, plot: Path | None) -> int:
    """Print the figures of a trace.

    Args:
        source: The trace.
        by: Which table is printed alone: kind, kernel, line or pe; None: all of them.
        top: Rows of each table.
        as_json: Whether JSON is printed instead.
        plot: A picture that is drawn, too.

    Returns:
        The exit status: 0, or 2 where the trace cannot be read or the picture cannot be drawn.
    """
    try:
        if plot is not None:
            from emu.trace import plots

            plots.check(plot)  # before the work
        found = statistics_of(read_trace(source))
        if plot is not None:
            plots.draw(found, plot, title=source.name)
    except TraceError as error:
        sys.stderr.write(f"emu: {error}\n")
        return _BAD
    if as_json:
        sys.stdout.write(json.dumps(found.to_json()) + "\n")
    else:
        _Printer(found, top).print(by)
    return 0


class _Printer:
    """Prints tables."""

    def __init__(self, statistics: Statistics, top: int) -> None:
        console = Console(highlight=False)
        if not console.is_terminal:
            console = Console(highlight=False, width=max(_NARROWEST, console.width))
        self._console = console
        self._found = statistics
        self._top = top

    def print(self, by: str | None) -> None:
        """Print one table, or all."""
        tables = {
            "pe": self._pes,
            "kind": self._kinds,
            "kernel": self._kernels,
            "line": self._lines,
        }
        if by is not None:
            tables[by]()
            return
        self._head(self._found.trace)
        for table in tables.values():
            table()
        self._matrix()
        self._path()

    def _say(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style))

    def _head(self, trace: Trace) -> None:
        found = self._found
        pes = "1 PE" if trace.n_pes == 1 else f"{trace.n_pes} PEs"
        self._say(
            f"{found.command or 'A trace'}: {pes}, {duration(found.elapsed)}, {_count(len(found.columns.start))} events",
            "bold",
        )
        if found.folder:
            self._say(f"Files are in {found.folder}", "dim")
        if trace.status is None:
            self._say(
                "The trace stops before the run had ended: what came later is not in it.", "yellow"
            )
        elif trace.status != "ok":
            self._say(f"The run did not end well: {trace.status}", "yellow")
        if sum(trace.lost):
            self._say(
                f"{_count(sum(trace.lost))} events were lost for want of room: times are lower bounds.",
                "yellow",
            )

    def _table(
        self, title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], note: str = ""
    ) -> None:
        """Print a table; a head that begins with ``<`` is of words, others of numbers."""
        self._say("")
        self._say(title, "bold")
        if note:
            self._say(note, "dim")
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
        for head in heads:
            if head.startswith("<"):
                table.add_column(head[1:], overflow="fold")
            else:
                table.add_column(head, justify="right", no_wrap=True)
        for row in rows[: self._top]:
            table.add_row(*(Text(cell.removeprefix(self._found.folder)) for cell in row))
        self._console.print(table)
        if len(rows) > self._top:
            self._say(f"… {_count(len(rows) - self._top)} more rows (--top N)", "dim")

    def _pes(self) -> None:
        elapsed = self._found.elapsed
        rows = [
            (
                *(str(pe), percent(each.busy, elapsed), duration(each.compute)),
                *(duration(each.communicate), percent(each.overlap, each.communicate)),
                *(percent(each.bubble, elapsed), percent(each.unrecorded, elapsed)),
            )
            for pe, each in enumerate(self._found.activities)
        ]
        imbalance = self._found.imbalance
        note = "busy + only waits + not recorded = the whole time; hidden: communication while the PE computes"
        heads = ("PE", "busy", "computes", "communicates", "hidden", "only waits", "not recorded")
        self._table("What each PE did", heads, rows, note)
        if imbalance is not None and len(rows) > 1:
            self._say(
                f"Imbalance {imbalance:.2f}: the busiest PE is busy {imbalance:.2f} times as long as the mean."
            )

    def _kinds(self) -> None:
        rows = self._found.by_kind()
        self._sums("Time by kind of event", "<kind", rows, [KINDS[Kind[row.name]] for row in rows])

    def _kernels(self) -> None:
        rows = self._found.by_kernel()
        if not rows:
            self._say("\nNo kernel was launched.")
            return
        self._sums("Time by kernel", "<kernel", rows, [row.name for row in rows], "<line")

    def _lines(self) -> None:
        rows = self._found.by_line()
        self._sums("Time by line of the program", "<line", rows, [row.name for row in rows])

    def _sums(
        self, title: str, head: str, rows: list[Row], names: list[str], place: str | None = None
    ) -> None:
        whole = self._found.elapsed * self._found.trace.n_pes
        heads = (head, "own time", "of all", "with inner", "events", "mean", "longest", "moved")
        lines = [
            (
                *(name, duration(row.self_time), percent(row.self_time, whole)),
                *(duration(row.total), _count(row.count), duration(row.total / row.count)),
                *(duration(row.longest), size(row.bytes) if row.bytes else ""),
                *((row.place,) if place else ()),
            )
            for row, name in zip(rows, names, strict=True)
        ]
        note = "own time: without what lies within; of all: of all PEs' time, more than 100 % where threads overlap"
        self._table(title, (*heads, place) if place else heads, lines, note)

    def _matrix(self) -> None:
        moved, n_pes = self._found.moved, self._found.trace.n_pes
        title = "Bytes that moved from a PE (row) to a PE (column)"
        if not moved.calls.any():
            self._say("\nNo put, get, signal or atomic names another PE.")
        elif n_pes <= _WIDEST_MATRIX:
            heads = ("from \\ to", *map(str, range(n_pes)))
            rows = [
                (str(pe), *(size(n) if calls else "." for n, calls in zip(*pair, strict=True)))
                for pe, pair in enumerate(
                    zip(moved.bytes.tolist(), moved.calls.tolist(), strict=True)
                )
            ]
            top, self._top = self._top, n_pes
            self._table(title, heads, rows)
            self._top = top
        else:
            pairs = sorted(
                ((int(moved.bytes[a, b]), int(a), int(b)) for a, b in zip(*moved.calls.nonzero(), strict=True)),
                key=lambda pair: (-pair[0], *pair[1:]),
            )  # fmt: skip
            rows = [(str(a), str(b), size(n), _count(int(moved.calls[a, b]))) for n, a, b in pairs]
            self._table("Bytes that moved between PEs", ("from", "to", "moved", "calls"), rows)
        if moved.elsewhere:
            self._say(
                f"Beside it {size(moved.elsewhere)} of collectives, servers and calls that name no single PE."
            )

    def _path(self) -> None:
        elapsed = self._found.elapsed
        rows = [
            (
                *(duration(row.time), percent(row.time, elapsed), str(row.pe)),
                *(row.name, "" if row.kind is None else KINDS[row.kind], row.place),
            )
            for row in self._found.path_rows
        ]
        note = "what the end had to wait for, back to the start; only what is here makes the run shorter when it gets faster"
        heads = ("time", "of the run", "PE", "<what", "<kind", "<line")
        self._table("Critical path", heads, rows, note)


def _count(n: int) -> str:
    return f"{n:,}"
