"""``emu run --progress``: a table in the terminal that says what each PE does, while it does it.

It is drawn on standard error, below what the PEs print, from what the launcher knows of each PE anyway: its state, what it waits for, the waits
that have ended, the calls that have changed memory, and the processor time of its process. The PEs do nothing for it. Before anything
else is written to the terminal the table is taken away, and it is drawn again behind the end of a line only.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from emu.comm.layout import DEAD, FINISHED, LEAVING, NOT_STARTED
from emu.comm.memory.segment import Segment
from emu.comm.process.launch import Launch, carry_out, prepare
from emu.comm.process.launch_options import LaunchOptions
from emu.comm.process.payload import Call
from emu.comm.watchdog.compiling import is_compiling, is_reading_input
from emu.comm.watchdog.monitor import describe, read_state
from emu.comm.watchdog.progress import cpu_ticks

_EVERY_S = 0.25
_MOST_ROWS = 32
_STATES = {
    FINISHED: ("finished", "green"),
    DEAD: ("dead", "red"),
    NOT_STARTED: ("starting", "dim"),
    LEAVING: ("ending", "dim"),
}


def launcher(wanted: bool) -> Callable[..., object] | None:
    """Return what starts PEs and shows what they do; None where that is not wanted, or standard error is no terminal."""
    if not wanted or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return None
    return _launch


def _launch(
    fn: Callable[..., Any], n_pes: int, *, args: Sequence[Any] = (), **fields: Any
) -> list[Any]:
    world, call, options = prepare(_ShownLaunch, fn, n_pes, args, None, None, fields)
    with world.shown():
        return carry_out(world, call, options)


class _ShownLaunch(Launch):
    """A launch that shows what its PEs do."""

    def __init__(self, segment: Segment, *rest: Any) -> None:
        super().__init__(segment, *rest)
        self._display = Display(segment, sys.stderr)

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Let all that is written meanwhile stand above the table; in the end take that away."""
        display = self._display
        above: tuple[Any, Any] = (Above(sys.stdout, display), Above(sys.stderr, display))
        with contextlib.redirect_stdout(above[0]), contextlib.redirect_stderr(above[1]):
            try:
                yield
            finally:
                display.close()

    def start(self, call: Call, options: LaunchOptions) -> None:
        """Start every PE."""
        super().start(call, options)
        self._display.pids = [process.pid for process in self._processes.values()]

    def _serve(self, wait: float) -> None:
        super()._serve(min(wait, self._display.seconds_left()))
        self._display.refresh()


@dataclass
class _Seen:
    """What a PE had done when the table was drawn last."""

    works: int
    ticks: int
    busy: float = 0.0
    rate: float = 0.0


class Display:
    """The table.

    Args:
        segment: The PEs' segment.
        stream: The terminal.

    Attributes:
        pids: The PEs' processes; empty as long as they are not known.
    """

    def __init__(self, segment: Segment, stream: TextIO) -> None:
        self.pids: list[int] = []
        self._segment = segment
        self._stream = stream
        self._begun = self._drawn_at = time.monotonic()
        self._height = 0  # of what stands in the terminal
        self._open_line = False  # something was written that has no end yet
        self._seen: dict[int, _Seen] = {}
        self._closed = False

    def seconds_left(self) -> float:
        """Return the time until it should be drawn again."""
        return max(0.0, self._drawn_at + _EVERY_S - time.monotonic())

    def refresh(self) -> None:
        """Draw it again if it is time."""
        if self._closed or self._open_line or self.seconds_left() > 0:
            return
        text = self.text(shutil.get_terminal_size())
        self._drawn_at = time.monotonic()
        self._write(self._up() + text)
        self._height = text.count("\n")

    def erase(self) -> None:
        """Take it away, because something else is to be written."""
        if self._height:
            self._write(self._up())
            self._height = 0

    def note_written(self, text: str) -> None:
        """Note what was written to the terminal: the table begins behind the end of a line only."""
        if text:
            self._open_line = not text.endswith("\n")

    def close(self) -> None:
        """Take it away for good."""
        self.erase()
        self._closed = True

    def _up(self) -> str:
        return f"\r\x1b[{self._height}A\x1b[J" if self._height else ""

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a terminal that is gone
            self._stream.write(text)
            self._stream.flush()

    def text(self, terminal: os.terminal_size) -> str:
        """Return the table as text for a terminal of this size."""
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        n_pes = self._segment.layout.n_pes
        rows = [self._row(pe) for pe in range(n_pes)]
        room = max(1, min(_MOST_ROWS, terminal.lines - 6))
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
        for head in ("PE", "CPU", "waits ended", "stores", "stores/s"):
            table.add_column(head, justify="right", no_wrap=True)
        table.add_column("state", no_wrap=True, overflow="ellipsis")
        for figures, (state, style, what) in rows[:room]:
            table.add_row(*figures, Text(f"{state}{what}", style))
        counts: dict[str, int] = {}
        for _, (state, *_) in rows:
            counts[state] = counts.get(state, 0) + 1
        said = ", ".join(f"{n} {state}" for state, n in counts.items())
        left = f" (the first {room})" if n_pes > room else ""
        out = io.StringIO()
        console = Console(file=out, force_terminal=True, width=max(40, terminal.columns - 1))
        console.print(Text(f"{time.monotonic() - self._begun:.0f} s, {n_pes} PEs: {said}{left}"))
        console.print(table)
        return out.getvalue()

    def _row(self, pe: int) -> tuple[tuple[str, ...], tuple[str, str, str]]:
        """Return the figures of a PE, and its state with a style and what more there is to say."""
        state = read_state(self._segment, pe)
        ended, works = state.works
        ticks = cpu_ticks(self.pids[pe]) if pe < len(self.pids) else 0
        seen = self._seen.setdefault(pe, _Seen(works, ticks))
        since = max(_EVERY_S, time.monotonic() - self._drawn_at)
        seen.busy = (ticks - seen.ticks) / os.sysconf("SC_CLK_TCK") / since
        seen.rate = (works - seen.works) / since
        seen.works, seen.ticks = works, ticks
        figures = (
            f"{100 * max(0.0, seen.busy):.0f} %",
            f"{ended:,}",
            f"{works:,}",
            f"{seen.rate:,.0f}",
        )
        return (str(pe), *figures), self._state(pe, state.state, state.waiting)

    def _state(self, pe: int, state: int, waiting: bool) -> tuple[str, str, str]:
        if state in _STATES:
            return (*_STATES[state], "")
        if waiting:
            what = describe(self._segment, pe).partition(" waits")[2]
            return "waiting", "yellow", what
        if is_compiling(self._segment, pe):
            return "compiling", "magenta", " a kernel"
        if is_reading_input(self._segment, pe):
            return "reading", "cyan", " standard input"
        return "running", "", ""


class Above:
    """A stream whose text stands above the table, where both are in the terminal."""

    def __init__(self, stream: TextIO, display: Display) -> None:
        self._stream = stream
        self._display = display
        self._shares = stream.isatty()

    def write(self, text: str) -> int:
        """Write, behind what was written before."""
        if not self._shares:
            return self._stream.write(text)
        self._display.erase()
        written = self._stream.write(text)
        self._stream.flush()
        self._display.note_written(text)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
