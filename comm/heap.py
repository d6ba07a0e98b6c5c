"""The symmetric heap: who has which part of the shared segment.

Allocation is symmetric but needs no barrier. The table lies in the control region, under a lock;
an entry is found by (group, key), where the key of a plain ``alloc`` is its number in the group.
Whoever comes first makes the entry, for all heaps at once, with the memory already clear; the others
find it and check that they mean the same. ``free`` counts down, and the last member's call gives the
memory back. So memory can never be used before it is valid on the target or after it has gone.

Memory is taken when touched. Where ``/dev/shm`` is nearly full, pages are reserved at allocation, so
that the lack of memory is an error there rather than a SIGBUS later.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from emu.comm import locks
from emu.comm.errors import ArgumentError, SymmetricMemoryError
from emu.comm.layout import (
    ALLOCATIONS,
    B_BLOCKS,
    B_HEAPS,
    B_LINK_BANDWIDTH,
    B_LINK_LATENCY,
    B_LINKS,
    B_LOCKS,
    B_N_PES,
    B_PE,
    B_PID,
    B_SEGMENT,
    B_SLICE_NS,
    B_SLICE_S,
    B_SPINS,
    B_STATE,
    B_STRIDE,
    B_WRITERS,
    B_YIELDS,
    BLOCK_BYTES,
    H_HIGH_WATER,
    H_LINK_BANDWIDTH,
    H_TABLE_LOCK,
    KEY_BYTES,
    MAX_RANK,
    PAGE,
    RUNNING,
    round_up,
)
from emu.comm.segment import Segment
from emu.kernels.dtypes import BFLOAT16, DTYPES

SLICE_NS = 50_000_000
"""Longest sleep before a waiter returns to Python."""

_PLENTY = 4
"""Reserve pages at allocation unless this many times the memory asked for is free."""


def register(segment: Segment, pe: int, cores: int) -> int:
    """Fill PE ``pe``'s block for this process and return its address, the ``me`` of every kernel."""
    layout, block, base = segment.layout, segment.block(pe), segment.address
    alone, link = layout.n_pes <= cores, segment.link
    for index, value in {
        B_PE: pe,
        B_N_PES: layout.n_pes,
        B_SEGMENT: base,
        B_HEAPS: base + layout.heaps,
        B_STRIDE: layout.stride,
        B_SPINS: 2000 if alone else 0,
        B_YIELDS: 4,
        B_SLICE_S: 0,
        B_SLICE_NS: SLICE_NS,
        B_BLOCKS: base + layout.blocks,
        B_LOCKS: base + layout.locks,
        B_WRITERS: base + layout.writers,
        B_LINKS: base + layout.links if link else 0,
        B_LINK_BANDWIDTH: segment.header[H_LINK_BANDWIDTH],  # the bits of a float64
        B_LINK_LATENCY: link.latency_ns if link else 0,
        B_PID: os.getpid(),
        B_STATE: RUNNING,
    }.items():
        block[index] = value
    return base + layout.blocks + pe * BLOCK_BYTES


