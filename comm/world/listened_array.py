"""Symmetric arrays whose uses by the program are told to a :class:`~emu.comm.world.listening.Listener`."""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.comm.arrays import Array
from emu.comm.world.array import SymmetricArray
from emu.comm.world.listening import Listener, Tile


class ListenedArray(SymmetricArray):
    """A symmetric array that hands out its memory as arrays whose uses are noted."""

    __slots__ = ()

    @property
    def local(self) -> Array:
        """This PE's memory; loads and stores act on it directly."""
        return _listener_of(self.group).view(self.on_silently(self.group.my_pe))

    def on_silently(self, pe: int) -> Array:
        """Return PE ``pe``'s memory as an ndarray whose uses are not noted."""
        return super().on(pe)

    def on(self, pe: int) -> Array:
        """Return PE ``pe``'s memory as an ndarray, without a copy."""
        return _listener_of(self.group).view(super().on(pe))

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        part = self._pick(
            self.on_silently(self.group.my_pe), key if isinstance(key, tuple) else (key,)
        )
        _listener_of(self.group).used("store", part, writes=True)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        mine = self.on_silently(self.group.my_pe)
        _listener_of(self.group).used("load", mine, writes=False)
        return np.array(mine, dtype=dtype, copy=copy)


def _listener_of(group: Any) -> Listener:
    listener: Listener = group.listener
    return listener


def tile_of(array: SymmetricArray, world_pe: int, offset: int, shape: tuple[int, ...]) -> Tile:
    """Return the tile of ``shape`` at ``offset`` of a symmetric array."""
    return Tile(world_pe, offset, shape, array.strides, array.itemsize, array.dtype.kind)


def silent(value: Any) -> Any:
    """Return an input or output without what notes its uses: the operation notes them as a whole."""
    if isinstance(value, ListenedArray):
        return value.on_silently(value.group.my_pe)
    if isinstance(value, np.ndarray) and type(value) is not np.ndarray:
        return value.view(np.ndarray)
    return value
