"""Which of the actors that may act comes next: pure functions of the schedule, the step and a few remembered words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from emu.comm.arrays import Words
from emu.comm.schedule_options import DELAY, PCT, RANDOM, STARVE, Schedule
from emu.comm.world.steering import Span
from emu.schedule.area import (
    DEMOTIONS,
    M_CURRENT,
    M_DEMOTED,
    M_DEMOTIONS,
    M_NEXT_SWITCH,
    M_PASSED,
)

_MASK = (1 << 64) - 1
_FRUITLESS = 4
"""Looks in a row, while nobody did anything else, after which others come first."""
_HIGH = 1 << 60


class Candidate(NamedTuple):
    """An actor that may act now.

    Attributes:
        actor: Its number, as :class:`~emu.comm.schedule_options.Schedule` has it.
        spans: Memory that it would use.
        site: Number of the line of the program, in the table of its PE.
        operations: What its PE has done so far.
        looks: How often in a row it has only looked; 0 if it would now do something else.
    """

    actor: int
    spans: tuple[Span, ...]
    site: int
    operations: int
    looks: int

    @property
    def is_fruitless(self) -> bool:
        """Whether it would only look again."""
        return self.looks >= _FRUITLESS


class Choice(NamedTuple):
    """Who comes next, and who would by the strategy ``"first"``."""

    chosen: Candidate
    default: Candidate


def choose(
    schedule: Schedule, n_pes: int, step: int, candidates: Sequence[Candidate], memory: Words
) -> Choice:
    """Return who comes next of at least one candidate, and remember it.

    Args:
        schedule: The order that is asked for.
        n_pes: Number of PEs.
        step: Number of the step.
        candidates: Who may come, by actor.
        memory: Words that nobody else changes.
    """
    default = _first(n_pes, candidates, memory)
    chosen = default
    if step < len(schedule.prefix):
        chosen = _find(candidates, schedule.prefix[step]) or default
    elif schedule.switches is not None:
        chosen = _switch(schedule, candidates, memory, default)
    elif schedule.strategy in _BY_STRATEGY:
        fruitful = [c for c in candidates if not c.is_fruitless] or list(candidates)
        chosen = _BY_STRATEGY[schedule.strategy](schedule, n_pes, step, fruitful, memory)
    if chosen.actor < n_pes:
        memory[M_CURRENT] = chosen.actor
        for c in candidates:
            if c.actor >= n_pes:
                pe, number = c.actor % n_pes, c.actor // n_pes
                memory[M_PASSED + pe] = max(int(memory[M_PASSED + pe]), number)
    return Choice(chosen, default)


def mix(*numbers: int) -> int:
    """Return 64 bits that depend on all numbers (SplitMix64's finaliser, applied to each)."""
    state = 0
    for number in numbers:
        state = (state + (number & _MASK) + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ state >> 27) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state


def _find(candidates: Sequence[Candidate], actor: int) -> Candidate | None:
    return next((c for c in candidates if c.actor == actor), None)


def _first(n_pes: int, candidates: Sequence[Candidate], memory: Words) -> Candidate:
    """Return the one that comes by default.

    A store arrives as soon as it was issued, a PE goes on as long as it can, and then the next one does. A store that
    others have passed arrives when no PE can go on.
    """
    current = int(memory[M_CURRENT])
    runs = [c for c in candidates if c.actor < n_pes]
    stores = [c for c in candidates if c.actor >= n_pes]
    fresh = [c for c in stores if c.actor // n_pes > memory[M_PASSED + c.actor % n_pes]]
    if fresh:
        return min(fresh, key=lambda c: ((c.actor - current) % n_pes, c.actor))
    for group in ([c for c in runs if not c.is_fruitless], stores, runs):
        if group:
            return min(group, key=lambda c: (c.actor // n_pes, (c.actor - current) % n_pes))
    raise AssertionError("there must be a candidate")


def _switch(
    schedule: Schedule, candidates: Sequence[Candidate], memory: Words, default: Candidate
) -> Candidate:
    switches = list(schedule.switches or ())
    while memory[M_NEXT_SWITCH] < len(switches):
        switch = switches[memory[M_NEXT_SWITCH]]
        if (switch.actor, switch.after) != (default.actor, default.operations):
            break
        memory[M_NEXT_SWITCH] += 1
        found = _find(candidates, switch.to)
        if found is not None:
            return found
    return default


# --- strategies: of a schedule, the number of PEs, the step, the candidates and the memory ------


def _random(
    schedule: Schedule, n_pes: int, step: int, candidates: Sequence[Candidate], memory: Words
) -> Candidate:
    return candidates[mix(schedule.seed, step) % len(candidates)]


def _pct(
    schedule: Schedule, n_pes: int, step: int, candidates: Sequence[Candidate], memory: Words
) -> Candidate:
    lowered = _demotions(memory)
    for candidate in candidates:
        if candidate.is_fruitless:
            _demote(memory, lowered, candidate.actor, -step - 1)

    def priority(c: Candidate) -> int:
        return lowered.get(c.actor, _HIGH + mix(schedule.seed, 1, c.actor) % _HIGH)

    best = max(candidates, key=priority)
    points = [mix(schedule.seed, 2, i) % schedule.length for i in range(schedule.depth - 1)]
    if step in points and len(candidates) > 1:
        _demote(memory, lowered, best.actor, schedule.depth - points.index(step))
        best = max(candidates, key=priority)
    return best


def _demotions(memory: Words) -> dict[int, int]:
    count = int(memory[M_DEMOTED])
    pairs = memory[M_DEMOTIONS : M_DEMOTIONS + 2 * count].tolist()
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def _demote(memory: Words, lowered: dict[int, int], actor: int, priority: int) -> None:
    lowered[actor] = priority
    count = int(memory[M_DEMOTED])
    if count < DEMOTIONS:  # else it is forgotten: the order then depends on the seed all the same
        memory[M_DEMOTIONS + 2 * count] = actor
        memory[M_DEMOTIONS + 2 * count + 1] = priority
        memory[M_DEMOTED] = count + 1


def _delay(
    schedule: Schedule, n_pes: int, step: int, candidates: Sequence[Candidate], memory: Words
) -> Candidate:
    runs = [c for c in candidates if c.actor < n_pes]
    stores = [c for c in candidates if c.actor >= n_pes]
    draw = mix(schedule.seed, step)
    if stores and (not runs or draw % 100 < 8):
        return stores[(draw >> 8) % len(stores)]
    current = _find(runs, int(memory[M_CURRENT]))
    if current is not None and (draw >> 20) % 100 < 60:
        return current
    return runs[(draw >> 32) % len(runs)]


def _starve(
    schedule: Schedule, n_pes: int, step: int, candidates: Sequence[Candidate], memory: Words
) -> Candidate:
    victim = mix(schedule.seed, 1) % n_pes
    others = [c for c in candidates if c.actor % n_pes != victim]
    draw = mix(schedule.seed, step, 2)
    among = others if others and draw % 100 < 98 else candidates
    current = _find(among, int(memory[M_CURRENT]))
    if current is not None and (draw >> 20) % 100 < 40:
        return current
    return among[(draw >> 32) % len(among)]


_Strategy = Callable[[Schedule, int, int, Sequence[Candidate], Words], Candidate]
_BY_STRATEGY: dict[str, _Strategy] = {
    RANDOM: _random,
    PCT: _pct,
    DELAY: _delay,
    STARVE: _starve,
}
