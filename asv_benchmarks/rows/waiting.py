"""Barriers and signals."""

from __future__ import annotations

import functools

from rows.measure import Bench, Goal, Outcome, Settings, against
from rows.team import cores


def _barrier(kind: str, n: int, settings: Settings) -> Outcome:
    return against(settings, kind, n, "barrier", "barrier")


def _signal(task: str, pinned: int, settings: Settings) -> Outcome:
    outcome = against(settings, "multiprocessing", 2, task, "ping_pong", pinned=pinned)
    if outcome.ours is not None:  # a call is a signal each way
        outcome.ours /= 2
    if outcome.theirs is not None:
        outcome.theirs /= 2
    if cores() < 2 and not outcome.note:
        outcome.note = "one core: more PEs than cores, so waits sleep"
    return outcome


ROWS = [
    *(
        Bench(f"barrier/{n} PEs", kind, "us", Goal(ratio), functools.partial(_barrier, kind, n))
        for n in (8, 64)
        for kind, ratio in (("multiprocessing", 20.0), ("mpi", 5.0))
    ),
    *(
        Bench(
            f"signal/one way {where}{', a core each' if pinned else ''}",
            "multiprocessing",
            "us",
            Goal(100.0),
            functools.partial(_signal, task, pinned),
        )
        for task, where in (("ping_pong", "from Python"), ("ping_pong_kernel", "inside a kernel"))
        for pinned in (0, 1)
    ),
]
