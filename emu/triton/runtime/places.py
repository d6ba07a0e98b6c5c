"""Places in kernels, as reports of checks show them."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from typing import Any

from emu.tile.ir import Location


def chain_of(location: Location | None) -> list[list[Any]]:
    """Return file, line, column and function of a location and of those that it was called from, the kernel's first."""
    chain: list[list[Any]] = []
    while location is not None:
        chain.insert(0, [location.file, location.line, location.column, location.function])
        location = location.caller
    return chain


def location_of(chain: Sequence[Sequence[Any]]) -> Location | None:
    """Return the location of :func:`chain_of`."""
    place: Location | None = None
    for file, line, column, function in chain:
        place = Location(file, line, column, function, place)
    return place


def lane_text(shape: tuple[int, ...], lane: int, indices: tuple[int, ...]) -> str:
    """Return which lane of a tile it is."""
    if not shape:
        return "a scalar"
    at = f"{lane}" if len(indices) == 1 else f"{lane} = {indices}"
    return f"lane {at} of shape {shape}"


def places(chain: Sequence[Sequence[Any]]) -> list[str]:
    """Return file, line and caret of each call that leads to a place."""
    lines = []
    for file, line, column, function in chain:
        lines.append(
            f"{file}:{line}:{column}: in {function}:" if function else f"{file}:{line}:{column}:"
        )
        text = linecache.getline(file, line).rstrip("\n")
        if text:
            blank = "".join("\t" if c == "\t" else " " for c in text[: column - 1])
            lines += [text, f"{blank}^"]
    return lines
