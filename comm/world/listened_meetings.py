"""Barriers and collectives of groups whose operations are told to a :class:`~emu.comm.world.listening.Listener`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from emu.comm.arrays import Array
from emu.comm.world.array import Input, Output, SymmetricArray
from emu.comm.world.group import Group
from emu.comm.world.listened_array import ListenedArray, silent
from emu.comm.world.listened_scopes import ListenedScopes

T = TypeVar("T")


class ListenedMeetings(ListenedScopes, Group):
    """A group whose listener is told of what its members do together, and of memory."""

    _array_type = ListenedArray

    # --- ordering and memory ---------------------------------------------------------------

    def fence(self) -> None:
        """Order stores as :meth:`Group.fence` does."""
        super().fence()
        self.listener.fence()

    def quiet(self) -> None:
        """Complete stores as :meth:`Group.quiet` does."""
        super().quiet()
        self.listener.quiet()

    def _meet(
        self,
        operation: str,
        call: Callable[[], T],
        members: Iterable[int],
        *,
        inputs: Sequence[object] = (),
        outputs: Sequence[object] = (),
    ) -> T:
        """Call a barrier or a collective; tell of what comes before and behind it.

        Args:
            operation: Its name.
            call: What does it.
            members: Members, all that they had done when they came is known behind it.
            inputs: What it reads.
            outputs: What it writes.
        """
        listener = self.listener
        entered = listener.enter(operation, self, _arrays(inputs))
        result = call()
        listener.leave(operation, self, entered, [*members], _arrays(outputs))
        return result

    def barrier(self) -> None:
        """Wait as :meth:`Group.barrier` does."""
        entered = self.listener.enter("barrier", self, [], completes=True)
        super().barrier()
        self.listener.leave("barrier", self, entered, self.members, [])

    def sync(self) -> None:
        """Wait for every member; stores are complete only where ``quiet`` was called before."""
        self._meet("sync", super().barrier, range(self.n_pes))

    def release(self, array: SymmetricArray) -> None:
        """Free as :meth:`Group.release` does."""
        self.listener.frees(array.offset, array.nbytes)
        super().release(array)

    def alloc(
        self,
        shape: int | Sequence[int],
        dtype: Any,
        *,
        name: str = "",
        key: str | None = None,
        poison: bool = True,
    ) -> SymmetricArray:
        """Allocate as :meth:`Group.alloc` does."""
        array = super().alloc(shape, dtype, name=name, key=key, poison=poison)
        self.listener.allocated()
        return array

    # --- collectives -----------------------------------------------------------------------

    def broadcast(self, array: Input | None, root: int = 0, *, out: Output | None = None) -> Array:
        """Call :meth:`Group.broadcast`."""
        given, into = silent(array), silent(out)
        read = [given] if root == self.my_pe else []
        return self._meet(
            "broadcast",
            lambda: super(ListenedMeetings, self).broadcast(given, root, out=into),
            [root] if isinstance(root, int) else (),
            inputs=read,
            outputs=[into],
        )

    def scatter(
        self, array: Input | None = None, root: int = 0, *, out: Output | None = None
    ) -> Array:
        """Call :meth:`Group.scatter`."""
        given, into = silent(array), silent(out)
        read = [given] if root == self.my_pe else []
        return self._meet(
            "scatter",
            lambda: super(ListenedMeetings, self).scatter(given, root, out=into),
            [root] if isinstance(root, int) else (),
            inputs=read,
            outputs=[into],
        )

    def gather(self, array: Input, root: int = 0, *, out: Output | None = None) -> Array | None:
        """Call :meth:`Group.gather`."""
        given, into = silent(array), silent(out)
        return self._meet(
            "gather",
            lambda: super(ListenedMeetings, self).gather(given, root, out=into),
            range(self.n_pes) if root == self.my_pe else (),
            inputs=[given],
            outputs=[into],
        )

    def all_gather(self, array: Input, *, out: Output | None = None) -> Array:
        """Call :meth:`Group.all_gather`."""
        given, into = silent(array), silent(out)
        return self._meet(
            "all_gather",
            lambda: super(ListenedMeetings, self).all_gather(given, out=into),
            range(self.n_pes),
            inputs=[given],
            outputs=[into],
        )

    def all_to_all(self, array: Input, *, out: Output | None = None) -> Array:
        """Call :meth:`Group.all_to_all`."""
        given, into = silent(array), silent(out)
        return self._meet(
            "all_to_all",
            lambda: super(ListenedMeetings, self).all_to_all(given, out=into),
            range(self.n_pes),
            inputs=[given],
            outputs=[into],
        )

    def all_to_all_v(
        self, array: Input, send_counts: Sequence[int], *, out: Output | None = None
    ) -> tuple[Array, Array]:
        """Call :meth:`Group.all_to_all_v`."""
        given, into = silent(array), silent(out)
        return self._meet(
            "all_to_all_v",
            lambda: super(ListenedMeetings, self).all_to_all_v(given, send_counts, out=into),
            range(self.n_pes),
            inputs=[given],
            outputs=[into],
        )

    def permute(
        self, array: Input, pairs: Sequence[tuple[int, int]], *, out: Output | None = None
    ) -> Array:
        """Call :meth:`Group.permute`."""
        given, into = silent(array), silent(out)
        listed = list(pairs) if isinstance(pairs, Iterable) else pairs
        return self._meet(
            "permute",
            lambda: super(ListenedMeetings, self).permute(given, listed, out=into),
            _senders(listed, self.my_pe),
            inputs=[given],
            outputs=[into],
        )

    def all_reduce(self, array: Input, op: str = "sum", *, out: Output | None = None) -> Array:
        """Call :meth:`Group.all_reduce`."""
        given, into = silent(array), silent(out)
        return self._meet(
            "all_reduce",
            lambda: super(ListenedMeetings, self).all_reduce(given, op, out=into),
            range(self.n_pes),
            inputs=[given],
            outputs=[into],
        )

    def reduce_scatter(self, array: Input, op: str = "sum", *, out: Output | None = None) -> Array:
        """Call :meth:`Group.reduce_scatter`."""
        given, into = silent(array), silent(out)
        return self._meet(
            "reduce_scatter",
            lambda: super(ListenedMeetings, self).reduce_scatter(given, op, out=into),
            range(self.n_pes),
            inputs=[given],
            outputs=[into],
        )


def _arrays(values: Sequence[object]) -> list[Array]:
    return [value for value in values if isinstance(value, np.ndarray)]


def _senders(pairs: object, me: int) -> list[int]:
    """Return the members that send to this one; wrong pairs are told by the collective."""
    if not isinstance(pairs, list):
        return []
    return [
        pair[0] for pair in pairs if isinstance(pair, tuple | list) and pair[1:] == type(pair)([me])
    ]
