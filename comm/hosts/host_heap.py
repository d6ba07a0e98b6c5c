"""``HostHeap``: the symmetric heaps of a host's PEs, as its agent allocates them for all hosts together."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from emu.comm.errors import ArgumentError
from emu.comm.hosts.places import Places
from emu.comm.layout import H_RESERVED, KEY_BYTES, MAX_RANK, SERVERS_NAME
from emu.comm.memory.group_table import find_or_make
from emu.comm.memory.heap import Heap
from emu.comm.memory.segment import Segment
from emu.comm.memory.table import digest
from emu.kernels.core.dtype_table import DTYPES


class HostHeap(Heap):
    """The table of allocations and groups of one host, in the hands of its agent.

    Args:
        segment: Shared memory of the host.
        me: Address of a block of the agent's.
        pe: The PE of that block.
        places: Where PEs are.
        poison: Whether new memory is poisoned.
    """

    def __init__(self, segment: Segment, me: int, pe: int, places: Places, *, poison: bool) -> None:
        super().__init__(segment, me, pe, poison=poison)
        self._places = places

    # --- what one host decides -------------------------------------------------------------

    def find_or_plan(self, pe: int, request: dict[str, Any]) -> tuple[int | None, dict[str, Any]]:
        """Return the number of the allocation that a request means; or None, and the fields of a new one.

        Raises:
            ArgumentError, SymmetricMemoryError: As of :meth:`Heap.allocate`.
        """
        group, key, shape = request["group"], request["key"], tuple(request["shape"])
        dtype = DTYPES[request["dtype"]]
        if len(shape) > MAX_RANK:
            raise ArgumentError(f"shape must have at most {MAX_RANK} axes, but got {shape}")
        if len(key.encode()) > KEY_BYTES:
            raise ArgumentError(f"key must have at most {KEY_BYTES} bytes, but got {key!r}")
        self._pe = pe  # on whose behalf: an error says who asked for what
        with self.table_lock():
            index = self._table.find(digest(group, key))
            if index is not None:
                self._check_agreement(index, shape, dtype, request["name"])
                return index, {}
            nbytes = math.prod(shape) * dtype.itemsize
            return None, {
                "offset": self._find_room(nbytes),
                "nbytes": nbytes,
                "group": group,
                "dtype": request["dtype"],
                "shape": shape,
                "key": key,
                "name": request["name"],
                "poison": request["poison"],
                "creator": pe,
            }

    # --- what all hosts do -----------------------------------------------------------------

    def make_ready(self, fields: dict[str, Any]) -> None:
        """Take and clear, or poison, the memory of an allocation to come on this host's members.

        Raises:
            SymmetricMemoryError: This host has not enough of it.
        """
        offset, nbytes = fields["offset"], fields["nbytes"]
        with self.table_lock():
            here = self._members_here(fields["group"])
            self._reserve(here, offset, nbytes)
            poison = fields["poison"] and self._poison
            # What servers read of each other lies in mirrors: an older allocation must not be seen there.
            is_read = fields["name"] == SERVERS_NAME
            filled = self.segment.members(fields["group"]) if is_read else here
            self._fill(filled, offset, nbytes, DTYPES[fields["dtype"]], poison)

    def enter(self, fields: dict[str, Any]) -> int:
        """Enter an allocation, whose memory all hosts have ready, in the table; return its number."""
        shape = tuple(fields["shape"])
        group, key = fields["group"], fields["key"]
        with self.table_lock():
            return self._table.add(
                digest(group, key),
                {
                    "offset": fields["offset"],
                    "nbytes": fields["nbytes"],
                    "group": group,
                    "refs": len(self.segment.members(group)),
                    "dtype": fields["dtype"],
                    "rank": len(shape),
                    "creator": fields["creator"],
                    "shape": (*shape, *(0,) * (MAX_RANK - len(shape))),
                    "key": key.encode(),
                    "name": fields["name"].encode()[:64],
                    "zones": 0,
                    "place": b"",
                },
            )

    def count_free(self, index: int) -> bool:
        """Count one member's free; return whether it was the last."""
        with self.table_lock():
            return self._drop(index)

    def forget(self, index: int) -> None:
        """Free an allocation that all members have freed."""
        with self.table_lock():
            self._table.entries[index]["refs"] = 1
            self._drop(index)

    def _drop(self, index: int) -> bool:
        entry = self._table.entries[index]
        offset, nbytes, group = (int(entry[name]) for name in ("offset", "nbytes", "group"))
        was_last = self._table.drop(index)
        if was_last and self.segment.header[H_RESERVED]:
            self._give_back(self._members_here(group), offset, nbytes)
        return was_last

    def group(self, name: str, members: tuple[int, ...] | None) -> tuple[int, tuple[int, ...]]:
        """Find or make a group; return its number and its members.

        Raises:
            UnknownGroupError, ArgumentError: As of :func:`find_or_make`.
        """
        with self.table_lock():
            return find_or_make(self.segment, name, members)

    def _members_here(self, group: int) -> tuple[int, ...]:
        return tuple(pe for pe in self.segment.members(group) if pe in self._places.local)


def dtype_number(dtype: np.dtype[np.generic]) -> int:
    """Return the number by which hosts tell each other a dtype of the heap."""
    return DTYPES.index(dtype)
