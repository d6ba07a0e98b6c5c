"""``Allocation``: the symmetric arrays of a group, allocated, found by name and freed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from emu.comm.errors import ArgumentError, SymmetricMemoryError
from emu.comm.layout import KEY_BYTES
from emu.comm.world.array import ArrayGroup, SymmetricArray, symmetric
from emu.comm.world.checks import check, extents_of
from emu.comm.world.membership import Identity
from emu.kernels.core.dtypes import DTYPES, KINDS

_logger = logging.getLogger("emu.comm")


class Allocation(ArrayGroup):
    """A group whose members allocate symmetric arrays."""

    _array_type: type[SymmetricArray] = SymmetricArray

    def __init__(self, identity: Identity) -> None:
        super().__init__(identity)
        self._allocated = 0
        self._by_key: dict[str, SymmetricArray] = {}
        self._keys: dict[int, str] = {}  # of the same arrays, by their place in the table

    def route(self, array: SymmetricArray, pe: int, name: str = "array") -> int:
        """Return the world number of member ``pe`` after checking that it holds ``array``."""
        symmetric(name, array).check_alive()
        world_pe = self.world_pe(pe)
        if array.group is self:
            return world_pe
        if array.group.segment is not self.segment:
            raise ArgumentError(f"{name} must be of this world, but got {array!r} of another one")
        if world_pe not in array.group.member_set:
            raise ArgumentError(
                f"pe must hold {name}, {array!r} of group {array.group.name!r}, but PE {pe} of "
                f"group {self.name!r} (world PE {world_pe}) is not a member of it"
            )
        return world_pe

    def alloc(
        self,
        shape: int | Sequence[int],
        dtype: Any,
        *,
        name: str = "",
        key: str | None = None,
        poison: bool = True,
    ) -> SymmetricArray:
        """Allocate a symmetric array; every member calls it with the same arguments.

        There is no barrier in it: the first member to come allocates for all, so the memory is valid,
        and clear, on every PE when any call returns.

        Args:
            shape: Extent along each axis, at most 8; extents of 0 are allowed.
            dtype: bool, int8 to int64, uint8 to uint64, float16, bfloat16, float32 or float64.
            name: What reports call it.
            key: Calls match by their order in the group; with ``key`` they match by it instead, and
                a second call with the key of a live array returns that array.
            poison: False has it zeroed even in a world launched with ``poison=True``: for signals,
                whose meaning starts at zero.

        Returns:
            The array, zeroed (or poisoned, where the world was launched so), aligned to 64 bytes.

        Raises:
            ArgumentError: A bad shape, dtype or key.
            SymmetricMemoryError: No room, or members asked for different arrays.
        """
        kind = check.dtype("dtype", dtype)
        if kind not in KINDS:
            known = ", ".join(str(d) for d in DTYPES)
            raise ArgumentError(f"dtype must be one of {known}, but got {kind}")
        extents = extents_of(shape, kind.itemsize)
        check.text("name", name)
        poison = check.flag("poison", poison)
        if key is not None:
            key = check.text("key", key, KEY_BYTES - 1)
        if key is not None and key in self._by_key:
            known_array = self._by_key[key]
            if known_array.shape != extents or known_array.dtype != kind:
                raise SymmetricMemoryError(
                    f"key {key!r} names {known_array!r}, but shape {extents} {kind} was asked for"
                )
            return known_array
        label = f"#{self._allocated}" if key is None else f"={key}"
        self._allocated += key is None  # the call has its number, whether there is room or not
        index = self._allocate(label, extents, kind, name, poison=poison)
        if poison:
            self.heap.track(index)
        array = self._open(index)
        if key is not None:
            self._remember(key, array)
        return array

    def _allocate(
        self,
        label: str,
        extents: tuple[int, ...],
        kind: np.dtype[np.generic],
        name: str,
        *,
        poison: bool,
    ) -> int:
        """Return the number of an allocation in the table."""
        return self.heap.allocate(
            self.index, self.members, label, extents, kind, name, poison=poison
        )

    def _remember(self, key: str, array: SymmetricArray) -> None:
        self._by_key[key] = array
        self._keys[array.index] = key

    def _open(self, index: int) -> SymmetricArray:
        offset, shape, dtype, _, name = self.heap.entry(index)
        return self._array_type(self, offset, shape, dtype, name, index=index)

    def find_allocs(self, prefix: str) -> list[SymmetricArray]:
        """Return the live arrays whose ``key`` starts with ``prefix``, also those made elsewhere."""
        found = []
        check.text("prefix", prefix)
        for index in self.heap.find(self.index, f"={prefix}"):
            key = self.heap.entry(index)[3][1:]
            if key not in self._by_key:
                self._remember(key, self._open(index))
            found.append(self._by_key[key])
        return found

    def release(self, array: SymmetricArray) -> None:
        """Count this PE's free of a whole array; :meth:`SymmetricArray.free` calls it."""
        if (
            symmetric("array", array).group is not self
            or not array.freed
            or array.root is not array
        ):
            raise ArgumentError(
                f"array must be one that group {self.name!r} is freeing, but got {array!r}: call its free()"
            )
        key = self._keys.pop(array.index, None)
        if key is not None:
            self._by_key.pop(key, None)
        self.heap.release(array.index)

    def report_recovery(self, array: SymmetricArray, world_pe: int) -> None:
        """Log that a lock was recovered from a dead PE."""
        symmetric("array", array)
        check.index("world_pe", world_pe, self.segment.layout.n_pes)
        _logger.warning(
            "PE %d recovered the lock of a region of %s on PE %d from a PE that died while adding; "
            "the region may be half written",
            self.my_pe,
            array.label,
            world_pe,
        )


def array_at(
    group: Allocation, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any], name: str
) -> SymmetricArray:
    """Return a part of the heaps as an array, whoever has allocated it: for what knows addresses only."""
    return group._array_type(group, offset, shape, dtype, name)
