"""The events of all PEs as columns, and what their kinds do.

Internal: names may change in any release.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from emu.kernels.core.jit import jit
from emu.trace.errors import TraceFileError
from emu.trace.events import EVENT, Kind
from emu.trace.reading import Trace

Ints: TypeAlias = npt.NDArray[Any]

COMPUTE, COMMUNICATE, PREPARE, WAITING = 1, 2, 4, 8
"""What a PE does: bits, because its threads may do several at once."""
BUSY = COMPUTE | COMMUNICATE | PREPARE
ACTIVITIES = {
    Kind.LAUNCH: COMPUTE,
    Kind.OP: COMPUTE,
    Kind.PUT: COMMUNICATE,
    Kind.GET: COMMUNICATE,
    Kind.SIGNAL: COMMUNICATE,
    Kind.ATOMIC: COMMUNICATE,
    Kind.COLLECTIVE: COMMUNICATE,
    Kind.TURN: COMMUNICATE,
    Kind.COMPILE: PREPARE,
    Kind.TUNE: PREPARE,
    Kind.ALLOCATE: PREPARE,
    Kind.WAIT: WAITING,
    Kind.COMPLETE: WAITING,
    Kind.BARRIER: WAITING,
    Kind.LOCK: WAITING,
}
"""The bit of each kind; the others (RANGE, COUNTER, INSTANT) are no activity."""
N_KINDS = max(Kind) + 1
BIT_OF_KIND = np.array(
    [0 if kind == 0 else ACTIVITIES.get(Kind(kind), 0) for kind in range(N_KINDS)], np.uint8
)
LONGEST = 1 << 61
"""Clocks and durations stay below it, so that no sum of two of them overflows."""


@dataclass(frozen=True)
class Columns:
    """The events of all PEs, one PE after the other, each in the order of :class:`emu.trace.reading.Trace`.

    Attributes:
        first: Where each PE's events begin, and the number of all.
        first_site: The same of the PEs' sites.
        start: ns.
        end: ns.
        size: Bytes.
        flow: What belongs together; 0: nothing.
        kind: Kinds.
        thread: Threads.
        pe: Whose event it is.
        peer: The other PE; -1: none that the trace has.
        site: Number of the site among those of all PEs.
    """

    first: Ints
    first_site: Ints
    start: Ints
    end: Ints
    size: Ints
    flow: Ints
    kind: Ints
    thread: Ints
    pe: Ints
    peer: Ints
    site: Ints

    @property
    def n_pes(self) -> int:
        """Number of PEs."""
        return len(self.first) - 1

    @property
    def origin(self) -> int:
        """The first start of any event; 0 if there is none."""
        return int(self.start.min()) if len(self.start) else 0

    @property
    def elapsed(self) -> int:
        """Time from the first start to the last end."""
        return int(self.end.max()) - self.origin if len(self.start) else 0


def columns_of(trace: Trace) -> Columns:
    """Return the columns of a trace.

    Raises:
        TraceFileError: An event lies beyond any clock.
    """
    counts = [len(events) for events in trace.events]
    first = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    first_site = np.concatenate([[0], np.cumsum([len(s) for s in trace.sites], dtype=np.int64)])
    n = int(first[-1])
    made: dict[str, Ints] = {
        "start": np.empty(n, np.int64),
        "end": np.empty(n, np.int64),
        "size": np.empty(n, np.int64),
        "flow": np.empty(n, np.uint64),
        "kind": np.empty(n, np.uint8),
        "thread": np.empty(n, np.uint8),
        "pe": np.empty(n, np.int16),
        "peer": np.empty(n, np.int16),
        "site": np.empty(n, np.int64),
    }
    for pe, events in enumerate(trace.events):
        here = slice(int(first[pe]), int(first[pe + 1]))
        words = np.ascontiguousarray(events).view(np.int64).reshape(-1, _WORDS)
        wide = (made["start"][here], made["end"][here], made["size"][here], made["site"][here])
        narrow = (made["kind"][here], made["thread"][here])
        ends = _split(words, int(first_site[pe]), wide, narrow, made["peer"][here])
        made["flow"][here] = events["flow"]
        made["pe"][here] = pe
        _check_clock(pe, *map(int, ends))
    peer = made["peer"]
    peer[(peer < 0) | (peer >= trace.n_pes)] = -1
    return Columns(first=first, first_site=first_site, **made)


_WORDS = EVENT.itemsize // 8


@jit()
def _split(
    words: Ints, first_site: int, wide: tuple[Ints, ...], narrow: tuple[Ints, Ints], peers: Ints
) -> tuple[Any, Any, Any]:
    """Read records in one pass, as words of :data:`emu.trace.events.EVENT`.

    Returns:
        The first and the last start, and the longest duration.
    """
    starts, ends, sizes, sites = wide
    kinds, threads = narrow
    low = high = longest = np.int64(0)
    for i in range(len(words)):
        start, duration, last = words[i, 0], words[i, 1], words[i, 4]
        low, high, longest = min(low, start), max(high, start), max(longest, duration)
        starts[i], ends[i], sizes[i] = start, start + duration, words[i, 2]
        sites[i] = first_site + (last & 0xFFFFFFFF)
        kinds[i] = (last >> 32) & 0xFF
        threads[i] = (last >> 40) & 0xFF
        peers[i] = last >> 48
    return low, high, longest


def _check_clock(pe: int, low: int, high: int, longest: int) -> None:
    for name, least, values in (("start", -LONGEST, (low, high)), ("duration", 0, (longest,))):
        for value in values:
            if not least <= value < LONGEST:
                raise TraceFileError(
                    f"the trace has an event of PE {pe} whose {name} must be in {least}..{LONGEST - 1}, but got {value}"
                )
