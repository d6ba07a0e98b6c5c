"""Memory of a block: where buffers lie in it, and when its threads must wait for each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from emu.tile.cuda.expressions import numba_name, register
from emu.tile.types import ScalarType

SHARED_BYTES = 48 << 10  # what every device grants without being asked
_ALIGNMENT = 8  # of the widest element, so that each view of shared memory divides evenly


@dataclass(frozen=True, eq=False)
class Registers:
    """A tile in the threads' registers: each has an array of its own elements."""

    name: str


@dataclass(frozen=True, eq=False)
class Buffer:
    """A tile in memory of the block.

    Attributes:
        shared: In shared memory; else in the block's part of a buffer in global memory.
        start: First byte.
        element: What its elements are.
        size: How many.
    """

    shared: bool
    start: int
    element: ScalarType
    size: int

    @property
    def itemsize(self) -> int:
        """Bytes of an element, which lies there as it is held in a register."""
        return register(self.element).bytes

    @property
    def end(self) -> int:
        """Byte behind the last."""
        return self.start + self.size * self.itemsize

    @property
    def view(self) -> str:
        """Name of the array over all shared memory with its elements."""
        return f"shared_{register(self.element)}"

    def _place(self, index: str) -> str:
        if self.shared:
            first = self.start // self.itemsize
            inside = index if first == 0 else (str(first) if index == "0" else f"{first} + {index}")
            return f"{self.view}[{inside}]"
        return f"address(scratch, {index}, {self.itemsize}) + {self.start}"

    def read(self, index: str) -> str:
        """Return the expression of an element."""
        place = self._place(index)
        return place if self.shared else f"load_{register(self.element)}({place})"

    def write(self, index: str, value: str) -> str:
        """Return the statement that writes an element."""
        place = self._place(index)
        if self.shared:
            return f"{place} = {value}"
        return f"store_{register(self.element)}({place}, {value})"

    def add(self, index: str, value: str) -> str:
        """Return the statement that adds to an element atomically."""
        place = self._place(index)
        if self.shared:
            first, _, inside = place.partition("[")
            return f"cuda.atomic.add({first}, {inside[:-1]}, {value})"
        return f"atomic_add_{register(self.element)}({place}, {value})"


class _Arena:
    """First fit: the lowest gap that is large enough."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.taken: list[tuple[int, int]] = []
        self.peak = 0

    def take(self, nbytes: int) -> int | None:
        start = 0
        for low, high in sorted(self.taken):
            if start + nbytes <= low:
                break
            start = high
        if start + nbytes > self.limit:
            return None
        self.taken.append((start, start + nbytes))
        self.peak = max(self.peak, start + nbytes)
        return start

    def give(self, start: int) -> None:
        self.taken = [t for t in self.taken if t[0] != start]


@dataclass
class Hazards:
    """Accesses to memory since the threads last waited for each other.

    A reader or writer is a buffer (or ``None``: any), with whether threads touched others' elements. A
    load or store is known by its tile of pointers (the thread that touches an address is then the
    same), or ``None``.
    """

    reads: set[tuple[Buffer | None, bool]] = field(default_factory=set)
    writes: set[Buffer | None] = field(default_factory=set)
    loads: set[object] = field(default_factory=set)
    stores: set[object] = field(default_factory=set)

    def copy(self) -> Hazards:
        """Return an equal state."""
        return Hazards(set(self.reads), set(self.writes), set(self.loads), set(self.stores))

    def join(self, other: Hazards) -> None:
        """Add the accesses of another path."""
        self.reads |= other.reads
        self.writes |= other.writes
        self.loads |= other.loads
        self.stores |= other.stores

    def clear(self) -> None:
        """Forget all accesses: the threads have waited."""
        for done in (self.reads, self.writes, self.loads, self.stores):
            done.clear()

    def read_conflict(self, buffer: Buffer, cross: bool) -> bool:
        """Return whether a read must wait."""
        return cross and any(_overlap(w, buffer) for w in self.writes)

    def write_conflict(self, buffer: Buffer) -> bool:
        """Return whether a write by each thread to its own elements must wait."""
        if any(w is not buffer and _overlap(w, buffer) for w in self.writes):
            return True
        return any(_overlap(r, buffer) and (cross or r is not buffer) for r, cross in self.reads)

    def load_conflict(self, pointers: object) -> bool:
        """Return whether a load must wait."""
        return _differs(self.stores, pointers)

    def store_conflict(self, pointers: object) -> bool:
        """Return whether a store must wait."""
        return _differs(self.loads | self.stores, pointers)


def _differs(done: Iterable[object], pointers: object) -> bool:
    # By identity: of one tile of pointers each element belongs to one thread, which needs no barrier with itself. Two
    # tiles with equal addresses may give them to different threads.
    return any(d is None or d is not pointers for d in done)


def _overlap(first: Buffer | None, second: Buffer) -> bool:
    if first is None:
        return True
    # By bytes, not by buffer: memory that was freed is used again while threads may still read it.
    if first.shared != second.shared:
        return False
    return first.start < second.end and second.start < first.end


class BlockMemory:
    """Allocator of buffers in shared memory, or in global memory if they do not fit."""

    def __init__(self) -> None:
        self._shared, self._scratch = _Arena(SHARED_BYTES), _Arena(float("inf"))
        self.views: dict[str, str] = {}

    @property
    def shared_bytes(self) -> int:
        """Most bytes of shared memory that were in use at once."""
        return self._shared.peak

    @property
    def scratch_bytes(self) -> int:
        """Most bytes of global memory that were in use at once."""
        return self._scratch.peak

    def take(self, element: ScalarType, size: int) -> Buffer:
        """Return a new buffer."""
        nbytes = -(-size * register(element).bytes // _ALIGNMENT) * _ALIGNMENT
        start = self._shared.take(nbytes)
        shared = start is not None
        if start is None:
            start = self._scratch.take(nbytes)
        assert start is not None
        buffer = Buffer(shared, start, element, size)
        if shared:
            self.views[buffer.view] = numba_name(element)
        return buffer

    def give(self, buffer: Buffer) -> None:
        """Free a buffer."""
        (self._shared if buffer.shared else self._scratch).give(buffer.start)
