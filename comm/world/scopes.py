"""``Scopes``: parts of a program in which it reads or writes symmetric memory by means that no check can see.

Compiled functions, libraries and everything else that is handed a raw view of the heap use it unseen. A scope says that they
do, and of what memory; a check takes the accesses of a scope to be at any time while it is open. Without a check a scope
does nothing but hand out the view.
"""

from __future__ import annotations

from types import TracebackType

from emu.comm.arrays import Array
from emu.comm.world.allocation import Allocation
from emu.comm.world.array import SymmetricArray


class Scope:
    """A scope of :meth:`Scopes.reading` or :meth:`Scopes.writing`; it may be entered again.

    Args:
        view: What the ``with`` statement gives.
    """

    __slots__ = ("view",)

    def __init__(self, view: Array) -> None:
        self.view = view

    def __enter__(self) -> Array:
        return self.view

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass


class Scopes(Allocation):
    """A group that can be told of accesses which are no operations of its own."""

    def reading(self, array: SymmetricArray, *, pe: int | None = None) -> Scope:
        """Tell, by a ``with`` statement, that its block reads symmetric memory unseen.

        ``with world.reading(a) as view:`` gives the memory as an ordinary ndarray, for a compiled function, torch, or
        ``memoryview``. A check of races takes each byte of it to be read all the time from the beginning of the block to
        its end: a write of another PE that is ordered neither before the one nor behind the other is a race.

        Args:
            array: The memory: a symmetric array, or a view of one made by slicing.
            pe: Member whose memory it is. Default: this PE.

        Raises:
            ArgumentError: No symmetric array of this world, or no member that has it.
            SymmetricMemoryError: The array was freed.
        """
        return self._scope(array, pe, writes=False)

    def writing(self, array: SymmetricArray, *, pe: int | None = None) -> Scope:
        """Tell, by a ``with`` statement, that its block writes, and perhaps reads, symmetric memory unseen.

        As :meth:`reading`, but a read of another PE that is ordered neither before the beginning nor behind the end is
        a race, too.

        Args:
            array: The memory: a symmetric array, or a view of one made by slicing.
            pe: Member whose memory it is. Default: this PE.

        Raises:
            ArgumentError: No symmetric array of this world, or no member that has it.
            SymmetricMemoryError: The array was freed.
        """
        return self._scope(array, pe, writes=True)

    def _scope(self, array: SymmetricArray, pe: int | None, *, writes: bool) -> Scope:
        member = self._member(array, pe)
        return Scope(array.on(member))

    def _member(self, array: SymmetricArray, pe: int | None) -> int:
        """Return the number, in the array's group, of the member whose memory is meant."""
        world_pe = self.route(array, self.my_pe if pe is None else pe)
        return array.group.my_pe if pe is None else array.group.members.index(world_pe)
