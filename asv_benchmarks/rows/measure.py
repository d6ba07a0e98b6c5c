"""How two contenders are compared: short rounds in turn, the lower quartile of each.

A machine that does something else for a while disturbs some rounds of both contenders alike, because they
alternate. Disturbance only ever adds time; the lower quartile of many rounds leaves it out without
taking the one luckiest round for the truth.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rows.team import TeamError, Teams

Clock = Callable[[int], float]
"""Does so many calls and returns the seconds that they took."""


@dataclass(frozen=True)
class Goal:
    """What a row should reach: at least a ratio, or at most a value of ours."""

    ratio: float | None = None
    at_most: float | None = None

    def met(self, ours: float | None, ratio: float | None) -> bool | None:
        """Say whether it is reached; None where it cannot be known."""
        if self.ratio is not None:
            return None if ratio is None else ratio >= self.ratio
        if self.at_most is not None:
            return None if ours is None else ours <= self.at_most
        return None

    def text(self, unit: str) -> str:
        """Write it down."""
        if self.ratio is not None:
            return f">= {self.ratio:g} x"
        return f"<= {self.at_most:g} {unit}" if self.at_most is not None else ""


@dataclass
class Settings:
    """How long to measure, and with what."""

    quick: bool
    teams: Teams
    round_s: float = field(init=False)
    rounds: int = field(init=False)
    budget_s: float = field(init=False)
    collective_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.round_s = 0.002 if self.quick else 0.02
        self.rounds = 3 if self.quick else 41
        self.budget_s = 2.0 if self.quick else 20.0
        self.collective_bytes = 1 << 20 if self.quick else 64 << 20


@dataclass
class Outcome:
    """What was measured, in seconds a call (or in the row's own unit); None where it could not be."""

    ours: float | None = None
    theirs: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Bench:
    """One row.

    Attributes:
        name: What ``--only`` matches: ``subject/case``, for teams shared within a subject.
        peer: Who it is compared with.
        unit: Of ours and theirs in the result; ``us``, ``ms`` and ``s`` are times.
        goal: What it should reach.
        run: Measures it.
        more_is_better: Ours and theirs are rates, not times.
    """

    name: str
    peer: str
    unit: str
    goal: Goal
    run: Callable[[Settings], Outcome]
    more_is_better: bool = False


def typical(samples: list[float]) -> float:
    """Return the lower quartile."""
    return sorted(samples)[len(samples) // 4]


def _calibrate(clock: Clock, round_s: float) -> int:
    """Return how many calls fill a round; warms up on the way."""
    calls = 1
    clock(1)
    while calls < 1 << 22:
        spent = clock(calls)
        if spent >= round_s / 2:  # or it was disturbed: a round of too few calls measures its ends
            spent = min(spent, clock(calls), clock(calls))
        if spent >= round_s / 2:
            break
        calls = max(2 * calls, int(calls * min(100.0, round_s / max(spent, 1e-9))))
    return calls


def duel(
    settings: Settings, ours: Clock, theirs: Clock | None, note: str = "", settle_s: float = 0.0
) -> Outcome:
    """Time both in turn; return seconds a call.

    ``settle_s`` is slept before each round: as long as the threads of the other, which have nothing to
    do any more, still keep a core busy.
    """
    clocks: list[Clock] = [ours] if theirs is None else [ours, theirs]
    samples: list[list[float]] = [[] for _ in clocks]
    try:
        calls = [_calibrate(clock, settings.round_s) for clock in clocks]
        deadline = time.monotonic() + settings.budget_s
        for turn in range(settings.rounds):
            order = list(range(len(clocks)))
            for i in reversed(order) if turn % 2 else order:
                time.sleep(settle_s)
                samples[i].append(clocks[i](calls[i]) / calls[i])
            if turn >= 4 and time.monotonic() > deadline:
                break
    except TeamError as error:
        note = str(error)
    found = [typical(s) if s else None for s in samples] + [None]
    return Outcome(found[0], found[1], note)


def against(
    settings: Settings,
    kind: str,
    n: int,
    ours: str,
    theirs: str,
    n_ours: int | None = None,
    **arguments: int,
) -> Outcome:
    """Compare task ``ours`` of our team with task ``theirs`` of the peer's, ``n`` processes each."""
    mine = settings.teams("emu", n_ours or n)

    def our_clock(calls: int) -> float:
        return mine.seconds(ours, calls, **arguments)

    try:
        peer = settings.teams(kind, n)
    except TeamError as error:
        return duel(settings, our_clock, None, str(error))
    return duel(settings, our_clock, lambda calls: peer.seconds(theirs, calls, **arguments))
