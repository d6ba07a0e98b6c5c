"""The tools of ``emu trace``; only ``argparse`` is imported, so that ``emu --help`` answers at once."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from emu.commands.trace.convert_arguments import add_convert
from emu.commands.trace.view_arguments import add_html, add_stats

TOOLS: tuple[Callable[[argparse._SubParsersAction[argparse.ArgumentParser]], None], ...] = (
    add_convert,
    add_stats,
    add_html,
)
"""What adds the parser of each tool."""


def add_trace(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command.

    Args:
        commands: The commands of the program.
    """
    trace = commands.add_parser(
        "trace",
        help="convert a trace of a run, or say what is in it",
        description="Reads a trace that emu run --trace FILE.emutrace has written. Docs: tracing.",
    )
    tools = trace.add_subparsers(required=True, metavar="TOOL")
    for add in TOOLS:
        add(tools)
