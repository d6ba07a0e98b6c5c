"""Arguments of ``emu trace stats`` and ``html``; only ``argparse`` is imported, so that ``emu --help`` answers at once."""

from __future__ import annotations

import argparse
from pathlib import Path

from emu.commands import option_types

_TOP = 15
_BY = ("kind", "kernel", "line", "pe")


def add_stats(tools: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of ``emu trace stats``."""
    stats = tools.add_parser(
        "stats",
        help="print where the time went: by kind, kernel, line and PE, what moved, and the critical path",
        description="Prints where the time of a run went: what each PE did, by kind of event, by kernel and by line, the bytes "
        "that moved between PEs, and the critical path. Docs: trace-reports.",
    )
    stats.add_argument("file", type=Path, metavar="FILE.emutrace", help="the trace")
    stats.add_argument(
        "--by",
        choices=_BY,
        help="print this table alone, with all its columns (default: all tables)",
    )
    stats.add_argument(
        "--top",
        type=option_types.count,
        default=_TOP,
        metavar="N",
        help="rows of each table (default: %(default)s)",
    )
    stats.add_argument(
        "--json", action="store_true", help="print JSON, with times in ns and all rows, instead"
    )
    stats.add_argument(
        "--plot",
        type=Path,
        metavar="FILE.png|FILE.svg",
        help="draw the timeline, the bytes between PEs and the time by kind, too (needs matplotlib: tile-emu[viz])",
    )
    stats.set_defaults(command=_stats)


def add_html(tools: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of ``emu trace html``."""
    html = tools.add_parser(
        "html",
        help="write a page that shows the timeline, what moved, and the critical path",
        description="Writes one page that needs no network: a timeline to zoom and search, the bytes that moved between PEs, "
        "the critical path, and the tables of emu trace stats. Docs: trace-reports.",
    )
    html.add_argument("file", type=Path, metavar="FILE.emutrace", help="the trace")
    html.add_argument(
        "-o",
        dest="output",
        type=Path,
        metavar="PAGE.html",
        help="where to write it (default: the trace's name with .html)",
    )
    html.set_defaults(command=_html)


def _stats(options: argparse.Namespace) -> int:
    from emu.commands.trace.stats import run_stats

    return run_stats(
        options.file, by=options.by, top=options.top, as_json=options.json, plot=options.plot
    )


def _html(options: argparse.Namespace) -> int:
    from emu.commands.trace.html import run_html

    return run_html(options.file, options.output)
