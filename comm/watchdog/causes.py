"""Likely causes of a deadlock, from its graph: who has ended, what crosses, which lock is never released."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from emu.comm.deadlock.report import Cause, Kind, WaitingPE, numbers
from emu.comm.memory.segment import Segment
from emu.comm.watchdog.clues import read_clues, word_clues
from emu.comm.watchdog.named import named_clues
from emu.comm.watchdog.polled import polled_words
from emu.comm.watchdog.waits import Look, Wait

MOST = 6
"""Causes in a report, at most."""


@dataclass(frozen=True)
class Findings:
    """What is known of a deadlock before its causes are."""

    look: Look
    waiting: tuple[WaitingPE, ...]
    places: Mapping[int, str]
    """Where the PEs that have ended returned from."""
    cycle: tuple[int, ...]
    missing: tuple[int, ...]
    """PEs that have ended and lack in a barrier."""
    elsewhere: frozenset[int] = frozenset()
    """PEs of other hosts, whose memory cannot be looked into."""

    def waits(self) -> Iterator[Wait]:
        """Yield what each PE waits for, of those that have said so."""
        for each in self.waiting:
            if each.pe in self.look.waits:
                yield self.look.waits[each.pe]

    def ended(self, pes: Iterable[int]) -> str:
        """Describe PEs that have ended, with the lines where they returned."""
        known = list(pes)
        who = "it" if len(known) == 1 else "PE {}"
        places = [
            f"{who.format(pe)} returned at {self.places[pe]}" for pe in known if self.places.get(pe)
        ]
        more = f" ({'; '.join(places[:4])})" if places else ""
        return f"{numbers(known)} {'has' if len(known) == 1 else 'have'} ended{more}"


def find_causes(findings: Findings, told: Sequence[Cause] = ()) -> tuple[Cause, ...]:
    """Return the likely causes of a deadlock, the best first.

    Args:
        findings: What is known of it.
        told: What other hosts have found in the memory of theirs. Default: nothing.
    """
    locks = _locks(findings)
    in_locks = {pe for cause in locks for pe in cause.pes}
    awaited = awaited_words(findings.waits())
    here = [wait for wait in findings.waits() if wait.pe not in in_locks | findings.elsewhere]
    specific = [
        clue for wait in here for clue in clues_of(findings.look.segment, wait, awaited)
    ] + list(told)
    found = _missing_members(findings) + locks + specific
    if not found:
        found = _no_senders(findings) + _crossings(findings)
    return _merged(found)


def clues_of(segment: Segment, wait: Wait, awaited: Collection[tuple[int, int]]) -> list[Cause]:
    """Return what points to the cause of a wait.

    Args:
        segment: Shared memory of the host of the PE that waits.
        wait: What it waits for.
        awaited: All words, PE and offset, that a PE waits for.
    """
    named = named_clues(wait) or read_clues(segment, wait)
    return named if named or not wait.runs else word_clues(segment, wait, awaited)


def awaited_words(waits: Iterable[Wait]) -> frozenset[tuple[int, int]]:
    """Return the words, PE and offset, that are waited for."""
    return frozenset(
        (wait.pe, word.offset) for wait in waits for run in wait.runs for word in run.words()
    )


def _merged(found: list[Cause]) -> tuple[Cause, ...]:
    """Return each text once, with all PEs that it is about."""
    merged: dict[tuple[Kind, str], Cause] = {}
    for cause in found:
        key = (cause.kind, cause.text)
        before = merged.get(key)
        pes = cause.pes if before is None else tuple(sorted({*before.pes, *cause.pes}))
        merged[key] = Cause(cause.kind, pes, cause.text, cause.advice)
    shown: list[Cause] = []
    for cause in merged.values():  # of each kind two
        if sum(cause.kind is other.kind for other in shown) < 2:
            shown.append(cause)
    return tuple(shown[:MOST])


# --- members that have ended --------------------------------------------------------------------


def _missing_members(findings: Findings) -> list[Cause]:
    if not findings.missing:
        return []
    waiting = [
        each
        for each in findings.waiting
        if each.what.startswith("barrier") and set(each.waits_for) & set(findings.missing)
    ]
    calls = sorted({each.what for each in waiting})
    pes = tuple(each.pe for each in waiting)
    them = "it" if len(findings.missing) == 1 else "them"
    verb = "waits" if len(pes) == 1 else "wait"
    return [
        Cause(
            Kind.PE_ENDED,
            pes,
            f"{findings.ended(findings.missing)}, but {numbers(pes)} {verb} for {them} in "
            f"{', '.join(calls[:3])}",
            "every member of a group must make the same barriers and collectives: call it on every path, "
            "also before an early return, or make a group of those PEs that do",
        )
    ]


# --- locks --------------------------------------------------------------------------------------


def _locks(findings: Findings) -> list[Cause]:
    found = []
    for each in findings.waiting:
        owner, name = _owner(findings, each.pe)
        if owner is None:
            continue
        found.append(_lock_cause(findings, each, owner, name))
    return found


def _owner(findings: Findings, pe: int) -> tuple[int | None, str]:
    """Return the PE that has the lock which a PE waits for, and the lock's name; None: it waits for none."""
    wait = findings.look.waits.get(pe)
    if wait is not None:
        if not wait.is_lock:
            return None, ""
        return findings.look.lock_owner(wait), wait.call.removeprefix("set_lock(").removesuffix(")")
    polled = None if pe in findings.elsewhere else polled_words(findings.look.segment, pe)
    if polled is None or polled.call not in ("compare_swap", "swap") or not polled.there:
        return None, ""
    if polled.last is None or polled.last.operation not in ("compare_swap", "swap"):
        return None, ""
    return polled.last.pe, f"{polled.name} on PE {polled.pe}"


