"""Clues in words: what a word holds, who wrote it, and what was written instead of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from emu.comm.deadlock.report import Cause, Kind
from emu.comm.memory.segment import Segment
from emu.comm.watchdog.monitor import name_of
from emu.comm.watchdog.polled import group_at
from emu.comm.watchdog.waits import Run, Wait
from emu.comm.watchdog.writers import Writer, Written, all_written, last_written

_WORDS = 8
"""Words of a wait that are looked into."""
_UPWARD = ("EQ", "GE", "GT")


@dataclass(frozen=True)
class _Word:
    """A word that is waited for."""

    pe: int
    run: Run
    name: str
    there: int
    written: Written | None

    @property
    def wanted(self) -> str:
        return f"PE {self.pe} waits for {self.name} {self.run.cmp} {self.run.value}"


def word_clues(segment: Segment, wait: Wait, awaited: Collection[tuple[int, int]]) -> list[Cause]:
    """Return what points to the cause of a wait for words that nobody ends.

    Args:
        segment: Shared memory of the world.
        wait: The wait.
        awaited: All words, PE and offset, that a PE waits for.
    """
    found: list[Cause] = []
    words = [word for run in wait.runs for word in list(run.words())[:_WORDS]][:_WORDS]
    for run in words:
        there = int(run.values(segment, wait.pe)[0])
        if run.holds(there):
            continue
        name = name_of(segment, run.offset)
        written = last_written(segment, wait.pe, run.offset)
        word = _Word(wait.pe, run, name, there, written)
        clue = _of_value(word) if written is not None else _elsewhere(segment, word, awaited)
        if clue is not None:
            found.append(clue)
    return found


def read_clues(segment: Segment, wait: Wait) -> list[Cause]:
    """Return what points to the cause of a loop that reads the same words for ever, such as a kernel's.

    Args:
        segment: Shared memory of the world.
        wait: The wait, with the words that it reads.
    """
    for holder, offset, size, seen in wait.description.get("reads", ()):
        there = _bits(segment, holder, offset, size)
        if there != _cut(seen, size):
            continue
        for pe in segment.members(group_at(segment, offset)):
            other = _bits(segment, pe, offset, size)
            if pe != holder and other != there:
                text = (
                    f"PE {wait.pe} waits in {wait.call} for {name_of(segment, offset)} on PE {holder}, where {there} "
                    f"is, but at that place of PE {pe}'s heap is {other}: was it stored on the wrong PE?"
                )
                advice = "store flags in the memory of the PE that waits: look at the rank that the store or atomic operation is given"
                return [Cause(Kind.OTHER_PE, (wait.pe,), text, advice)]
    return []


def _bits(segment: Segment, pe: int, offset: int, size: int) -> int:
    start = segment.layout.heaps + pe * segment.layout.stride + offset
    return int.from_bytes(segment.bytes[start : start + size].tobytes(), "little", signed=True)


def _cut(bits: int, size: int) -> int:
    """Return the lowest bytes of a word as a signed number."""
    raw = (bits & (1 << 8 * size) - 1).to_bytes(size, "little")
    return int.from_bytes(raw, "little", signed=True)


# --- words that were written --------------------------------------------------------------------


def _of_value(word: _Word) -> Cause | None:
    assert word.written is not None
    return _cleared(word) or _overtaken(word) or _counted(word) or _other_value(word)


def _cleared(word: _Word) -> Cause | None:
    run, written, there = word.run, word.written, word.there
    assert written is not None
    last, before = written.last, written.before
    advice = "clear a word before its sender may signal again, or never: count upwards and wait with GE for the next number"
    if (
        last.pe == word.pe
        and before is not None
        and before.pe != word.pe
        and last.operation != "ADD"
    ):
        text = (
            f"{word.name} was signalled by {before}, and then {last}, which waits for it, wrote {there}: the signal "
            "is lost"
        )
        return Cause(Kind.CLEARED, (word.pe,), text, advice)
    value = written.value
    if (
        value is None
        or not run.holds(value)
        or run.cmp not in _UPWARD
        or not abs(there) < abs(value)
    ):
        return None
    text = (
        f"{word.name} held {value} after {last}, and holds {there} now: a plain store (.local[…] = {there}) set it "
        "back after the signal had come"
    )
    return Cause(Kind.CLEARED, (word.pe,), text, advice)


def _overtaken(word: _Word) -> Cause | None:
    run, there = word.run, word.there
    assert word.written is not None
    last = word.written.last
    if run.cmp != "EQ" or last.operation not in ("ADD", "SET") or there <= run.value:
        return None
    if last.operation == "SET":
        before = word.written.before
        if before is None or before.operation != "SET":
            return None
        text = f"{word.wanted}, but it is {there}: {last} came before the wait looked"
    else:
        text = f"{word.wanted}, but it is {there}: another ADD, {last}, came before the wait looked"
    return Cause(Kind.OVERTAKEN, (word.pe,), text, "wait with GE, or use one word for each sender")


def _counted(word: _Word) -> Cause | None:
    """Return what is wrong with a count that is not reached."""
    run, there = word.run, word.there
    assert word.written is not None
    last, before = word.written.last, word.written.before
    if run.cmp not in _UPWARD or not 0 < there < run.value + (run.cmp == "GT"):
        return None
    if last.operation == "ADD":
        text = f"{word.wanted}, but it is {there}: {last} came last, and no PE is left that could signal"
        return Cause(
            Kind.TOO_FEW,
            (word.pe,),
            text,
            "count the senders: the value must be the sum of what they add",
        )
    if last.operation == "SET" and (run.cmp != "EQ" or before is not None):
        others = f" after {before}" if before is not None else ""
        text = (
            f"{word.wanted}, a count, but {last} came last{others} and SET it to {there}: SET replaces what "
            "was there"
        )
        return Cause(
            Kind.SET_NOT_ADD, (word.pe,), text, "signal with op=AtomicOp.ADD where a wait counts"
        )
    return None


def _other_value(word: _Word) -> Cause | None:
    assert word.written is not None
    last = word.written.last
    if last.pe == word.pe and word.written.before is None:
        return None
    text = f"{word.wanted}, but it is {word.there}, written by {last}"
    return Cause(
        Kind.OTHER_VALUE,
        (word.pe,),
        text,
        "let sender and receiver agree on the value, or wait with NE or GE",
    )


# --- words that were written instead ------------------------------------------------------------


def _elsewhere(segment: Segment, word: _Word, awaited: Collection[tuple[int, int]]) -> Cause | None:
    """Return a signal that came to another word than the one which is waited for."""
    ranked: list[tuple[int, int, Cause]] = []
    table = segment.allocations
    used = np.flatnonzero(table["used"] == 1)
    mine = _array_at(table, used, word.run.offset)
    for written in all_written(segment):
        if (written.pe, written.offset) in awaited or written.value is None:
            continue
        if written.last.pe == written.pe or not word.run.holds(written.value):
            continue
        rank_and_cause = _difference(
            segment, word, written, mine, _array_at(table, used, written.offset)
        )
        if rank_and_cause is not None:
            distance = abs(written.offset - word.run.offset)
            ranked.append((rank_and_cause[0], distance, rank_and_cause[1]))
    return min(ranked, key=lambda each: each[:2])[2] if ranked else None


def _array_at(table: np.ndarray, used: np.ndarray, offset: int) -> int:
    """Return the index of the allocation at an offset of the heaps, or -1."""
    starts = table["offset"][used]
    inside = (starts <= offset) & (offset < starts + table["nbytes"][used])
    found = used[inside]
    return int(found[0]) if found.size else -1


def _difference(
    segment: Segment, word: _Word, written: Written, mine: int, other: int
) -> tuple[int, Cause] | None:
    table, name = segment.allocations, name_of(segment, written.offset)
    came = _came(written.last, written.value)
    if other < 0 or mine < 0:
        return None
    if other == mine and written.pe == word.pe:
        text = f"{word.wanted}, but {came} signalled {name} there: is the index right?"
        return 0, Cause(Kind.OTHER_INDEX, (word.pe,), text, "let sender and receiver use one index")
    if written.offset == word.run.offset:
        text = (
            f"{word.wanted}, but {came} signalled {name} on PE {written.pe}: is the target right?"
        )
        return 1, Cause(
            Kind.OTHER_PE,
            (word.pe,),
            text,
            "signal on the PE that waits; PE numbers count in the group of the array",
        )
    is_word = (
        table[other]["dtype"] == table[mine]["dtype"]
        and table[other]["group"] == table[mine]["group"]
    )
    if written.pe == word.pe and is_word:
        text = f"{word.wanted}, but {came} signalled {name}, another array"
        return 2, Cause(Kind.OTHER_ARRAY, (word.pe,), text, "let sender and receiver use one array")
    return None


def _came(writer: Writer, value: int | None) -> str:
    return f"PE {writer.pe} ({writer.operation}, to {value})"
