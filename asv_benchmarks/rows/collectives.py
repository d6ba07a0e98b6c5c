"""Collectives of 64 MiB."""

from __future__ import annotations

import functools

from rows.measure import Bench, Goal, Outcome, Settings, against


def _collective(task: str, kind: str, n: int, settings: Settings) -> Outcome:
    outcome = against(settings, kind, n, task, task, nbytes=settings.collective_bytes)
    if settings.quick and not outcome.note:
        outcome.note = "quick: 1 MiB"
    return outcome


ROWS = [
    Bench(
        f"{task}/64 MiB, {n} PEs",
        kind,
        "ms",
        Goal(1.5),
        functools.partial(_collective, task, kind, n),
    )
    for task in ("all_gather", "all_reduce")
    for n in (2, 8)
    for kind in ("gloo", "mpi")
]