def _lock_cause(findings: Findings, each: WaitingPE, owner: int, name: str) -> Cause:
    what = {other.pe: other.what for other in findings.waiting}
    if owner == each.pe:
        why = "which has taken it before and not released it"
    elif owner in findings.look.ended:
        place = findings.places.get(owner, "")
        why = "which has ended without releasing it" + (
            f" (it returned at {place})" if place else ""
        )
    else:
        why = f"which waits itself, in {what.get(owner, 'a loop')}"
    return Cause(
        Kind.LOCK_NOT_RELEASED,
        (each.pe,),
        f"PE {each.pe} waits for the lock {name}, held by PE {owner}, {why}",
        "release a lock on every path (try … finally), take several locks in one order on all PEs, and wait for "
        "nobody while you hold one",
    )


# --- cycles -------------------------------------------------------------------------------------


def _crossings(findings: Findings) -> list[Cause]:
    cycle = findings.cycle
    by_pe = {each.pe: each for each in findings.waiting}
    inside = [by_pe[pe] for pe in cycle if pe in by_pe]
    if len(inside) < 2:
        return []
    pes = tuple(sorted(cycle))
    told = "; ".join(
        f"PE {each.pe} waits in {each.what}" + (f" at {each.at}" if each.at else "")
        for each in inside[:4]
    )
    if all(each.needs_all for each in inside):
        return [
            Cause(
                Kind.CROSSED_GROUPS,
                pes,
                f"{numbers(pes)} call barriers or collectives of different groups in different orders: {told}",
                "call the groups' barriers and collectives in one order on all PEs that share two groups",
            )
        ]
    if not any(each.needs_all for each in inside):
        return [
            Cause(
                Kind.CROSSED_SIGNALS,
                pes,
                f"{numbers(pes)} each wait for a signal before they send the one that another waits for: {told}",
                "signal first and wait then, or let one PE begin",
            )
        ]
    return [
        Cause(
            Kind.BARRIER_AND_SIGNAL,
            pes,
            f"some of {numbers(pes)} wait in a barrier or collective for PEs that wait for a signal of theirs: {told}",
            "send what others wait for before the barrier, or wait for it behind the barrier",
        )
    ]


def _no_senders(findings: Findings) -> list[Cause]:
    """Name the waits for words that PEs which have ended could have written, and those that nobody could."""
    found = []
    for each in findings.waiting:
        if each.needs_all or each.pe not in findings.look.waits:
            continue
        gone = [pe for pe in each.waits_for if pe in findings.look.ended]
        if gone:
            others = "" if len(gone) == len(each.waits_for) else ", and the others wait themselves"
            found.append(
                Cause(
                    Kind.PE_ENDED,
                    (each.pe,),
                    f"{findings.ended(gone)}{others}: nobody is left to end PE {each.pe}'s {each.what}",
                    "send each signal that is waited for before the function returns",
                )
            )
        elif not each.waits_for:
            found.append(
                Cause(
                    Kind.NO_SENDER,
                    (each.pe,),
                    f"PE {each.pe} waits in {each.what}, and there is no other PE in the group",
                    "wait for what another PE sends, or signal before the wait",
                )
            )
    return found
