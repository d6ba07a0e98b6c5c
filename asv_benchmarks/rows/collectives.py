"""Collectives of 64 MiB, and small ones: 8 B to 64 KiB, where the call itself takes the time."""

from __future__ import annotations

import functools

from rows.measure import Bench, Goal, Outcome, Settings, against, duel
from rows.team import TeamError, cores

_SMALL = {"8 B": 8, "1 KiB": 1 << 10, "64 KiB": 64 << 10}
_RATIOS = {"mpi": 2.0, "gloo": 10.0}


def _collective(task: str, kind: str, n: int, settings: Settings) -> Outcome:
    outcome = against(settings, kind, n, task, task, nbytes=settings.collective_bytes)
    if settings.quick and not outcome.note:
        outcome.note = "quick: 1 MiB"
    return outcome


def _small(task: str, kind: str, n: int, nbytes: int, settings: Settings) -> Outcome:
    outcome = against(settings, kind, n, f"small_{task}", f"small_{task}", nbytes=nbytes)
    if n > cores() and not outcome.note:
        outcome.note = f"{cores()} cores"
    return outcome


def _alone(n: int, settings: Settings) -> Outcome:
    """Measure ours with a core each: how long a call takes, not who is better."""
    ours = settings.teams("emu", n)
    return duel(
        settings, lambda calls: ours.seconds("small_all_reduce", calls, nbytes=8, pinned=1), None
    )


def _torch(settings: Settings) -> Outcome:
    """Compare ``torch.distributed`` on the World with gloo: one float, waited for."""
    ours = settings.teams("emu", 2)

    def our_clock(calls: int) -> float:
        return ours.seconds("torch_all_reduce", calls, nbytes=4)

    try:
        peer = settings.teams("gloo", 2)
    except TeamError as error:
        return duel(settings, our_clock, None, str(error))
    return duel(
        settings, our_clock, lambda calls: peer.seconds("small_all_reduce", calls, nbytes=4)
    )


ROWS = [
    *(
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
    ),
    *(
        Bench(
            f"small/all_reduce {size}, {n} PEs",
            kind,
            "us",
            Goal(ratio),
            functools.partial(_small, "all_reduce", kind, n, nbytes),
        )
        for n in (2, 4, 8)
        for size, nbytes in _SMALL.items()
        for kind, ratio in _RATIOS.items()
    ),
    *(
        Bench(
            f"small/{task} 1 KiB, {n} PEs",
            "mpi",
            "us",
            Goal(_RATIOS["mpi"]),
            functools.partial(_small, task, "mpi", n, 1 << 10),
        )
        for task in ("all_gather", "reduce_scatter", "broadcast", "all_to_all")
        for n in (2, 8)
    ),
    Bench(
        "small/all_reduce 8 B, 2 PEs, a core each",
        "-",
        "us",
        Goal(at_most=3.0),
        functools.partial(_alone, 2),
    ),
    Bench(
        "small/torch.distributed all_reduce 4 B, 2 PEs", "gloo", "us", Goal(at_most=20.0), _torch
    ),
]
