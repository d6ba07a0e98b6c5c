"""The PyPTO front end: one small store from Python."""

from __future__ import annotations

from rows.measure import Bench, Goal, Outcome, Settings, duel
from rows.team import TeamError


def _store(settings: Settings) -> Outcome:
    mine, note, theirs = settings.teams("emu", 2), "", None
    try:
        peer = settings.teams("mpi", 2)

        def theirs(calls: int) -> float:
            return peer.seconds("put", calls, nbytes=16 * 64 * 4)

    except TeamError as error:
        note = str(error)
    return duel(settings, lambda calls: mine.seconds("shmem_store", calls), theirs, note)


ROWS = [Bench("shmem_store/[16, 64] fp32 from Python", "mpi", "us", Goal(at_most=10.0), _store)]
