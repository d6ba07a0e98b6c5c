"""How long a fresh process waits for its first kernel, and for each further one, with a warm cache."""

from __future__ import annotations

import functools
import json
import subprocess
import sys

from rows.measure import Bench, Goal, Outcome, Settings, typical
from rows.team import HERE, TeamError, environment

FIRST = ("set_tile", "matmul", "quantize")


def _probe(first: str) -> dict[str, float]:
    """Run the probe; return seconds to the first kernel, and of the slowest load after it."""
    done = subprocess.run(
        [sys.executable, str(HERE / "kernel_probe.py"), first],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment(),
    )
    if done.returncode:
        raise TeamError((done.stderr.strip().splitlines() or ["no message"])[-1])
    marks = json.loads(done.stdout.splitlines()[-1])
    return {"first": marks["first"], "further": max(marks["loads"].values())}


@functools.cache
def _measure(first: str, quick: bool) -> list[dict[str, float]]:
    _probe(FIRST[0])  # fills the cache
    return [_probe(first) for _ in range(1 if quick else 7)]


def _row(settings: Settings, first: str, which: str) -> Outcome:
    return Outcome(typical([marks[which] for marks in _measure(first, settings.quick)]))


ROWS = [
    Bench(
        f"kernels/import and first call of {first}",
        "-",
        "s",
        Goal(at_most=0.7),
        functools.partial(_row, first=first, which="first"),
    )
    for first in FIRST
] + [
    Bench(
        "kernels/slowest further load",
        "-",
        "ms",
        Goal(at_most=20.0),
        functools.partial(_row, first=FIRST[0], which="further"),
    )
]
