"""Start-up: from the start of an interpreter to the end of the first world, and a second world."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rows.measure import Bench, Goal, Outcome, Settings, typical
from rows.team import HERE, PEERS, TeamError, environment

N_PES = 8


_MANY = {32: 0.25, 64: 0.5, 128: 1.0}
"""Seconds that the second launch of many PEs may take."""


def _probe(
    script: Path, folder: str, timeout: float = 120.0, n_pes: int = N_PES
) -> tuple[float, float]:
    """Run a probe in a fresh interpreter; return seconds to its first mark and between its marks."""
    marks, begin = _marks(script, folder, timeout, n_pes)
    return marks["first"] - begin, marks["second"] - marks["first"]


def _marks(script: Path, folder: str, timeout: float, n_pes: int) -> tuple[dict[str, float], float]:
    """Run a probe in a fresh interpreter; return what it says, and when it began."""
    begin = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, str(script), str(n_pes)],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env={**environment(), "NUMBA_CACHE_DIR": folder},
        )
    except subprocess.TimeoutExpired as error:
        raise TeamError(f"{script.name} did not end within {timeout:g} s") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise TeamError(f"{script.name} ended with {done.returncode}: {last}")
    marks: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return marks, begin


@functools.cache
def _measure(quick: bool) -> tuple[list[tuple[float, float]], list[tuple[float, float]], str]:
    """Return (first, second) of each round, ours and theirs, and why there are none of theirs."""
    ours, theirs, note = [], [], ""
    with tempfile.TemporaryDirectory(prefix="emu-bench-") as folder:
        _probe(HERE / "launch_probe.py", folder)  # fills the disk caches
        try:
            if not quick:
                _probe(PEERS / "spawn_probe.py", folder)
        except TeamError as error:
            note = str(error)
        for _ in range(1 if quick else 5):
            ours.append(_probe(HERE / "launch_probe.py", folder))
            try:
                if not note:
                    theirs.append(_probe(PEERS / "spawn_probe.py", folder))
            except TeamError as error:
                note = str(error)
    return ours, theirs, note


def _row(which: int, settings: Settings) -> Outcome:
    ours, theirs, note = _measure(settings.quick)
    return Outcome(
        typical([marks[which] for marks in ours]),
        typical([marks[which] for marks in theirs]) if theirs else None,
        note,
    )


@functools.cache
def _many(n_pes: int, quick: bool) -> tuple[list[float], float]:
    """Return the seconds of second launches, and the private memory of a PE in MB."""
    found, memory = [], 0.0
    with tempfile.TemporaryDirectory(prefix="emu-bench-") as folder:
        for _ in range(2 if quick else 4):
            marks, _ = _marks(HERE / "launch_probe.py", folder, 120.0, n_pes)
            found.append(marks["second"] - marks["first"])
            memory = marks["private"] / 1e6
    return found[1:], memory  # the first fills the disk caches


def _second_of_many(n_pes: int, settings: Settings) -> Outcome:
    return Outcome(typical(_many(n_pes, settings.quick)[0]))


def _memory(n_pes: int, settings: Settings) -> Outcome:
    return Outcome(_many(n_pes, settings.quick)[1], note="private pages that were written")


ROWS = [
    Bench(
        f"launch/first of {N_PES} PEs, fresh interpreter",
        "multiprocessing",
        "s",
        Goal(at_most=1.5),
        functools.partial(_row, 0),
    ),
    Bench(
        f"launch/second of {N_PES} PEs",
        "multiprocessing",
        "s",
        Goal(at_most=0.1),
        functools.partial(_row, 1),
    ),
    *(
        Bench(
            f"launch/second of {n_pes} PEs",
            "-",
            "s",
            Goal(at_most=limit),
            functools.partial(_second_of_many, n_pes),
        )
        for n_pes, limit in _MANY.items()
    ),
    Bench(
        "launch/memory of a PE of 32", "-", "MB", Goal(at_most=25.0), functools.partial(_memory, 32)
    ),
]
