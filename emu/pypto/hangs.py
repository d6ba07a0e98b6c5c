"""Likely causes of a hang: the tiles that are missing, and the signals that came instead.

Nothing here runs before a wait has lasted a slice of sleep. Everything is read from the shared segment as
it stands, without locks, so that a report never changes or delays what other PEs wait for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from emu.comm.ops import Cmp
from emu.comm.world.current import places_of
from emu.pypto.context import CONTEXT
from emu.pypto.grids import Grid
from emu.pypto.shmem import Memory
from emu.pypto.symbolic import Shape

if TYPE_CHECKING:
    from emu.comm.world.array import SymmetricArray
    from emu.comm.world.group import Group

# --- slots in shared memory -------------------------------------------------------------------------


@dataclass(frozen=True)
class Slots:
    """Slots of a view and tile shape, as the allocation table of the segment lists them."""

    group: Group
    memory: str
    offset: int
    n_pes: int
    n_tiles: int
    low: Shape
    shape: Shape
    tile: Shape

    def rows(self, pe: int) -> npt.NDArray[np.int32]:
        """Return the current values of member ``pe``'s words, [src_pe][tile]."""
        segment = self.group.segment
        start = segment.layout.heaps + self.group.members[pe] * segment.layout.stride + self.offset
        count = self.n_pes * self.n_tiles
        words = segment.bytes[start : start + 4 * count].view(np.int32).copy()
        return words.reshape(self.n_pes, self.n_tiles)

    def writer(self, pe: int, row: int, tile: int) -> str:
        """Name the last writer of a word of member ``pe``."""
        from emu.comm.watchdog.monitor import last_writer  # needed by reports alone

        place = self.offset + 4 * (row * self.n_tiles + tile)
        return last_writer(self.group.segment, self.group.members[pe], place)

    @property
    def grid(self) -> Grid:
        """The tiles of the view."""
        return Grid(self.low, self.shape, self.tile)

    @property
    def view(self) -> str:
        """The view and the tile shape, in words."""
        if not self.shape:
            return f"{self.memory} (signals only)"
        return f"{self.memory} view {list(self.shape)} at {list(self.low)} in tiles of {list(self.tile)}"

    def show(self, pe: int, row: int) -> str:
        """Describe the values of a row and their last writer."""
        words = self.rows(pe)[row]
        found = np.flatnonzero(words)
        held = ", ".join(str(int(words[t])) for t in found[:4]) + ", …" * (len(found) > 4)
        if self.shape:
            some = "" if len(found) == self.n_tiles else f" ({self.grid.names(found.tolist())})"
            where = f"{len(found)} of {self.n_tiles} tiles{some} of src_pe {row} hold {held}"
        else:
            where = f"the slot of src_pe {row} holds {held}"
        return f"{where}, last writer: {self.writer(pe, row, int(found[0]))}"


def _slot_sets(group: Group) -> Iterator[Slots]:
    """Yield all slots of a group's symmetric tensors, also those that only others have used."""
    table = group.segment.allocations
    for i in np.flatnonzero((table["used"] == 1) & (table["group"] == group.index)):
        entry = table[i]
        key, name = (bytes(entry[k]).decode(errors="replace") for k in ("key", "name"))
        offset, (n_pes, n_tiles) = int(entry["offset"]), (int(n) for n in entry["shape"][:2])
        memory, _, kind = name.partition(".")
        if not memory.startswith("shmem"):
            continue
        if kind == "signals":
            yield Slots(group, memory, offset, n_pes, n_tiles, (), (), ())
        elif kind == "slots":
            try:
                low, shape, tile = (
                    tuple(int(n) for n in part.split(","))
                    for part in key.partition("/")[2].split("/")
                )
            except ValueError:  # cut off, or being written
                continue
            yield Slots(group, memory, offset, n_pes, n_tiles, low, shape, tile)


def slots_of(memory: Memory, words: SymmetricArray) -> Slots:
    """Return the slots that an array of words of ``memory`` stands for."""
    keys = [key for key, (array, _) in memory.slot_sets.items() if array is words]
    low, shape, tile = keys[0] if keys and keys[0] else ((), (), ())
    n_pes, n_tiles = words.shape
    return Slots(memory.group, memory.name, words.offset, n_pes, n_tiles, low, shape, tile)


# --- waits ------------------------------------------------------------------------------------------


class Expected(NamedTuple):
    """Condition on the slots of a wait."""

    cmp: Cmp
    value: int


def explain_wait(
    memory: Memory, words: SymmetricArray, missing: list[int], expected: Expected
) -> list[str]:
    """Return lines that name the missing tiles and what points to one cause or another.

    Args:
        memory: The symmetric tensor.
        words: The slots that are waited for, [src_pe][tile].
        missing: Indices of those that have not matched; all of one row.
        expected: Condition on them.
    """
    slots = slots_of(memory, words)
    n_tiles = slots.n_tiles
    row, tiles = missing[0] // n_tiles, [slot % n_tiles for slot in missing]
    me = memory.group.my_pe
    what = "tiles" if slots.shape else "slots"
    places = f": {slots.grid.describe(tiles)}" if slots.shape else ""
    lines = [f"{slots.view}, src_pe {row}: {len(tiles)} of {n_tiles} {what} missing{places}"]
    lines += _values(expected, slots, row, tiles)
    elsewhere = _unclaimed(slots, row)
    lines += elsewhere
    if len(lines) == 1 or not elsewhere:
        lines += _other_pes(slots, row, me, has_value=len(lines) > 1)
    return lines


