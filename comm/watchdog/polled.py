"""What a PE reads again and again by a call of this package, as it is noted in its block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emu.comm.layout import B_CALL_KIND, B_CALL_OFFSET, B_CALL_PE, B_CALL_SEEN, B_CALLS
from emu.comm.memory.segment import Segment
from emu.comm.watchdog.monitor import CALLS, name_of
from emu.comm.watchdog.writers import Writer, last_written


@dataclass(frozen=True)
class Polled:
    """A word that a PE reads again and again."""

    pe: int
    """World number of the PE that holds it."""
    offset: int
    name: str
    call: str
    """Name of the call that reads it."""
    there: int
    """The value that was read; of a get, 0."""
    last: Writer | None
    """Its last writer, if that is known."""
    members: tuple[int, ...]
    """World numbers of the PEs that share the array."""


def polled_words(segment: Segment, pe: int) -> Polled | None:
    """Return what a PE reads again and again; None: nothing that is known."""
    block = segment.block(pe)
    if not block[B_CALLS]:
        return None
    holder, offset, kind, there = (
        int(block[i]) for i in (B_CALL_PE, B_CALL_OFFSET, B_CALL_KIND, B_CALL_SEEN)
    )
    group = group_at(segment, offset)
    written = last_written(segment, holder, offset)
    return Polled(
        holder,
        offset,
        name_of(segment, offset),
        CALLS.get(kind >> 4, "a call"),
        there,
        None if written is None else written.last,
        segment.members(group),
    )


def group_at(segment: Segment, offset: int) -> int:
    """Return the group whose array lies at an offset of the heaps; the world where none is known."""
    table = segment.allocations
    inside = (table["offset"] <= offset) & (offset < table["offset"] + table["nbytes"])
    found = np.flatnonzero((table["used"] == 1) & inside)
    return int(table[int(found[0])]["group"]) if found.size else 0
