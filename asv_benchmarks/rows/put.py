"""put: SET against memcpy, ADD against MPI, and two PEs into one tile."""

from __future__ import annotations

import functools

from rows.measure import Bench, Goal, Outcome, Settings, against, duel, typical
from rows.team import cores

SIZES = {
    4 << 10: "4 KiB",
    64 << 10: "64 KiB",
    256 << 10: "256 KiB",
    1 << 20: "1 MiB",
    4 << 20: "4 MiB",
}


def _set(nbytes: int, settings: Settings) -> Outcome:
    team = settings.teams("emu", 2)
    return duel(
        settings,
        lambda calls: team.seconds("put_set", calls, nbytes=nbytes),
        lambda calls: team.seconds("copyto", calls, nbytes=nbytes),
    )


def _add(nbytes: int, settings: Settings) -> Outcome:
    return against(settings, "mpi", 2, "put_add", "accumulate", nbytes=nbytes)


def _two_into_one(settings: Settings) -> Outcome:
    team, nbytes, calls = settings.teams("emu", 2), 4 << 20, 4 if settings.quick else 40
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(settings.rounds):
        for pes, samples in seconds.items():
            samples.append(team.seconds("add_shared_tile", calls, pes=pes))
    rate = {pes: pes * calls * nbytes / typical(s) / 1e9 for pes, s in seconds.items()}
    return Outcome(rate[2], rate[1], "" if cores() > 1 else "one core: PEs take turns")


ROWS = [
    *(
        Bench(f"put_set/{SIZES[n]}", "np.copyto", "us", Goal(0.9), functools.partial(_set, n))
        for n in (64 << 10, 256 << 10, 1 << 20, 4 << 20)
    ),
    *(
        Bench(f"put_add/{SIZES[n]}", "mpi", "us", Goal(2.0), functools.partial(_add, n))
        for n in (4 << 10, 64 << 10, 4 << 20)
    ),
    Bench(
        "put_add/two PEs into one 1024x1024 tile",
        "one PE alone",
        "GB/s",
        Goal(1.7),
        _two_into_one,
        more_is_better=True,
    ),
]
