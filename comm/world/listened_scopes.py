"""Scopes that tell a :class:`~emu.comm.world.listening.Listener` when they begin and end."""

from __future__ import annotations

from types import TracebackType

from emu.comm.arrays import Array
from emu.comm.world.array import SymmetricArray
from emu.comm.world.listened_array import ListenedArray, tile_of
from emu.comm.world.listening import Listener, Tile
from emu.comm.world.scopes import Scope, Scopes


class ListenedScope(Scope):
    """A scope whose beginning and end are told."""

    __slots__ = ("_array", "_listener", "_open", "_tile", "_writes")

    def __init__(
        self, view: Array, listener: Listener, array: SymmetricArray, tile: Tile, *, writes: bool
    ) -> None:
        super().__init__(view)
        self._listener = listener
        self._array = array
        self._tile = tile
        self._writes = writes
        self._open: list[int] = []

    def __enter__(self) -> Array:
        self._array.check_alive()
        self._open.append(self._listener.open_scope(self._tile, writes=self._writes))
        return self.view

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close_scope(self._open.pop(), self._tile, writes=self._writes)


class ListenedScopes(Scopes):
    """A group whose listener is told of scopes."""

    listener: Listener

    def _scope(self, array: SymmetricArray, pe: int | None, *, writes: bool) -> Scope:
        member = self._member(array, pe)
        assert isinstance(array, ListenedArray)
        tile = tile_of(array, array.group.world_pe(member), array.offset, array.shape)
        return ListenedScope(array.on_silently(member), self.listener, array, tile, writes=writes)
