"""Figures in words for people.

Internal: names may change in any release.
"""

from __future__ import annotations

from emu.kernels.core.figures import bytes_text
from emu.trace.events import Kind

KINDS = {
    Kind.LAUNCH: "kernel",
    Kind.COMPILE: "compilation",
    Kind.TUNE: "autotuning",
    Kind.OP: "operation",
    Kind.PUT: "put",
    Kind.GET: "get",
    Kind.SIGNAL: "signal",
    Kind.ATOMIC: "atomic",
    Kind.WAIT: "wait",
    Kind.COMPLETE: "wait until sent",
    Kind.BARRIER: "barrier",
    Kind.COLLECTIVE: "collective",
    Kind.TURN: "server's turn",
    Kind.LOCK: "wait for a lock",
    Kind.ALLOCATE: "memory",
    Kind.RANGE: "named range",
    Kind.COUNTER: "counter",
    Kind.INSTANT: "report",
}
"""What a kind is called."""


def duration(ns: float) -> str:
    """Return a time with its unit: ``1.234 ms``."""
    for scale, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if abs(ns) >= scale:
            return (
                f"{ns / scale:#.4g}".rstrip(".") + f" {unit}"
                if abs(ns) < 10_000 * scale
                else f"{ns / scale:.0f} {unit}"
            )
    return f"{ns:.0f} ns"


def size(n: float) -> str:
    """Return bytes with their unit: ``1.5 MiB``."""
    return bytes_text(round(n))


def percent(part: float, whole: float) -> str:
    """Return a part of a whole: ``12.3 %``; empty where there is no whole."""
    return f"{100 * part / whole:.1f} %" if whole else ""