def _values(expected: Expected, slots: Slots, row: int, tiles: list[int]) -> list[str]:
    """Explain what the slots waited for hold, one line for each kind."""
    group = slots.group
    words = slots.rows(group.my_pe)[row]
    seen: dict[str, str] = {}
    for tile in tiles:
        held, writer = int(words[tile]), slots.writer(group.my_pe, row, tile)
        text = _value(expected, held, writer)
        if text:
            seen.setdefault(text, f"{slots.grid.name(tile)}: {text}" if slots.shape else text)
    return list(seen.values())[:2]


def _value(expected: Expected, held: int, writer: str) -> str:
    if writer == "nobody" and not held:
        return ""
    if not held:
        return (
            f"its slot was written by {writer} and holds 0: an earlier wait with clear_signal or a "
            "shmem_clear_signal took the signal"
        )
    if expected.cmp is Cmp.EQ and held > expected.value and "ADD" in writer:
        return (
            f"its slot holds {held} and has passed {expected.value}, which EQ never matches again; {writer} "
            f"came last: wait for the sum of all ADDs, or clear the slot before it is used again"
        )
    if "SET" in writer and 0 < held < expected.value:
        return (
            f"its slot holds {held} where {expected.value} is wanted, and {writer} came last: SET replaces what "
            "others have signalled, sig_op=ADD counts them"
        )
    if "ADD" in writer and 0 < held < expected.value:
        return f"its slot holds {held} of {expected.value}, {writer} came last: signals are still missing"
    return f"its slot holds {held}, which is not {expected.cmp.name} {expected.value}; {writer} wrote it"


def _unclaimed(mine: Slots, row: int) -> list[str]:
    """Name signals that are here and that no wait of this PE is for: likely the missing ones."""
    group = mine.group
    me, claimed = group.my_pe, CONTEXT.lifetimes[group.name].claimed
    found: list[tuple[int, str]] = []
    for slots in _slot_sets(group):
        for other in np.flatnonzero(slots.rows(me).any(axis=1)).tolist():
            if (slots.offset, other) in claimed:
                continue
            rank, cause = _difference(mine, row, slots, other)
            text = f"{slots.view}: {slots.show(me, other)}; no wait of this PE asks for them"
            found.append((rank, f"{cause}; {text}"))
    return [text for _, text in sorted(found)][:3]


def _difference(mine: Slots, row: int, slots: Slots, other: int) -> tuple[int, str]:
    """Return how near the signals found are to those waited for (0: nearest), and the difference."""
    if slots.memory != mine.memory:
        return 5 if (slots.low, slots.shape) != (
            mine.low,
            mine.shape,
        ) else 4, f"signalled on another tensor, {slots.memory} instead of {mine.memory}"
    if slots.offset == mine.offset:
        return 1, f"signalled in a neighbouring slot, with src_pe={other} instead of {row}"
    if (slots.low, slots.shape) == (mine.low, mine.shape):
        return 0, (
            f"signalled in other tiles, of {list(slots.tile)} instead of {list(mine.tile)} (both sides must "
            f"set the same tile shape): a grid of {slots.grid} tiles where this wait looks at {mine.grid}"
        )
    if slots.low != mine.low:
        return 2, f"signalled at other offsets, {list(slots.low)} instead of {list(mine.low)}"
    return 3, f"signalled with another shape, {list(slots.shape)} instead of {list(mine.shape)}"


def _other_pes(slots: Slots, row: int, me: int, *, has_value: bool) -> list[str]:
    """Name the other PEs, if any, on which the same slots have been signalled."""
    group = slots.group
    here = _members_here(group)
    there = [pe for pe in here if pe != me and slots.rows(pe)[row].any()]
    if there:
        pes = f"PE{'s' * (len(there) > 1)} {', '.join(map(str, there))} of the group"
        shown = slots.show(there[0], row)
        return [f"the same slots were signalled on {pes} ({shown}), not here: look at target_pe"]
    if has_value:
        return []
    if len(here) < group.n_pes:
        return [
            "no PE has signalled these slots on any PE of this host; others cannot be looked at"
        ]
    return ["no PE has signalled these slots, neither here nor on another PE"]


def _members_here(group: Group) -> list[int]:
    """Return the members whose memory this PE can look at: those on its host."""
    places = places_of(group)
    return [pe for pe in range(group.n_pes) if places is None or group.members[pe] in places.local]


def explain_barrier(memory: Memory, word: SymmetricArray) -> list[str]:
    """Return lines that give the number of arrivals, here and at other barriers."""
    group = memory.group
    count = int(word.local[0])
    lines = [f"{memory.name}: {count} of {memory.n_pes} PEs of group {group.name!r} have arrived"]
    table = group.segment.allocations
    for i in np.flatnonzero((table["used"] == 1) & (table["group"] == group.index)):
        key = bytes(table["key"][i]).decode(errors="replace")
        offset = int(table["offset"][i])
        if not (key.startswith("=pypto") and key.endswith(".barrier")) or offset == word.offset:
            continue
        name = f"shmem{key[len('=pypto') : -len('.barrier')]}"
        start = (
            group.segment.layout.heaps + group.members[group.my_pe] * group.segment.layout.stride
        )
        there = int(group.segment.bytes[start + offset :][:4].view(np.int32)[0])
        if there:
            lines.append(f"{there} of {memory.n_pes} have arrived at the barrier of {name} instead")
    return lines
