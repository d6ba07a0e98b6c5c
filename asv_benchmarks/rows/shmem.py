"""Communication from inside Triton kernels, beside the same from Python, the fused operator, and torch."""

from __future__ import annotations

import functools

from rows.mc2 import SHAPES
from rows.measure import Bench, Goal, Outcome, Settings, duel

_BYTES = 64 << 10


def _beside_host(ours: str, theirs: str, settings: Settings) -> Outcome:
    team = settings.teams("emu", 2)
    return duel(
        settings,
        lambda calls: team.seconds(ours, calls, nbytes=_BYTES),
        lambda calls: team.seconds(theirs, calls, nbytes=_BYTES),
    )


def _signal(settings: Settings) -> Outcome:
    team = settings.teams("emu", 2)
    outcome = duel(settings, lambda calls: team.seconds("ping_pong_shmem", calls, pinned=1), None)
    if outcome.ours is not None:  # a call is a signal each way
        outcome.ours /= 2
    return outcome


def _beside_operator(settings: Settings) -> Outcome:
    team = settings.teams("emu", 2)
    sizes = dict(zip("mkn", SHAPES["all_gather_matmul"][0], strict=True))
    return duel(
        settings,
        lambda calls: team.seconds("shmem_all_gather_matmul", calls, half=1, **sizes),
        lambda calls: team.seconds("all_gather_matmul fused", calls, **sizes),
    )


def _beside_gloo(settings: Settings) -> Outcome:
    ours, theirs = settings.teams("emu", 2), settings.teams("gloo", 2)
    return duel(
        settings,
        lambda calls: ours.seconds("shmem_all_gather_matmul", calls, m=512, k=2048, n=1024, half=0),
        lambda calls: theirs.seconds(
            "allgather_matmul", calls, rows=1024, depth=2048, columns=2048, half=0
        ),
    )


ROWS = [
    *(
        Bench(
            f"shmem/{what} 64 KiB in a kernel",
            f"World.{theirs.removeprefix('host_')}",
            "us",
            Goal(0.9),
            functools.partial(_beside_host, ours, theirs),
        )
        for what, ours, theirs in (
            ("put", "kernel_put", "host_put"),
            ("store", "kernel_store", "host_put"),
            ("load", "kernel_load", "host_get"),
        )
    ),
    Bench("shmem/signal one way, a core each", "", "us", Goal(at_most=1.0), _signal),
    Bench(
        "shmem/all_gather_matmul fp16 in one kernel, 2 PEs",
        "emu.mc2",
        "ms",
        Goal(0.9),
        _beside_operator,
    ),
    Bench(
        "shmem/all_gather_matmul fp32 in one kernel, 2 PEs",
        "gloo",
        "ms",
        Goal(3.0),
        _beside_gloo,
    ),
]
