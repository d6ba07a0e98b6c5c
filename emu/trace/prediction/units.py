"""Numbers with units: read from options and files, and written into tables."""

from __future__ import annotations

import math
import re

from emu.kernels.core.figures import digits, seconds_text

_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf)\s*(\S*)\s*")
_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_TIMES = {"s": 1.0, "ms": 1e3, "us": 1e6, "µs": 1e6, "ns": 1e9}
"""Divisors: 2 / 1e6 is 2e-6 to the last bit."""


def quantity(text: str, unit: str) -> float | None:
    """Return the number that a text says in a unit: ``"4.8TB/s"`` of ``"B/s"`` is 4.8e12; None: it says none.

    Args:
        text: A number, plain or with a prefix and the unit. A prefix alone is enough: ``"989T"``.
        unit: "B/s", "FLOP/s", "op/s", "B", "s", or "" for a plain number.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    number, suffix = float(match[1]), match[2]
    if unit == "s":
        return number / _TIMES[suffix] if suffix in _TIMES else (None if suffix else number)
    prefix = suffix.removesuffix(unit) if unit else suffix
    if not unit and suffix:
        return None
    factor = _DECIMAL.get(prefix, _BINARY.get(prefix) if unit in ("B", "B/s") else None)
    return None if factor is None else number * factor


def scaled_text(value: float, unit: str) -> str:
    """Return a number with a decimal prefix: ``3.35 TB/s``; times as :func:`seconds_text`."""
    if unit == "s":
        return seconds_text(value)
    if not unit or not math.isfinite(value):
        return f"{value:g} {unit}".strip()
    for prefix, factor in reversed(_DECIMAL.items()):
        if abs(value) >= factor * 0.9995:
            return f"{digits(value / factor)} {prefix}{unit}"
    return f"{value:g} {unit}"
