"""Pictures of a trace, by matplotlib: its timeline, the bytes that moved, and the time by kind.

Internal: names may change in any release.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from emu.trace.errors import TraceError
from emu.trace.events import Kind, Thread
from emu.trace.page.boxes import boxes_of
from emu.trace.statistics.columns import Ints
from emu.trace.statistics.summary import Statistics
from emu.trace.statistics.words import KINDS, duration, size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BOXES = 20_000
_ENDS = (".png", ".svg", ".pdf")
_COLORS = {
    **dict.fromkeys((Kind.LAUNCH,), "#2f72d9"),
    **dict.fromkeys((Kind.OP,), "#20a0b4"),
    **dict.fromkeys((Kind.PUT, Kind.GET, Kind.SIGNAL, Kind.ATOMIC), "#e78a13"),
    **dict.fromkeys((Kind.COLLECTIVE, Kind.TURN), "#a859c9"),
    **dict.fromkeys((Kind.WAIT, Kind.COMPLETE, Kind.BARRIER, Kind.LOCK), "#c6ccd7"),
    **dict.fromkeys((Kind.COMPILE, Kind.TUNE, Kind.ALLOCATE), "#8c7853"),
    Kind.RANGE: "#e6ebf3",
    Kind.INSTANT: "#d6173f",
}
_PATH = "#d6173f"
_GROUPS = {
    Kind.LAUNCH: "kernel",
    Kind.OP: "operation",
    Kind.PUT: "put, get, signal",
    Kind.COLLECTIVE: "collective, server",
    Kind.WAIT: "waiting",
    Kind.COMPILE: "compiling, memory",
    Kind.RANGE: "named range",
}
_LANE, _GAP = 1.0, 0.7


class PlotError(TraceError):
    """A picture cannot be drawn; the message says why."""


def check(path: Path) -> None:
    """Check that a picture could be drawn.

    Raises:
        PlotError: matplotlib is missing, or the name's end is of no picture.
    """
    if path.suffix not in _ENDS:
        raise PlotError(f"--plot must end in one of {', '.join(_ENDS)}, but got {str(path)!r}")
    try:
        import matplotlib  # noqa: F401 - an extra
    except ImportError:
        raise PlotError(
            "--plot needs matplotlib, which is not installed: pip install 'tile-emu[viz]'"
        ) from None


def draw(statistics: Statistics, path: Path, title: str) -> None:
    """Draw the timeline with the critical path, the bytes between PEs and the time by kind into one file.

    Args:
        statistics: The figures.
        path: The picture; its name's end says which kind it is of.
        title: What stands above it.

    Raises:
        PlotError: It cannot be drawn or written.
    """
    check(path)
    from matplotlib.figure import Figure  # without pyplot: no window, no state

    n_lines = statistics.trace.n_pes
    high = min(16.0, 3.4 + 0.45 * n_lines)
    figure = Figure(figsize=(11, high + 3.2), layout="constrained")
    figure.suptitle(title, fontsize=11)
    parts: Any = figure.subfigures(2, 1, height_ratios=[high, 3.2])
    top, below = parts
    _timeline(top.subplots(), statistics)
    left, right = below.subplots(1, 2)
    _matrix(left, statistics)
    _kinds(right, statistics)
    try:
        # No date: the same trace gives the same file.
        metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix)
        figure.savefig(path, dpi=110, metadata=metadata)
    except OSError as error:
        raise PlotError(f"the picture {path} cannot be written: {error.strerror}") from None


def _scale(elapsed: int) -> tuple[float, str]:
    for scale, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if elapsed >= scale:
            return scale, unit
    return 1.0, "ns"


def _timeline(axes: Axes, statistics: Statistics) -> None:
    boxes = boxes_of(statistics, _MOST_BOXES)
    scale, unit = _scale(statistics.elapsed)
    kinds = statistics.columns.kind[boxes.event]
    y, names, at = {}, [], 0.0
    for lane, (pe, thread, depth) in enumerate(boxes.lanes):
        if lane and boxes.lanes[lane - 1][0] != pe:
            at += _GAP
        if depth == 0:
            said = "" if thread == Thread.PROGRAM else f" {Thread(thread).name.lower()}"
            names.append((at + _LANE / 2, f"PE {pe}{said}"))
        y[pe, thread, depth] = at
        here = slice(int(boxes.first[lane]), int(boxes.first[lane + 1]))
        start = boxes.start[here] / scale
        length = np.maximum((boxes.end[here] - boxes.start[here]) / scale, 0)
        axes.broken_barh(
            list(zip(start.tolist(), length.tolist(), strict=True)),
            (at, 0.9 * _LANE),
            facecolors=[_COLORS[Kind(kind)] for kind in kinds[here].tolist()],
            linewidth=0,
            rasterized=len(start) > 2000,
        )
        at += _LANE
    _mark_path(axes, statistics, y, scale)
    axes.set(xlim=(0, max(statistics.elapsed, 1) / scale), ylim=(max(at, 1), -0.3), xlabel=unit)
    axes.set_yticks([each for each, _ in names], [name for _, name in names], fontsize=8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    _legend(axes, kinds)


def _mark_path(
    axes: Axes, statistics: Statistics, y: dict[tuple[int, int, int], float], scale: float
) -> None:
    """Draw the critical path: a line under its events, and to the PE where it goes on."""
    path, columns, depth = statistics.path, statistics.columns, statistics.nesting.depth
    xs: list[float] = []
    ys: list[float] = []
    for start, end, event, pe in zip(path.start, path.end, path.event, path.pe, strict=True):
        lane = (int(pe), 0, 0)
        if event >= 0:
            lane = (int(pe), int(columns.thread[event]), int(depth[event]))
        if lane not in y or len(xs) >= 2 * _MOST_BOXES:
            continue
        xs += [(start - columns.origin) / scale, (end - columns.origin) / scale]
        ys += [y[lane] + 0.9 * _LANE] * 2
    axes.plot(xs, ys, color=_PATH, linewidth=1.1, solid_joinstyle="round", zorder=3)


def _legend(axes: Axes, kinds: Ints) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    there = {_COLORS[Kind(kind)] for kind in np.unique(kinds).tolist()}
    handles: list[Patch | Line2D] = [
        Patch(color=_COLORS[kind], label=name)
        for kind, name in _GROUPS.items()
        if _COLORS[kind] in there
    ]
    handles.append(Line2D([], [], color=_PATH, linewidth=1.1, label="critical path"))
    axes.legend(
        handles=handles,
        ncols=len(handles),
        fontsize=8,
        frameon=False,
        loc="lower left",
        bbox_to_anchor=(0, 1),
    )


def _matrix(axes: Axes, statistics: Statistics) -> None:
    moved, n_pes = statistics.moved.bytes, statistics.trace.n_pes
    axes.imshow(np.maximum(moved, 0), cmap="Blues", vmin=0, vmax=max(1, int(moved.max())))
    axes.set(xlabel="to PE", ylabel="from PE")
    axes.set_title("bytes between PEs", fontsize=9)
    step = -(-n_pes // 16)
    axes.set_xticks(range(0, n_pes, step))
    axes.set_yticks(range(0, n_pes, step))
    if n_pes <= 8:
        for source, target in zip(*statistics.moved.calls.nonzero(), strict=True):
            n = int(moved[source, target])
            dark = n > 0.6 * int(moved.max())
            axes.text(
                *(int(target), int(source), size(n)),
                ha="center", va="center", fontsize=7, color="white" if dark else "black",
            )  # fmt: skip


def _kinds(axes: Axes, statistics: Statistics) -> None:
    rows = [row for row in statistics.by_kind() if row.self_time][::-1]
    scale, _ = _scale(max((row.self_time for row in rows), default=1))
    bars = axes.barh(
        [KINDS[Kind[row.name]] for row in rows],
        [row.self_time / scale for row in rows],
        color=[_COLORS.get(Kind[row.name], "#59616f") for row in rows],
    )
    axes.bar_label(bars, [f" {duration(row.self_time)}" for row in rows], fontsize=8)
    axes.set_title("own time of all PEs by kind", fontsize=9)
    axes.set_xticks([])
    axes.margins(x=0.2)
    axes.tick_params(axis="y", labelsize=8, length=0)
    axes.spines[["top", "right", "bottom", "left"]].set_visible(False)
