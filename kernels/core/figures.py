"""Numbers with units, as text for people: three digits, and a unit or prefix that fits."""

from __future__ import annotations

import math
from collections.abc import Sequence

_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_COUNTS = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_ROUNDS_UP = 0.9995
"""From this part of a unit on, three digits are those of the unit."""


def bytes_text(count: float) -> str:
    """Return a number of bytes: ``1.5 MiB``."""
    return _scaled(count, 1024, _BYTES)


def count_text(count: float) -> str:
    """Return a number with a prefix: ``1.5 M``."""
    return _scaled(count, 1000, _COUNTS).strip()


def seconds_text(seconds: float) -> str:
    """Return a time: ``12.3 us``."""
    if not seconds or not math.isfinite(seconds):
        return f"{seconds:g} s"
    for unit, name in _TIMES:
        if abs(seconds) >= unit * _ROUNDS_UP:
            return f"{digits(seconds / unit)} {name}"
    return f"{digits(seconds / 1e-9)} ns"


def _scaled(count: float, base: int, units: Sequence[str]) -> str:
    power = 0
    value = count
    while abs(value) >= base * _ROUNDS_UP and power < len(units) - 1:
        value /= base
        power += 1
    if power == 0 and isinstance(count, int):
        return f"{count:d} {units[0]}"
    return f"{digits(value)} {units[power]}"


def digits(value: float) -> str:
    """Return a number with three digits, or all before the point, without zeros at the end."""
    size = abs(value)
    if size >= 1e6:
        return f"{value:.3g}"
    places = max(0, 2 - math.floor(math.log10(size))) if size else 0
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


__all__ = ["bytes_text", "count_text", "digits", "seconds_text"]
