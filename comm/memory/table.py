"""The table of symmetric allocations in shared memory, with indices that make lookups fast.

The entries are the truth: an entry holds an array if it is ``used``. Beside them lie, for the lock's owner:

* *buckets*: heads of chains through the entries, by key, so that an array is found without a search;
* the *top* of all entries that were ever used, and a chain of those that are free again;
* the *gaps*: the free pieces of the heaps, in order. Sizes are rounded up to 64 bytes, to which every
  array is aligned, so that no piece is too small for an array.

All this follows from the entries. A word in the header says whether it does so now: it is 0 in a new
segment and while a change is under way. A PE that takes the lock and finds 0, after a process that died
or was interrupted in the middle, rebuilds everything.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from emu.comm.arrays import Array
from emu.comm.layout import (
    ALLOCATIONS,
    BUCKETS,
    H_FREE_ENTRY,
    H_GAPS,
    H_TABLE_GOOD,
    H_TABLE_TOP,
    LINE,
    round_up,
    zone_behind,
)
from emu.comm.memory.segment import Segment
from emu.kernels.core.dtype_table import DTYPES

Digest = tuple[int, int]

_BUCKETS = BUCKETS - 1


def digest(group: int, key: str) -> Digest:
    """Return two words that stand for a key in a group."""
    raw = hashlib.blake2b(f"{group}\0{key}".encode(), digest_size=16).digest()
    low, high = raw[:8], raw[8:]
    return int.from_bytes(low, "little", signed=True), int.from_bytes(high, "little", signed=True)


class Table:
    """One process's handle; every method but the constructor is called under the table's lock."""

    def __init__(self, segment: Segment) -> None:
        layout = segment.layout
        self._header = segment.header
        self._heap_bytes, self._room = layout.heap_bytes, layout.heap_room
        self._zones = layout.zones
        self.entries = segment.allocations
        self._key0, self._key1 = self.entries["key0"], self.entries["key1"]
        self._used, self._next = self.entries["used"], self.entries["next"]

        def words(start: int, dtype: Any, count: int) -> Array:
            nbytes = count * np.dtype(dtype).itemsize
            return segment.bytes[start : start + nbytes].view(dtype)

        self._buckets = words(layout.buckets, np.int32, BUCKETS)
        gaps = words(layout.gaps, np.int64, 2 * (ALLOCATIONS + 1)).reshape(2, -1)
        self._starts, self._ends = gaps

    # --- agreement of the parts ------------------------------------------------------------

    def check(self) -> None:
        """Rebuild the indices from the entries, unless they are in order."""
        if not self._header[H_TABLE_GOOD]:
            self._rebuild()
            self._header[H_TABLE_GOOD] = 1

    @contextlib.contextmanager
    def _change(self) -> Iterator[None]:
        self._header[H_TABLE_GOOD] = 0
        yield
        self._header[H_TABLE_GOOD] = 1

    def _rebuild(self) -> None:
        entries, header = self.entries, self._header
        entries["used"][entries["refs"] <= 0] = 0  # the last free was interrupted
        used = np.flatnonzero(self._used == 1)
        top = int(used[-1]) + 1 if used.size else 0
        self._buckets[:] = 0
        for index in used.tolist():
            self._link(index)
        header[H_TABLE_TOP], header[H_FREE_ENTRY] = top, 0
        for index in np.flatnonzero(self._used[:top] == 0)[::-1].tolist():
            self._next[index], header[H_FREE_ENTRY] = header[H_FREE_ENTRY], index + 1
        header[H_GAPS], self._starts[0], self._ends[0] = 1, 0, self._room
        for index in used.tolist():
            self._take(*self._span(index))

    # --- entries by key --------------------------------------------------------------------

    def find(self, key: Digest) -> int | None:
        """Return the index of the array with this key, or None."""
        link = int(self._buckets[key[0] & _BUCKETS])
        while link:
            index = link - 1
            if self._key0[index] == key[0] and self._key1[index] == key[1]:
                return index
            link = int(self._next[index])
        return None

    def _link(self, index: int) -> None:
        bucket = int(self._key0[index]) & _BUCKETS
        self._next[index] = self._buckets[bucket]
        self._buckets[bucket] = index + 1

    def _unlink(self, index: int) -> None:
        bucket = int(self._key0[index]) & _BUCKETS
        link, after = int(self._buckets[bucket]), int(self._next[index])
        if link == index + 1:
            self._buckets[bucket] = after
            return
        while self._next[link - 1] != index + 1:
            link = int(self._next[link - 1])
        self._next[link - 1] = after

    def used(self) -> list[int]:
        """Return the indices of all arrays."""
        return np.flatnonzero(self._used[: int(self._header[H_TABLE_TOP])]).tolist()

    # --- coming and going ------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """Whether no entry is free."""
        return not self._header[H_FREE_ENTRY] and self._header[H_TABLE_TOP] >= ALLOCATIONS

    def add(self, key: Digest, fields: dict[str, Any]) -> int:
        """Take a free entry and the memory of an array; return the entry's index."""
        header = self._header
        with self._change():
            free = int(header[H_FREE_ENTRY])
            if free:
                index = free - 1
                header[H_FREE_ENTRY] = self._next[index]
            else:
                index = int(header[H_TABLE_TOP])
                header[H_TABLE_TOP] += 1
            entry = self.entries[index]
            entry["key0"], entry["key1"] = key
            for name, value in fields.items():
                entry[name] = value
            self._link(index)
            self._take(*self._span(index))
            entry["used"] = 1  # last: until then the entry is free for whoever rebuilds the table
        return index

    def drop(self, index: int) -> bool:
        """Count one member's free; return whether it was the last, which frees the memory."""
        entry = self.entries[index]
        if entry["refs"] > 1:
            entry["refs"] -= 1
            return False
        with self._change():
            entry["refs"], entry["used"] = 0, 0
            self._unlink(index)
            self._next[index], self._header[H_FREE_ENTRY] = self._header[H_FREE_ENTRY], index + 1
            self._give(*self._span(index))
        return True

    # --- free memory -----------------------------------------------------------------------

    def _span(self, index: int) -> tuple[int, int]:
        entry = self.entries[index]
        start, nbytes = int(entry["offset"]), int(entry["nbytes"])
        if not nbytes or not self._zones:
            return start, min(round_up(start + nbytes, LINE), self._room)
        return start - LINE, round_up(start + nbytes + zone_behind(nbytes), LINE)

    def gap(self, nbytes: int, align: int) -> int | None:
        """Return the lowest aligned offset with that many free bytes, or None."""
        if nbytes > self._heap_bytes:
            return None
        front = behind = 0
        if self._zones:
            if not self._has_room(nbytes):
                return None
            front, behind = LINE, zone_behind(nbytes)
        count = int(self._header[H_GAPS])
        starts = -(-(self._starts[:count] + front) // align) * align
        fits = starts + nbytes + behind <= self._ends[:count]
        first = int(fits.argmax()) if count else 0
        return int(starts[first]) if count and fits[first] else None

    def _has_room(self, nbytes: int) -> bool:
        """Return whether ``heap_size`` allows an array, wherever it may lie."""
        count = int(self._header[H_GAPS])
        free = int(self._ends[count - 1] - self._starts[count - 1]) if count else 0
        # What is taken with all zones is more than what counts: nearly always this settles it.
        if self._room - free + nbytes <= self._heap_bytes:
            return True
        return self._taken() + nbytes <= self._heap_bytes

    def _taken(self) -> int:
        """Return the bytes of all arrays, in lines, without zones."""
        top = int(self._header[H_TABLE_TOP])
        nbytes = self.entries["nbytes"][:top][self._used[:top] != 0]
        return int((-(-nbytes // LINE) * LINE).sum())

    def _pieces(self) -> list[int]:
        """Return how many bytes an array can take of each free piece."""
        sizes = [end - start for start, end in self.gaps()]
        if not self._zones:
            return sizes
        free = self._heap_bytes - self._taken()
        return [min(free, s - LINE - zone_behind(s)) for s in sizes if s > LINE + zone_behind(s)]

    def gaps(self) -> list[tuple[int, int]]:
        """Return (start, end) of each free piece."""
        count = int(self._header[H_GAPS])
        return list(zip(self._starts[:count].tolist(), self._ends[:count].tolist(), strict=True))

    def _take(self, start: int, end: int) -> None:
        """Take a piece out of the gap that it lies in."""
        if start == end:
            return
        starts, ends, count = self._starts, self._ends, int(self._header[H_GAPS])
        at = int(starts[:count].searchsorted(start, "right")) - 1
        if starts[at] < start and end < ends[at]:
            self._move(at + 1, 1)
            starts[at + 1], ends[at + 1], ends[at] = end, ends[at], start
        elif starts[at] < start:
            ends[at] = start
        elif end < ends[at]:
            starts[at] = end
        else:
            self._move(at + 1, -1)

    def _give(self, start: int, end: int) -> None:
        """Make a piece free, joined with those beside it."""
        if start == end:
            return
        starts, ends, count = self._starts, self._ends, int(self._header[H_GAPS])
        at = int(starts[:count].searchsorted(start))
        before, behind = at > 0 and ends[at - 1] == start, at < count and starts[at] == end
        if before and behind:
            ends[at - 1] = ends[at]
            self._move(at + 1, -1)
        elif before:
            ends[at - 1] = end
        elif behind:
            starts[at] = start
        else:
            self._move(at, 1)
            starts[at], ends[at] = start, end

    def _move(self, at: int, by: int) -> None:
        """Move the gaps from number ``at`` on by one."""
        count = int(self._header[H_GAPS])
        for words in (self._starts, self._ends):
            words[at + by : count + by] = words[at:count].copy()
        self._header[H_GAPS] = count + by

    # --- reports ---------------------------------------------------------------------------

    def describe(self) -> str:
        """Describe how much of the heaps is taken, by which arrays, and how much is free in which pieces."""
        gaps = self._pieces()
        used = self.used()
        sizes = {index: int(self.entries["nbytes"][index]) for index in used}
        largest = sorted(used, key=lambda index: -sizes[index])[:3]
        by = ", ".join(f"{self.label(i)!r} of {sizes[i]}" for i in largest if sizes[i])
        free = self._heap_bytes - self._taken() if self._zones else sum(gaps)
        pieces = f"in {len(gaps)} pieces, the largest of {max(gaps, default=0)}"
        return (
            f"heap_size is {self._heap_bytes} bytes a PE, {self._heap_bytes - free} of them are taken by "
            f"{_arrays(len(used))}" + (f" (the largest: {by})" if by else "") + f", {free} are free "
            + (pieces if len(gaps) > 1 else "in one piece" if gaps else "")
        ).rstrip()  # fmt: skip

    def label(self, index: int) -> str:
        """Return an array's name, else its key."""
        entry = self.entries[index]
        text = (entry["name"] or entry["key"]).decode(errors="replace")
        shape = tuple(int(n) for n in entry["shape"][: entry["rank"]])
        return (
            text if entry["name"] or text.startswith("=") else f"{shape} {DTYPES[entry['dtype']]}"
        )

    def describe_array(self, index: int) -> str:
        """Return an array's name, shape, dtype, size, and where it was allocated."""
        entry = self.entries[index]
        shape = tuple(int(n) for n in entry["shape"][: entry["rank"]])
        name = entry["name"].decode(errors="replace")
        place = entry["place"].decode(errors="replace")
        text = f"{shape} of {DTYPES[entry['dtype']]}, {int(entry['nbytes'])} bytes"
        at = f", allocated at {place}" if place else ""
        return f"{name!r} ({text}{at})" if name else f"without a name ({text}{at})"


def _arrays(count: int) -> str:
    return f"{count} array" + "s" * (count != 1)
