"""Types of options of the command line: each takes a word, and an error says what it must be."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emu.comm.link_model import Link


def _shown(text: str) -> str:
    """Return a word as errors show it; what shows it is loaded for an error only, as pytest loads this module in each run."""
    from emu.kernels.core.messages import shown

    return shown(text)


def count(text: str) -> int:
    """Return a whole number of at least 1."""
    if (number := _whole(text)) < 1:
        raise argparse.ArgumentTypeError(
            f"must be a whole number of at least 1, but got {_shown(text)}"
        )
    return number


def _whole(text: str) -> int:
    """Return a whole number in decimal digits; -1: it is none, or has more digits than any that makes sense."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else -1


_MOST_DIGITS = 40


def pes(text: str) -> int:
    """Return a number of PEs."""
    from emu.comm.process.launch_arguments import MAX_PES

    if not 1 <= (number := _whole(text)) <= MAX_PES:
        raise argparse.ArgumentTypeError(
            f"must be a whole number in [1, {MAX_PES}], but got {_shown(text)}"
        )
    return number


def seed(text: str) -> int:
    """Return a whole number of at least 0."""
    if (number := _whole(text)) < 0:
        raise argparse.ArgumentTypeError(
            f"must be a whole number of at least 0, but got {_shown(text)}"
        )
    return number


ALL_ORDERS = "all"


def orders(text: str) -> int | str:
    """Return a number of orders, or ``"all"``."""
    if text == ALL_ORDERS:
        return text
    if not 1 <= (number := _whole(text)) <= 1 << 20:
        raise argparse.ArgumentTypeError(
            f"must be a whole number in [1, {1 << 20}] or all, but got {_shown(text)}"
        )
    return number


def check(text: str) -> str:
    """Return what is checked, as ``EMU_CHECK`` says it."""
    from emu.comm.check_options import Checks
    from emu.comm.errors import ArgumentError

    try:
        return Checks.parse(text).names
    except ArgumentError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def trace(text: str) -> str:
    """Return the name of a file of a trace."""
    from emu.comm.process.launch_options import TRACES

    if not text.endswith(TRACES):
        raise argparse.ArgumentTypeError(f"must end in {', '.join(TRACES)}, but got {_shown(text)}")
    return text


def fault(text: str) -> str:
    """Return what goes wrong on purpose, as ``EMU_FAULT`` says it."""
    from emu.comm.errors import ArgumentError
    from emu.comm.fault_options import Faults

    try:
        Faults.parse(text)
    except ArgumentError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def autotune(text: str) -> str:
    """Return which configurations autotuned kernels take, as ``EMU_AUTOTUNE`` says it."""
    if text not in ("full", "cached", "first"):
        raise argparse.ArgumentTypeError(f"must be full, cached or first, but got {_shown(text)}")
    return text


def device_model(text: str) -> str:
    """Return the model of a GPU, as ``EMU_DEVICE_MODEL`` says it."""
    from emu.kernels.core import device_models

    try:
        device_models.find(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text.lower()


def stdin(text: str) -> int | str:
    """Return which PE gets standard input: its number, ``"all"`` or ``"none"``."""
    if text in ("all", "none"):
        return text
    if (number := _whole(text)) < 0:
        raise argparse.ArgumentTypeError(
            f"must be the number of a PE, 'all' or 'none', but got {_shown(text)}"
        )
    return number


def offset(text: str) -> int:
    """Return a number of bytes, in any of Python's notations."""
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"must be a number of bytes, but got {_shown(text)}")
    return value


def seconds(text: str) -> float:
    """Return a positive number of seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(
            f"must be a positive number of seconds, but got {_shown(text)}"
        )
    return value


def link(text: str) -> Link:
    """Return a link, as ``25GB/s,2us``."""
    from emu.comm.errors import ArgumentError
    from emu.comm.link_model import Link

    try:
        return Link.parse(text)
    except ArgumentError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
