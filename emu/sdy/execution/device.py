"""A PE as a device of a partitioned program."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from emu.comm.errors import SymmetricMemoryError
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.values import Array

if TYPE_CHECKING:  # they load Numba, and launchers import this, too
    from emu.comm.world.array import SymmetricArray
    from emu.comm.world.group import Group
    from emu.comm.world.world import World


class WorldDevice:
    """This PE: process number and PE number are the same.

    Attributes:
        n_replicas: Number of replicas.
        n_partitions: Number of partitions.
        process: Number of this PE.
    """

    def __init__(self, world: World, n_replicas: int, n_partitions: int) -> None:
        self.n_replicas = n_replicas
        self.n_partitions = n_partitions
        self.process = world.my_pe
        self._world = world

    def gather(self, value: Array, group: Sequence[int]) -> list[Array]:
        """Return the values of all members of a group, in its order."""
        if list(group) == [self.process]:
            return [value]
        rows = self.group(group).all_gather(_bytes(value))
        return [row.view(value.dtype).reshape(value.shape) for row in rows]

    def permute(self, value: Array, pairs: Sequence[tuple[int, int]]) -> Array | None:
        """Return what the source of this process sent, if it has one."""
        members = sorted({process for pair in pairs for process in pair})
        if self.process not in members:
            return None
        places = {process: place for place, process in enumerate(members)}
        moved = self.group(members).permute(
            _bytes(value), [(places[a], places[b]) for a, b in pairs]
        )
        if not any(target == self.process for _, target in pairs):
            return None
        return moved.view(value.dtype).reshape(value.shape)

    def group(self, members: Sequence[int]) -> Group:
        """Return the group of processes, in their order; this one is among them."""
        count = self.n_replicas * self.n_partitions
        if any(not 0 <= member < count for member in members):
            raise EvaluationError(f"a collective names processes {list(members)} of {count}")
        if list(members) == list(range(self._world.n_pes)):
            return self._world
        return self._world.group("sdy:" + _short(members), list(members))

    def shared_memory(self, nbytes: int) -> Array:
        """Return memory in the symmetric heap, which other PEs can use; every PE calls.

        It serves again when this device is gone. Where it would take more than a quarter of the heap, or
        the heap has no room, the memory is private: collectives then stage what lies there.
        """
        # The size is in the key: whatever each PE has given back until now, under one key all want the same.
        size = 1 << max(12, (nbytes - 1).bit_length())
        if not nbytes or size > self._world.segment.layout.heap_bytes // 4:
            return np.empty(nbytes + 64, np.uint8)
        pieces = _pieces.setdefault(self._world, {}).setdefault(size, _Pieces())
        if not pieces.free:
            key = f"sdy.buffers.{size}.{pieces.count}"
            try:
                found = self._world.alloc(size, np.uint8, key=key, name="buffers", poison=False)
            except SymmetricMemoryError:
                return np.empty(nbytes + 64, np.uint8)
            pieces.free.append(found)
            pieces.count += 1
        piece = pieces.free.pop()
        weakref.finalize(self, pieces.free.append, piece).atexit = False
        return piece.local[:nbytes]


@dataclass
class _Pieces:
    """The pieces of one size that this PE has in the heap of a world.

    They are never freed: that takes a lock, which garbage collection must not wait for.

    Attributes:
        count: How many there are.
        free: Those that no device uses.
    """

    count: int = 0
    free: list[SymmetricArray] = field(default_factory=list)


_pieces: WeakKeyDictionary[World, dict[int, _Pieces]] = WeakKeyDictionary()


def _bytes(value: Array) -> Array:
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)


def _short(members: Sequence[int]) -> str:
    """Return a name of at most 100 characters for a list of members."""
    text = ",".join(map(str, members))
    if len(text) <= 100:
        return text
    return hashlib.sha256(text.encode()).hexdigest()
