"""The symmetric heap: allocation in the shared segment, the same on every PE.

Allocation is symmetric but needs no barrier. The table lies in the control region, under a lock;
an entry is found by (group, key), where the key of a plain ``alloc`` is its number in the group.
The first PE to come makes the entry, for all heaps at once, with the memory already clear; the others
find it and check that they mean the same. ``free`` counts down, and the last member's call gives the
memory back. So memory can never be used before it is valid on the target or after it has gone.

Memory is taken when touched. Where ``/dev/shm`` has little room, pages are taken at allocation,
so that a lack of memory is an error there rather than a SIGBUS later.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

import emu
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
    H_RESERVED,
    H_TABLE_LOCK,
    KEY_BYTES,
    LINE,
    MAX_RANK,
    PAGE,
    PLACE_NAME_BYTES,
    RUNNING,
    round_up,
)
from emu.comm.memory import zones
from emu.comm.memory.segment import Segment
from emu.comm.memory.table import Table, digest
from emu.comm.sync import locks
from emu.kernels.core import shadows
from emu.kernels.core.dtype_table import BFLOAT16, DTYPES

_FOLDERS = tuple(
    os.path.join(path, "")
    for path in {
        os.path.dirname(str(emu.__file__)),
        os.path.dirname(os.path.realpath(emu.__file__)),
    }
)
SLICE_NS = 50_000_000
"""Longest sleep before a waiter returns to Python."""

_PLENTY = 4
"""Take pages at allocation unless there is room for this many times all that was ever allocated."""


def register(segment: Segment, pe: int, cores: int, n_here: int = 0) -> int:
    """Fill PE ``pe``'s block for this process and return its address, the ``me`` of every kernel.

    Args:
        segment: Shared memory of the host.
        pe: Number of the PE.
        cores: Cores of the host; 0: this PE never spins.
        n_here: PEs that share them. Default: all.
    """
    layout, block, base = segment.layout, segment.block(pe), segment.address
    alone, link = (n_here or layout.n_pes) <= cores, segment.link
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
        self._table = Table(segment)
        self._threads = threading.RLock()

    @contextlib.contextmanager
    def table_lock(self) -> Iterator[None]:
        """Hold the lock of the tables (allocations and groups)."""
        address = self.segment.address + 8 * H_TABLE_LOCK
        with self._threads:
            locks.acquire(self._me, address)
            try:
                self._table.check()
                yield
            finally:
                locks.release(address)

    def allocate(
        self,
        group: int,
        members: tuple[int, ...],
        key: str,
        shape: tuple[int, ...],
        dtype: np.dtype[np.generic],
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
        found = digest(group, key)
        with self.table_lock():
            index = self._table.find(found)
            if index is not None:
                self._check_agreement(index, shape, dtype, name)
                return index
            nbytes = math.prod(shape) * dtype.itemsize
            offset = self._find_room(nbytes)
            # The entry comes last: whatever a member finds in the table is valid memory on every PE, and a
            # lack of pages is an error before anything has changed.
            self._reserve(members, offset, nbytes)
            self._fill(members, offset, nbytes, dtype, poison and self._poison)
            has_zones = self._make_zones(members, offset, nbytes)
            fields = {
                "offset": offset,
                "nbytes": nbytes,
                "group": group,
                "refs": len(members),
                "dtype": DTYPES.index(dtype),
                "rank": len(shape),
                "creator": self._pe,
                "shape": (*shape, *(0,) * (MAX_RANK - len(shape))),
                "key": key.encode(),
                "name": name.encode()[:64],
                "zones": has_zones,
                "place": shadows.caller(_FOLDERS).encode()[-PLACE_NAME_BYTES:]
                if has_zones
                else b"",
            }
            return self._table.add(found, fields)

    def _check_agreement(
        self, index: int, shape: tuple[int, ...], dtype: np.dtype[np.generic], name: str
    ) -> None:
        entry = self._table.entries[index]
        there = tuple(int(n) for n in entry["shape"][: entry["rank"]])
        if there != shape or DTYPES[entry["dtype"]] != dtype:
            raise SymmetricMemoryError(
                f"symmetric allocation {name or entry['key'].decode()!r} must be the same on every "
                f"PE of the group, but PE {int(entry['creator'])} asked for shape {there} "
                f"{DTYPES[entry['dtype']]} and PE {self._pe} for shape {shape} {dtype}"
            )

    def _find_room(self, nbytes: int) -> int:
        """Return the lowest offset where ``nbytes`` are free (first fit); 0 for no bytes."""
        table = self._table
        if table.full:
            raise SymmetricMemoryError(
                f"a world holds at most {ALLOCATIONS} symmetric allocations, and all of them are in "
                "use; free some, or allocate one large array and use parts of it"
            )
        if not nbytes:
            return 0
        align = (
            LINE if nbytes < PAGE else PAGE
        )  # large arrays own whole pages, which can be given back
        offset = table.gap(nbytes, align)
        if offset is None:
            aligned = any(end - start >= nbytes for start, end in table.gaps())
            hint = f" (at an offset that is a multiple of {PAGE})" if aligned else ""
            raise self.no_room(nbytes, hint)
        return offset

    def no_room(self, nbytes: int, hint: str = "") -> SymmetricMemoryError:
        """Return the error of an array that does not fit."""
        return SymmetricMemoryError(
            f"the symmetric heap has no {nbytes} bytes left in one piece{hint}: "
            f"{self._table.describe()}; free arrays or launch with a larger heap_size"
        )

    def room(self) -> int:
        """Return how many bytes the largest array may have now whose pages need not be taken at once.

        Less than that may be left when it is allocated, if other groups allocate meanwhile.
        """
        layout, table = self.segment.layout, self._table
        backed = max(0, self.segment.backed_bytes() - layout.control_bytes)
        limit = (self.segment.free_bytes() + backed) // (layout.n_pes * _PLENTY)
        with self.table_lock():
            end = max(int(self.segment.header[H_HIGH_WATER]), limit)
            fits, too_many = 0, min(layout.heap_bytes, end) // PAGE + 1  # pages
            while too_many - fits > 1:
                pages = (fits + too_many) // 2
                offset = table.gap(pages * PAGE, PAGE)
                if offset is not None and offset + pages * PAGE <= end:
                    fits = pages
                else:
                    too_many = pages
        return fits * PAGE

    # --- pages -----------------------------------------------------------------------------

    def _reserve(self, members: tuple[int, ...], offset: int, nbytes: int) -> None:
        """Make a full /dev/shm an error here instead of a SIGBUS at the first touch.

        Where there is plenty, pages come when they are touched. Otherwise those of all existing arrays are
        taken first, and from then on those of each new one.
        """
        if not nbytes or not hasattr(os, "posix_fallocate"):
            return
        segment, header = self.segment, self.segment.header
        layout, free = segment.layout, segment.free_bytes()
        backed = max(0, segment.backed_bytes() - layout.control_bytes)
        high = max(int(header[H_HIGH_WATER]), offset + nbytes)
        if round_up(high, PAGE) * layout.n_pes * _PLENTY <= free + backed:
            header[H_RESERVED] = 0
            return
        total = nbytes * len(members)
        try:
            if total > free + self._already_backed(members, offset, nbytes):
                raise OSError("it would not fit")
            if not header[H_RESERVED]:
                for index in self._table.used():
                    entry = self._table.entries[index]
                    there = self.segment.members(int(entry["group"]))
                    self._back(there, int(entry["offset"]), int(entry["nbytes"]))
                header[H_RESERVED] = 1
            self._back(members, offset, nbytes)
        except OSError as error:
            self._give_back(members, offset, nbytes)
            raise SymmetricMemoryError(
                f"{total} bytes of symmetric memory ({nbytes} on each of {len(members)} PEs) must "
                f"fit in shared memory, but {free} bytes of it are free ({error}); use smaller "
                "arrays or fewer PEs, or enlarge /dev/shm (docker: --shm-size)"
            ) from error

    def _already_backed(self, members: tuple[int, ...], offset: int, nbytes: int) -> int:
        """Return the bytes of the range that earlier allocations may already have touched."""
        high = round_up(int(self.segment.header[H_HIGH_WATER]), PAGE)
        return max(0, min(offset + nbytes, high) - offset) * len(members)

    def _back(self, members: tuple[int, ...], offset: int, nbytes: int) -> None:
        """Take the pages of a range on each member."""
        layout = self.segment.layout
        for pe in members:
            if nbytes:
                start = layout.heaps + pe * layout.stride + offset
                os.posix_fallocate(self.segment.fd, start, nbytes)

    def _give_back(self, members: tuple[int, ...], offset: int, nbytes: int) -> None:
        """Give the pages that lie wholly in a free range back to the system."""
        layout = self.segment.layout
        first, last = round_up(offset, PAGE), (offset + nbytes) // PAGE * PAGE
        for pe in members:
            if first < last:
                start = layout.heaps + pe * layout.stride + first
                self.segment.discard(start, last - first)

    def _fill(
        self,
        members: tuple[int, ...],
        offset: int,
        nbytes: int,
        dtype: np.dtype[np.generic],
        poison: bool,
    ) -> None:
        """Clear (or poison) the new memory on every member; memory that was never touched is clear."""
        layout, header = self.segment.layout, self.segment.header
        high = int(header[H_HIGH_WATER])
        header[H_HIGH_WATER] = max(high, offset + nbytes)
        dirty = nbytes if poison else max(0, min(offset + nbytes, high) - offset)
        for pe in members:
            start = layout.heaps + pe * layout.stride + offset
            if poison and shadows.are_kept():
                shadows.fill(self.segment.bytes[start : start + nbytes])
            elif poison:
                self.segment.bytes[start : start + nbytes].view(dtype)[...] = poison_value(dtype)
            elif dirty:
                self.segment.bytes[start : start + dirty] = 0

    def _make_zones(self, members: tuple[int, ...], offset: int, nbytes: int) -> bool:
        """Write red zones around new memory, where pages are plenty; return whether there are some."""
        segment, header = self.segment, self.segment.header
        if not segment.layout.zones or not nbytes or header[H_RESERVED]:
            return False
        zones.write(segment, members, offset, nbytes)
        _, end = zones.extent(segment.layout, offset, nbytes)
        header[H_HIGH_WATER] = max(int(header[H_HIGH_WATER]), end)
        return True

    def track(self, index: int) -> None:
        """Where shadows are kept, note that this PE's part of an allocation that was poisoned is unwritten.

        Other PEs may write it at any time; what they write is found by its contents.
        """
        if self._poison and shadows.are_kept():
            entry = self._table.entries[index]
            site = shadows.caller(_FOLDERS)
            start = self._own_address(int(entry["offset"]))
            shadows.track(start, int(entry["nbytes"]), site, is_shared=True, is_filled=True)

    def _own_address(self, offset: int) -> int:
        layout = self.segment.layout
        return self.segment.address + layout.heaps + self._pe * layout.stride + offset

    def release(self, index: int) -> None:
        """Count one member's ``free``; the last one gives the memory back."""
        shadows.forget(self._own_address(int(self._table.entries[index]["offset"])))
        damages: list[zones.Damage] = []
        with self.table_lock():
            entry = self._table.entries[index]
            members = self.segment.members(int(entry["group"]))
            if entry["refs"] == 1:
                damages += zones.find_damage(self.segment, self._table, members, index)
            if self._table.drop(index) and self.segment.header[H_RESERVED]:
                self._give_back(members, int(entry["offset"]), int(entry["nbytes"]))
        zones.report(damages)

    def find(self, group: int, prefix: str) -> list[int]:
        """Return the indices of a group's allocations whose key starts with ``prefix``."""
        start = prefix.encode()
        with self.table_lock():
            entries = self._table.entries
            groups, keys = entries["group"], entries["key"]
            return [
                index
                for index in self._table.used()
                if groups[index] == group and keys[index].startswith(start)
            ]

    def find_span(self, address: int) -> tuple[int, int] | None:
        """Return the first address of the allocation that an address lies in, and the one behind it.

        None if the address is not in symmetric memory. Between allocations the span is empty.
        """
        layout, at = self.segment.layout, address - self.segment.address - self.segment.layout.heaps
        if not 0 <= at < layout.stride * layout.n_pes:
            return None
        heap, offset = address - at % layout.stride, at % layout.stride
        with self.table_lock():
            entry = self._entry_at(offset)
            if entry is None:
                return address, address
            start = heap + int(entry["offset"])
            return start, start + int(entry["nbytes"])

    def name_at(self, offset: int) -> str:
        """Return what reports call the allocation that an offset lies in; empty if it lies in none."""
        with self.table_lock():
            entry = self._entry_at(offset)
            return "" if entry is None else str(entry["name"].decode(errors="replace"))

    def _entry_at(self, offset: int) -> Any:
        """Return the allocation that an offset lies in, None if it lies in none; the table's lock is held."""
        for index in self._table.used():
            entry = self._table.entries[index]
            if 0 <= offset - int(entry["offset"]) < int(entry["nbytes"]):
                return entry
        return None

    def describe_spans(self) -> list[tuple[int, int, str]]:
        """Return address, bytes and description of each array on each member, for reports.

        The table is read without its lock: who reports may have been interrupted while holding it.
        """
        layout, found = self.segment.layout, []
        for index in self._table.used():
            entry = self._table.entries[index]
            for pe in self.segment.members(int(entry["group"])):
                start = self.segment.address + layout.heaps + pe * layout.stride
                text = f"symmetric array {self._table.describe_array(index)} of PE {pe}"
                found.append((start + int(entry["offset"]), int(entry["nbytes"]), text))
        return found

    def spans(self) -> list[tuple[int, int]]:
        """Return the first address of each allocation in the heap of each PE, and the one behind it."""
        layout = self.segment.layout
        heaps = self.segment.address + layout.heaps
        with self.table_lock():
            entries = [self._table.entries[index] for index in self._table.used()]
            found = [(int(e["offset"]), int(e["nbytes"])) for e in entries]
        return [
            (heaps + pe * layout.stride + offset, heaps + pe * layout.stride + offset + nbytes)
            for offset, nbytes in found
            for pe in range(layout.n_pes)
        ]

    def entry(self, index: int) -> tuple[int, tuple[int, ...], np.dtype[np.generic], str, str]:
        """Return (offset, shape, dtype, key, name) of an allocation."""
        entry = self._table.entries[index]
        shape = tuple(int(n) for n in entry["shape"][: entry["rank"]])
        key, name = entry["key"].decode(errors="replace"), entry["name"].decode(errors="replace")
        return int(entry["offset"]), shape, DTYPES[entry["dtype"]], key, name


def poison_value(dtype: np.dtype[np.generic]) -> Any:
    """Return the value of poisoned memory: NaN, or 0xA5 in every byte, or True."""
    if dtype == BFLOAT16 or dtype.kind == "f":
        return np.array(np.nan, dtype)
    if dtype.kind == "b":
        return np.array(True)
    return np.frombuffer(b"\xa5" * dtype.itemsize, dtype)[0]