class Heap:
    """One PE's handle on the allocation table."""

    def __init__(self, segment: Segment, me: int, pe: int, *, poison: bool) -> None:
        self.segment = segment
        self._me = me
        self._pe = pe
        self._poison = poison
        self._table = segment.allocations
        self._threads = threading.RLock()

    @contextlib.contextmanager
    def table_lock(self) -> Iterator[None]:
        """Hold the lock of the tables (allocations and groups)."""
        address = self.segment.address + 8 * H_TABLE_LOCK
        with self._threads:
            locks.acquire(self._me, address)
            try:
                yield
            finally:
                locks.release(address)

    def allocate(
        self,
        group: int,
        members: tuple[int, ...],
        key: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        name: str,
        *,
        poison: bool = True,
    ) -> int:
        """Find or make the allocation (group, key); return its index in the table.

        Raises:
            ArgumentError: Rank or key too large.
            SymmetricMemoryError: Members disagree, or there is no room.
        """
        if len(shape) > MAX_RANK:
            raise ArgumentError(f"shape must have at most {MAX_RANK} axes, but got {shape}")
        if len(key.encode()) > KEY_BYTES:
            raise ArgumentError(f"key must have at most {KEY_BYTES} bytes, but got {key!r}")
        k0, k1 = _digest(group, key)
        table = self._table
        with self.table_lock():
            same = (table["key0"] == k0) & (table["key1"] == k1) & (table["used"] == 1)
            found = np.flatnonzero(same)
            if found.size:
                index = int(found[0])
                self._check_agreement(index, shape, dtype, name)
                return index
            poison = poison and self._poison
            return self._make(group, members, key, (k0, k1), shape, dtype, name, poison)

    def _check_agreement(
        self, index: int, shape: tuple[int, ...], dtype: np.dtype[Any], name: str
    ) -> None:
        entry = self._table[index]
        there = tuple(int(n) for n in entry["shape"][: entry["rank"]])
        if there != shape or DTYPES[entry["dtype"]] != dtype:
            raise SymmetricMemoryError(
                f"symmetric allocation {name or entry['key'].decode()!r} must be the same on every "
                f"PE of the group, but PE {int(entry['creator'])} asked for shape {there} "
                f"{DTYPES[entry['dtype']]} and PE {self._pe} for shape {shape} {dtype}"
            )

    def _make(
        self,
        group: int,
        members: tuple[int, ...],
        key: str,
        digest: tuple[int, int],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        name: str,
        poison: bool,
    ) -> int:
        table = self._table
        free = np.flatnonzero(table["used"] == 0)
        if not free.size:
            raise SymmetricMemoryError(
                f"a world holds at most {ALLOCATIONS} symmetric allocations; free some first"
            )
        count = 1
        for extent in shape:
            count *= extent
        nbytes = count * dtype.itemsize
        offset = self._find_gap(nbytes)
        self._reserve(members, offset, nbytes)
        self._fill(members, offset, nbytes, dtype, poison)
        index = int(free[0])
        entry = table[index]
        entry["key0"], entry["key1"] = digest
        entry["offset"], entry["nbytes"] = offset, nbytes
        entry["group"], entry["refs"] = group, len(members)
        entry["dtype"], entry["rank"], entry["creator"] = DTYPES.index(dtype), len(shape), self._pe
        entry["shape"][: len(shape)] = shape
        entry["key"], entry["name"] = key.encode(), name.encode()[:64]
        entry["used"] = 1
        return index

    def _find_gap(self, nbytes: int) -> int:
        """First fit: the lowest offset where ``nbytes`` are free."""
        used = self._table[self._table["used"] == 1]
        order = np.argsort(used["offset"], kind="stable")
        align = 64 if nbytes < PAGE else PAGE
        position = 0
        for i in order:
            start = round_up(position, align)
            if start + nbytes <= int(used["offset"][i]):
                return start
            position = max(position, int(used["offset"][i]) + max(int(used["nbytes"][i]), 1))
        start = round_up(position, align)
        if start + nbytes > self.segment.layout.heap_bytes:
            raise SymmetricMemoryError(
                f"the symmetric heap has no {nbytes} bytes left in one piece: heap_size is "
                f"{self.segment.layout.heap_bytes} bytes a PE, {position} of them are behind the "
                "last allocation; free arrays or launch with a larger heap_size"
            )
        return start

    def _reserve(self, members: tuple[int, ...], offset: int, nbytes: int) -> None:
        """Make a full /dev/shm an error here instead of a SIGBUS at the first touch."""
        total = nbytes * len(members)
        available = self.segment.free_bytes()
        if total * _PLENTY <= available or not hasattr(os, "posix_fallocate"):
            return
        try:
            if total > available + self._already_backed(members, offset, nbytes):
                raise OSError("it would not fit")
            for pe in members:
                start = self.segment.layout.heaps + pe * self.segment.layout.stride + offset
                if nbytes:
                    os.posix_fallocate(self.segment.fd, start, nbytes)
        except OSError as error:
            raise SymmetricMemoryError(
                f"{total} bytes of symmetric memory ({nbytes} on each of {len(members)} PEs) must "
                f"fit in shared memory, but {available} bytes of it are free ({error}); use smaller "
                "arrays or fewer PEs, or enlarge /dev/shm (docker: --shm-size)"
            ) from error

    def _already_backed(self, members: tuple[int, ...], offset: int, nbytes: int) -> int:
        """Bytes of the range that earlier allocations may already have touched."""
        high = int(self.segment.header[H_HIGH_WATER])
        return max(0, min(offset + nbytes, high) - offset) * len(members)

    def _fill(
        self, members: tuple[int, ...], offset: int, nbytes: int, dtype: np.dtype[Any], poison: bool
    ) -> None:
        """Clear (or poison) the new memory on every member; what was never touched is clear."""
        layout, header = self.segment.layout, self.segment.header
        high = int(header[H_HIGH_WATER])
        header[H_HIGH_WATER] = max(high, offset + nbytes)
        dirty = nbytes if poison else max(0, min(offset + nbytes, high) - offset)
        for pe in members:
            start = layout.heaps + pe * layout.stride + offset
            if poison:
                self.segment.bytes[start : start + nbytes].view(dtype)[...] = poison_value(dtype)
            elif dirty:
                self.segment.bytes[start : start + dirty] = 0

    def release(self, index: int) -> None:
        """Count one member's ``free``; the last one gives the memory back."""
        with self.table_lock():
            entry = self._table[index]
            entry["refs"] -= 1
            if entry["refs"] == 0:
                entry["used"] = 0

    def find(self, group: int, prefix: str) -> list[int]:
        """Return the indices of a group's allocations whose key starts with ``prefix``."""
        table, start = self._table, prefix.encode()
        with self.table_lock():
            candidates = np.flatnonzero((table["used"] == 1) & (table["group"] == group))
            return [int(i) for i in candidates if table["key"][i].startswith(start)]

    def entry(self, index: int) -> tuple[int, tuple[int, ...], np.dtype[Any], str, str]:
        """Return (offset, shape, dtype, key, name) of an allocation."""
        entry = self._table[index]
        shape = tuple(int(n) for n in entry["shape"][: entry["rank"]])
        key, name = entry["key"].decode(errors="replace"), entry["name"].decode(errors="replace")
        return int(entry["offset"]), shape, DTYPES[entry["dtype"]], key, name


def poison_value(dtype: np.dtype[Any]) -> Any:
    """Return what poisoned memory holds: NaN, or 0xA5 in every byte, or True."""
    if dtype == BFLOAT16 or dtype.kind == "f":
        return np.array(np.nan, dtype)
    if dtype.kind == "b":
        return np.array(True)
    return np.frombuffer(b"\xa5" * dtype.itemsize, dtype)[0]


def _digest(group: int, key: str) -> tuple[int, int]:
    raw = hashlib.blake2b(f"{group}\0{key}".encode(), digest_size=16).digest()
    return int.from_bytes(raw[:8], "little", signed=True), int.from_bytes(
        raw[8:], "little", signed=True
    )


__all__ = ["SLICE_NS", "Heap", "poison_value", "register"]
