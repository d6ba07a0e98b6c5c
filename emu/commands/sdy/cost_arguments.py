"""Arguments of ``emu sdy cost``; only ``argparse`` is imported, so that ``emu --help`` answers at once."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def add_cost(
    tools: argparse._SubParsersAction[argparse.ArgumentParser],
    command: Callable[[argparse.Namespace], int],
    count: Callable[[str], int],
) -> None:
    """Add the parser of ``emu sdy cost``.

    Args:
        tools: The parsers of ``emu sdy``.
        command: What runs it.
        count: Reads a whole number of at least 1.
    """
    cost = tools.add_parser(
        "cost",
        help="predict what a sharded program costs: collectives with their causes, FLOPs, memory",
        description="Partitions a module, and predicts what its program takes on each device; "
        "nothing is run. Docs: shardy-cost.",
    )
    cost.add_argument(
        "file", nargs="?", default=None, metavar="FILE", help="MLIR; - is standard input"
    )
    cost.add_argument(
        "--mesh", metavar="x=4,y=8", help="other sizes of the mesh's axes (default: the module's)"
    )
    cost.add_argument(
        "--sharding",
        action="append",
        default=[],
        metavar="%NAME=SHARDING",
        help="another sharding of an argument of main (repeatable)",
    )
    cost.add_argument(
        "--link",
        action="append",
        default=[],
        metavar="[AXIS=]450GB/s,2us",
        help="bandwidth and latency of a device's link, of all axes or of one (default: 450GB/s,2us)",
    )
    cost.add_argument(
        "--flops",
        metavar="67T",
        help="FLOP/s of a device (default: unknown, only communication is timed)",
    )
    cost.add_argument(
        "--device",
        metavar="NAME[:DTYPE]",
        help="link and FLOP/s of a device of emu predict, h100, h200, mi300x, a2, a3 or FILE.toml, for products of bf16 or DTYPE",
    )
    several = cost.add_mutually_exclusive_group()
    several.add_argument(
        "--compare",
        nargs="+",
        default=[],
        metavar="FILE",
        help="compare the costs of these modules",
    )
    several.add_argument(
        "--what-if",
        action="append",
        default=[],
        metavar="mesh|x=4,y=2|%NAME|%NAME=SHARDING",
        help="compare meshes, or shardings of an argument: all of them, or those named (repeatable)",
    )
    cost.add_argument("--json", action="store_true", help="write JSON")
    cost.add_argument(
        "--most", type=count, default=None, metavar="N", help="show N collectives (default: all)"
    )
    cost.set_defaults(command=command)
