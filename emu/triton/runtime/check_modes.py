"""Values of the option ``check``: which checks a kernel has, and whether it tells the check of streams what it uses."""

from __future__ import annotations

from typing import Any

from emu.comm.check_options import Checks
from emu.comm.errors import ArgumentError

BOUNDS, BOUNDS_ALL, UNINIT, STREAMS = "bounds", "bounds:all", "uninit", "streams"
RACE, RACE_ALL = "race", "race:all"
NAMES = (BOUNDS, BOUNDS_ALL, UNINIT, RACE, RACE_ALL, STREAMS)
"""Checks by name."""

MODES = tuple(
    ",".join(name for name in (bounds, uninit, race, streams) if name)
    for streams in ("", STREAMS)
    for race in ("", RACE, RACE_ALL)
    for uninit in ("", UNINIT)
    for bounds in ("", BOUNDS, BOUNDS_ALL)
    if bounds or uninit or race or streams
)
"""Combinations that there are, as :func:`as_mode` returns them."""


_LEAD = "check (of the launch, the kernel, knobs.runtime, --check or EMU_CHECK)"


def as_mode(value: Any) -> str | None:
    """Return the combination that a value of ``check`` means: one of ``MODES``; None for no check of kernels.

    Args:
        value: What :meth:`emu.Checks.parse` takes; None, False or ``""`` for no check.

    Raises:
        ValueError: There is no such check, or two exclude each other.
    """
    if value is None or value is False or (isinstance(value, str) and not value):
        return None
    if isinstance(value, str) and (value in MODES or value == COUNT):  # as in nearly every launch
        return value
    try:
        named = Checks.parse(value).of_kernels.split(",")
    except ArgumentError as error:
        raise ValueError(f"{_LEAD}{str(error).removeprefix('check')}") from None
    return ",".join(name for name in NAMES if name in named) or None


def bounds_of(mode: str) -> str | None:
    """Return ``"bounds"`` or ``"bounds:all"`` if that is part of a mode, else None."""
    first = mode.partition(",")[0]
    return first if first in (BOUNDS, BOUNDS_ALL) else None


def has_uninit(mode: str | None) -> bool:
    """Return whether a mode checks for unwritten memory."""
    return mode is not None and UNINIT in mode


def has_streams(mode: str | None) -> bool:
    """Return whether a mode checks the order of streams."""
    return mode is not None and mode.endswith(STREAMS)


def has_race(mode: str | None) -> bool:
    """Return whether a mode checks for races among the programs of a grid."""
    return mode is not None and RACE in mode


def has_benign_races(mode: str) -> bool:
    """Return whether a mode reports races of stores of the same bits, too."""
    return RACE_ALL in mode


COUNT = "count"
"""No check: launches are counted (:mod:`emu.triton.runtime.counted`). It stands alone."""

OBSERVED = "+observed"
"""Behind the mode of a build whose kernel tells of every access; no launch can ask for it."""


def is_observed(mode: str | None) -> bool:
    """Return whether a kernel tells of every access: a check of races that could not be proved without."""
    return mode is not None and mode.endswith(OBSERVED)


def others_of(mode: str) -> str:
    """Return a mode without the check of races; ``""`` if nothing is left."""
    names = mode.removesuffix(OBSERVED).split(",")
    return ",".join(name for name in names if name not in (RACE, RACE_ALL))
