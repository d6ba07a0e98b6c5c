"""The emulated link: how much longer than its modelled time a transfer takes, and what it costs.

The peer of a time is the model itself: a ratio of 1 is a transfer that takes what it should and no more.
"""

from __future__ import annotations

import functools

from rows.measure import Bench, Goal, Outcome, Settings, duel, typical
from rows.team import over_link

MIB = 1 << 20
RATES = {"1GB/s": 1e9, "25GB/s": 25e9}
LATENCY, LATENCY_S = "2us", 2e-6


def _time(task: str, nbytes: int, rate: str, modelled: float, settings: Settings) -> Outcome:
    """Time ``task``, whose model says ``modelled`` seconds."""
    team = settings.teams(over_link(f"{rate},{LATENCY}"), 2)
    ours = duel(settings, lambda calls: team.seconds(task, calls, nbytes=nbytes), None)
    return Outcome(ours.ours, modelled, ours.note)


def _processor(settings: Settings) -> Outcome:
    """Compare the processor time of a transfer with that of the same transfer without a link."""
    kinds, calls = (over_link(f"1GB/s,{LATENCY}"), "emu"), 4 if settings.quick else 20
    seconds: list[list[float]] = [[], []]
    for _ in range(settings.rounds):
        for kind, samples in zip(kinds, seconds, strict=True):
            spent = settings.teams(kind, 2).ask("put_processor", calls=calls, nbytes=MIB)
            samples.append(spent[0] / calls)
    return Outcome(*map(typical, seconds))


def _row(
    name: str, task: str, nbytes: int, rate: str, shares: float, latencies: int, goal: float
) -> Bench:
    """Make the row of a task that sends ``shares * nbytes`` over each link, in ``latencies`` phases."""
    modelled = shares * nbytes / RATES[rate] + latencies * LATENCY_S
    return Bench(
        f"link/{name}, {rate} and {LATENCY}",
        "model",
        "us",
        Goal(goal),
        functools.partial(_time, task, nbytes, rate, modelled),
    )


ROWS = [
    _row("put 4 KiB", "put_set", 4 << 10, "1GB/s", 1, 1, 0.5),
    _row("put 64 KiB", "put_set", 64 << 10, "1GB/s", 1, 1, 0.7),
    _row("put 1 MiB", "put_set", MIB, "1GB/s", 1, 1, 0.95),
    _row("put 16 MiB", "put_set", 16 * MIB, "25GB/s", 1, 1, 0.9),
    _row("put 1 MiB both ways", "put_both_ways", MIB, "1GB/s", 1, 1, 0.95),
    _row("all_gather to 16 MiB", "all_gather", 16 * MIB, "1GB/s", 0.5, 1, 0.8),
    _row("all_reduce 16 MiB", "all_reduce", 16 * MIB, "1GB/s", 1, 2, 0.8),
    Bench("link/processor time of a put of 1 MiB, 1GB/s", "without", "us", Goal(0.3), _processor),
]
