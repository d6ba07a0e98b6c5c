"""A World over hosts, which are processes of mpiexec here, beside MPI itself: both send by TCP over the loopback device.

So do gloo's ranks, which know no hosts: all of theirs goes that way. MPI's ranks are told to take each other for ranks of as many hosts as ours. So within a "host" both have shared
memory, and between them neither has.
"""

from __future__ import annotations

import functools

from rows.measure import Bench, Goal, Outcome, Settings, duel
from rows.team import TeamError, cores, mpi_on_hosts, on_hosts

KIB, MIB = 1 << 10, 1 << 20
SIZES = {4 * KIB: "4 KiB", 64 * KIB: "64 KiB", MIB: "1 MiB", 8 * MIB: "8 MiB", 64 * MIB: "64 MiB"}


def _beside(
    ours: str, theirs: str, hosts: int, n: int, settings: Settings, nbytes: int = 0, **mine: int
) -> Outcome:
    """Compare a task of ours with one of MPI's, on ``n`` PEs and ranks of so many hosts."""
    settings.teams.check("mpi")
    given = {"nbytes": nbytes} if nbytes else {}
    team = settings.teams(on_hosts(hosts), n)

    def our_clock(calls: int) -> float:
        return team.seconds(ours, calls, **given, **mine)

    note = f"{cores()} cores" if n + hosts > cores() else ""
    try:
        peer = settings.teams(mpi_on_hosts(hosts), n)
    except TeamError as error:
        return duel(settings, our_clock, None, str(error))
    return duel(settings, our_clock, lambda calls: peer.seconds(theirs, calls, **given), note)


def _all_reduce(hosts: int, n: int, settings: Settings) -> Outcome:
    nbytes = settings.collective_bytes
    return _beside("all_reduce", "all_reduce", hosts, n, settings, nbytes)


def _train(hosts: int, n: int, settings: Settings) -> Outcome:
    """Compare a step with DistributedDataParallel: over nccl on our PEs, over gloo on as many ranks."""
    ours = settings.teams(on_hosts(hosts), n)
    theirs = settings.teams("gloo", n)
    return duel(
        settings,
        lambda calls: ours.seconds("ddp_step", calls),
        lambda calls: theirs.seconds("ddp_step", calls),
        f"{cores()} cores" if n + hosts > cores() else "",
    )


def _row(name: str, goal: float, task: str, peer: str, hosts: int, n: int, **given: int) -> Bench:
    run = functools.partial(_beside, task, peer, hosts, n, **given)
    return Bench(f"hosts/{name}", "mpi", "us", Goal(goal), run)


ROWS = [
    *(
        _row(f"put and quiet {text}", 0.67, "put_and_quiet", "send_and_answer", 2, 2, nbytes=nbytes)
        for nbytes, text in SIZES.items()
        if nbytes < MIB
    ),
    *(
        _row(f"puts {text}", 0.9, "puts", "stream", 2, 2, nbytes=nbytes)
        for nbytes, text in SIZES.items()
    ),
    *(
        _row(f"puts from the heap {text}", 0.9, "puts", "stream", 2, 2, nbytes=nbytes, heap=1)
        for nbytes, text in SIZES.items()
        if nbytes >= MIB
    ),
    *(
        _row(f"ADD {text} fp32", 2.0, "add", "accumulate", 2, 2, nbytes=nbytes)
        for nbytes, text in SIZES.items()
        if nbytes <= 8 * MIB
    ),
    *(
        # MPI has no bf16: its fp32 of as many bytes stands beside it
        _row(f"ADD {text} bf16", 2.0, "add", "accumulate", 2, 2, nbytes=nbytes, bf16=1)
        for nbytes, text in SIZES.items()
        if nbytes <= 8 * MIB
    ),
    _row("barrier 2 x 2 PEs", 1.5, "barrier", "barrier", 2, 4),
    _row("barrier 4 x 16 PEs", 1.5, "barrier", "barrier", 4, 64),
    *(
        Bench(
            f"hosts/all_reduce 64 MiB, {hosts} x {n // hosts} PEs",
            "mpi",
            "ms",
            Goal(1.0),
            functools.partial(_all_reduce, hosts, n),
        )
        for hosts, n in ((2, 2), (2, 4), (4, 16))
    ),
    *(
        Bench(
            f"hosts/DDP step, {hosts} x {n // hosts} PEs",
            "gloo",
            "ms",
            Goal(1.0),
            functools.partial(_train, hosts, n),
        )
        for hosts, n in ((2, 2), (2, 4))
    ),
]
