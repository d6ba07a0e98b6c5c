"""Arguments of ``emu trace convert``; only ``argparse`` is imported, so that ``emu --help`` answers at once."""

from __future__ import annotations

import argparse
from pathlib import Path

from emu.commands import option_types


def add_convert(tools: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of ``emu trace convert``."""
    convert = tools.add_parser(
        "convert",
        help="write a trace for another viewer",
        description="Writes a trace for Perfetto (ui.perfetto.dev), or as the JSON that TensorBoard, HTA, Chakra and "
        "chrome://tracing read; the end of OUT says which.",
    )
    convert.add_argument("file", type=Path, metavar="IN.emutrace", help="the trace")
    convert.add_argument("out", type=Path, metavar="OUT.pftrace|OUT.json", help="what is written")
    convert.add_argument(
        "--pe",
        type=option_types.seed,
        metavar="PE",
        help="with a .json: write this PE's events alone, as HTA wants a file a rank (default: all PEs)",
    )
    convert.set_defaults(command=_convert)


def _convert(options: argparse.Namespace) -> int:
    from emu.commands.trace.convert import run_convert

    return run_convert(options.file, options.out, options.pe)
