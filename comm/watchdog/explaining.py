"""``explain``: make the report of a deadlock from a look at its PEs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from emu.comm.deadlock.graph import find_cycle
from emu.comm.deadlock.report import Cause, Deadlock, EndedPE, WaitingPE
from emu.comm.layout import B_POLLS, B_STATE, FINISHED
from emu.comm.watchdog.causes import Findings, find_causes
from emu.comm.watchdog.monitor import describe_all, returned_from
from emu.comm.watchdog.polled import polled_words
from emu.comm.watchdog.waits import Look, Run, Wait
from emu.comm.watchdog.writers import last_written


@dataclass(frozen=True)
class Told:
    """What other hosts have told of their PEs, whose memory cannot be looked into."""

    pes: frozenset[int]
    """Those PEs."""
    places: Mapping[int, str]
    """Where those that have ended returned from."""
    likely: Mapping[int, tuple[int, ...]]
    """The PEs that could write the words that one waits for, last writers first."""
    causes: tuple[Cause, ...]
    """Clues in their memory."""
    states: str
    """What each PE of the World does."""


def explain(
    look: Look,
    stuck: Collection[int],
    timeout: float,
    *,
    is_proved: bool,
    told: Told | None = None,
) -> Deadlock:
    """Return the report of a deadlock.

    Args:
        look: What the PEs wait for.
        stuck: The PEs that nobody can release.
        timeout: The launch's time-out, in seconds.
        is_proved: Whether it was proved; else nothing has moved for the time-out.
        told: What other hosts have told. Default: all PEs are on this one.
    """
    segment = look.segment
    places = {pe: returned_from(segment, pe) for pe in look.ended}
    likely: Mapping[int, tuple[int, ...]] = {}
    if told is not None:
        places |= told.places
        likely = told.likely
    waiting = tuple(_waiting_pe(look, pe, likely) for pe in sorted(stuck))
    cycle = find_cycle({each.pe: each.waits_for for each in waiting})
    missing = sorted(
        {
            pe
            for each in waiting
            if each.pe in look.waits and look.waits[each.pe].is_barrier
            for pe in each.waits_for
        }
        & look.ended
    )
    elsewhere = told.pes if told is not None else frozenset()
    findings = Findings(look, waiting, places, cycle, tuple(missing), elsewhere)
    return Deadlock(
        is_proved=is_proved,
        timeout=timeout,
        waiting=waiting,
        ended=tuple(EndedPE(pe, places[pe]) for pe in sorted(look.ended)),
        cycle=cycle,
        missing=tuple(missing),
        causes=find_causes(findings, told.causes if told is not None else ()),
        states=told.states if told is not None else describe_all(segment),
    )


def explain_stall(look: Look, timeout: float) -> Deadlock:
    """Return the report of a world in which nothing has moved for the time-out.

    Every PE that has not ended counts as one that waits. One that has finished, and whose process has not ended,
    counts as ended.
    """
    finished = {pe for pe in range(len(look.blocks)) if look.blocks[pe, B_STATE] == FINISHED}
    look.ended |= finished
    for pe in finished:
        look.waits.pop(pe, None)
    stuck = [pe for pe in range(len(look.blocks)) if pe not in look.ended]
    for pe in stuck:
        if pe not in look.waits and look.blocks[pe, B_POLLS]:
            look.add(pe)
    return explain(look, stuck, timeout, is_proved=False)


def _waiting_pe(look: Look, pe: int, likely: Mapping[int, tuple[int, ...]]) -> WaitingPE:
    wait = look.waits.get(pe)
    if wait is None:
        return _polling_pe(look, pe)
    if wait.is_barrier:
        what = f"barrier of group {wait.description.get('group', '')!r}"
        need = look.barrier_need(wait)
        missing = need.pes if need is not None else ()
        return WaitingPE(pe, what, wait.at, missing, needs_all=True)
    if wait.is_lock:
        owner = look.lock_owner(wait)
        holder = () if owner is None else (owner,)
        return WaitingPE(pe, wait.call, wait.at, holder, needs_all=True)
    if wait.runs:
        run = wait.runs[0]
        what = f"{wait.call} {_word_name(wait)} {run.cmp} {run.value}"
        writers = likely[pe] if pe in likely else likely_writers(look, wait)
        return WaitingPE(pe, what, wait.at, writers, needs_all=False)
    text = str(wait.description.get("text", ""))
    others: tuple[int, ...] = tuple(look.segment.members(wait.group))
    if "server" not in wait.description:
        others = tuple(range(len(look.blocks)))
    others = tuple(other for other in others if other != pe)
    return WaitingPE(pe, f"{wait.call} for {text}"[:200], wait.at, others, needs_all=False)


def _polling_pe(look: Look, pe: int) -> WaitingPE:
    polled = polled_words(look.segment, pe)
    if polled is None:
        others = tuple(other for other in range(len(look.blocks)) if other != pe)
        return WaitingPE(pe, "a loop, or another wait of its own", "", others, needs_all=False)
    others = tuple(other for other in polled.members if other != pe)
    owner = polled.last.pe if polled.last is not None and polled.last.pe in others else None
    if owner is not None:
        others = (owner, *(other for other in others if other != owner))
    return WaitingPE(pe, f"polls {polled.name} on PE {polled.pe}", "", others, needs_all=False)


def _word_name(wait: Wait) -> str:
    slots = wait.description.get("slots") or ()
    return f"{slots[0]['name']}[{slots[0]['index']}]" if slots else ""


def likely_writers(look: Look, wait: Wait) -> tuple[int, ...]:
    """Return the PEs that could write the words of a wait, last writers first."""
    writers = look.writers(wait)
    first: list[int] = []
    for run in _first_words(wait):
        written = last_written(look.segment, wait.pe, run.offset)
        if written is not None and written.last.pe in writers and written.last.pe not in first:
            first.append(written.last.pe)
    return (*first, *(pe for pe in writers if pe not in first))


def _first_words(wait: Wait) -> list[Run]:
    return [word for run in wait.runs[:8] for word in list(run.words())[:8]][:8]
