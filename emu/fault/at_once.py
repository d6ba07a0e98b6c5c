"""``AtOnce``: lets a PE do everything at once, as it can in a world that nobody steers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from emu.comm.arrays import Array
from emu.comm.world.faulting import Faultless
from emu.comm.world.membership import Membership
from emu.comm.world.steering import Span


class AtOnce(Faultless):
    """Steers a PE by letting it go on."""

    late = False
    seed = 0

    def point(self, operation: str, spans: Sequence[Span], *, looks: bool = False) -> None:
        """Do nothing."""

    def wait(self, operation: str, spans: Sequence[Span], holds: Callable[[], bool]) -> None:
        """Do nothing: the PE's own wait comes next."""

    def meet(self, operation: str, group: Membership) -> AbstractContextManager[None]:
        """Return what does nothing: the meeting itself comes next."""
        return contextlib.nullcontext()

    def send(
        self, operation: str, span: Span, store: Callable[[], None], *, joins: bool = False
    ) -> None:
        """Do a store."""
        store()

    def fence(self) -> None:
        """Do nothing."""

    def settle(self, pe: int) -> None:
        """Do nothing."""

    def quiet(self) -> None:
        """Do nothing."""

    def reach(self, counter: int, value: int) -> None:
        """Do nothing."""

    def wait_for_all(self, operation: str, group: Membership, counter: int, value: int) -> None:
        """Do nothing: the PE's own wait comes next."""

    def view(self, array: Array, span: Span, label: str) -> Array:
        """Return the array as it is."""
        return array

    def finish(self) -> None:
        """Do nothing."""
