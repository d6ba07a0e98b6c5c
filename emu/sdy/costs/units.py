"""Numbers with units, and columns, as text."""

from __future__ import annotations

import math
from collections.abc import Sequence

_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_COUNTS = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def bytes_text(count: int) -> str:
    """Return a number of bytes with three digits and a unit: ``1.5 MiB``."""
    return _scaled(count, 1024, _BYTES)


def count_text(count: float) -> str:
    """Return a number with three digits and a prefix: ``1.5 M``."""
    return _scaled(count, 1000, _COUNTS).strip()


def seconds_text(seconds: float) -> str:
    """Return a time with three digits and a unit: ``12.3 us``."""
    if not seconds:
        return "0 s"
    for unit, name in _TIMES:
        if seconds >= unit * 0.9995:
            return f"{_digits(seconds / unit)} {name}"
    return f"{seconds / 1e-9:.3g} ns"


def _scaled(count: float, base: int, units: Sequence[str]) -> str:
    power = 0
    value = count
    while value >= base * 0.9995 and power < len(units) - 1:
        value /= base
        power += 1
    return (
        f"{count:d} {units[0]}"
        if power == 0 and isinstance(count, int)
        else (f"{_digits(value)} {units[power]}")
    )


def _digits(value: float) -> str:
    if value >= 1e6:
        return f"{value:.3g}"
    places = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def aligned(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """Return lines of columns; those named in ``right`` end at one place."""
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def mesh_text(mesh: Sequence[tuple[str, int]]) -> str:
    """Return the axes of a mesh: ``x=4, y=8``."""
    return ", ".join(f"{name}={size}" for name, size in mesh) or "no mesh"
