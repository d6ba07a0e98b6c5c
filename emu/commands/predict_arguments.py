"""Arguments of ``emu predict`` and ``emu calibrate``; only ``argparse`` is imported, so that ``emu --help`` answers at once."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

Parsers = argparse._SubParsersAction
Command = Callable[[argparse.Namespace], int]


def add_predict(
    commands: Parsers[argparse.ArgumentParser], command: Command, count: Callable[[str], int]
) -> None:
    """Add the parser of ``emu predict``.

    Args:
        commands: The parsers of ``emu``.
        command: What runs it.
        count: Reads a whole number of at least 1.
    """
    predict = commands.add_parser(
        "predict",
        help="predict what a recorded run takes on a device: h100, h200, mi300x, a2, a3",
        description="Replays a trace of emu run --trace with the times that a device would take, and says what bounds each "
        "kernel. Docs: prediction.",
    )
    predict.add_argument(
        "trace", nargs="?", metavar="TRACE", help="a file of emu run --trace FILE.emutrace"
    )
    predict.add_argument(
        "--device",
        default="h100",
        metavar="NAME|FILE.toml",
        help="h100, h200, mi300x, a2, a3, or a file of numbers (default: h100)",
    )
    predict.add_argument("--link", metavar="2x|450GB/s,2us", help="another link between devices")
    predict.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="another number of the device: hbm=2x, sms=144 (repeatable)",
    )
    _add_how(predict)
    _add_output(predict, count)
    _add_turns(predict, count)
    predict.set_defaults(command=command)


def _add_how(predict: argparse.ArgumentParser) -> None:
    """Add how a trace is replayed."""
    predict.add_argument(
        "--host",
        type=float,
        default=0.0,
        metavar="F",
        help="factor of what the host did between events (default: 0, a device's host runs ahead)",
    )
    predict.add_argument(
        "--uncounted",
        type=float,
        metavar="F",
        help="factor of the recorded time of what has no counts (default: that of counted kernels)",
    )
    predict.add_argument(
        "--programs",
        action="append",
        default=[],
        metavar="KERNEL=N",
        help="divide a kernel's work among N programs (repeatable)",
    )
    predict.add_argument(
        "--rank", metavar="KERNEL", help="order the configurations of a kernel, the fastest first"
    )


def _add_output(predict: argparse.ArgumentParser, count: Callable[[str], int]) -> None:
    """Add what is written."""
    predict.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="OUT.emutrace",
        help="write the predicted timeline as a trace",
    )
    predict.add_argument(
        "--beside", action="store_true", help="with -o: the recorded timeline stands beside it"
    )
    predict.add_argument("--json", action="store_true", help="write JSON")
    predict.add_argument(
        "--most", type=count, default=30, metavar="N", help="rows to show (default: %(default)s)"
    )
    predict.add_argument(
        "--numbers",
        action="store_true",
        help="show the numbers of the device and where they are from",
    )


def _add_turns(predict: argparse.ArgumentParser, count: Callable[[str], int]) -> None:
    """Add the options of MC2's operators."""
    predict.add_argument(
        "--mc2",
        metavar="OPERATOR",
        help="without a trace: the best number of turns of a fused operator",
    )
    predict.add_argument(
        "--shape",
        metavar="M,K,N",
        help="with --mc2: rows of a device, columns, columns of the product",
    )
    predict.add_argument(
        "--pes",
        type=count,
        default=8,
        metavar="N",
        help="with --mc2: number of devices (default: %(default)s)",
    )
    predict.add_argument(
        "--dtype",
        default="f16",
        metavar="DTYPE",
        help="with --mc2: f16, bf16, i8, … (default: %(default)s)",
    )


def add_calibrate(commands: Parsers[argparse.ArgumentParser], command: Command) -> None:
    """Add the parser of ``emu calibrate``."""
    calibrate = commands.add_parser(
        "calibrate",
        help="fit the numbers of a device to micro-kernels that are measured on it",
        description="Measures 62 micro-kernels on the GPU of this machine by torch and Triton, fits eight numbers of a device to their "
        "times, and writes a file for emu predict --device. Docs: prediction.",
    )
    calibrate.add_argument(
        "--device",
        required=True,
        metavar="NAME|FILE.toml",
        help="whose peak rates are kept: h100, h200, mi300x, a2, a3, or a file",
    )
    calibrate.add_argument(
        "-o", "--output", type=Path, metavar="FILE.toml", help="the file to write"
    )
    calibrate.add_argument(
        "--timings",
        type=Path,
        metavar="FILE.json",
        help="times that were measured before, instead of measuring",
    )
    calibrate.add_argument(
        "--save-timings", type=Path, metavar="FILE.json", help="write the measured times there"
    )
    calibrate.set_defaults(command=command)
