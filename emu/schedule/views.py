"""Memory of a heap as an array whose uses by the program are points of the schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from emu.check.races.views import CheckedArray, Uses, wrap
from emu.comm.arrays import Array
from emu.comm.world.steering import Span


class Pointed(Protocol):
    """What says whose turn it is."""

    def is_in_heap(self, array: Array) -> bool:
        """Return whether an array is in a heap."""

    def point(self, operation: str, spans: Sequence[Span], *, looks: bool = False) -> None:
        """Return when it is this PE's turn."""


class SteeredUses:
    """Makes a point of each use of a heap's memory, and tells what listens.

    Args:
        turns: What steers the PE.
        span: Memory that the array has.
        label: What a trace calls it.
        listener: What else is told; None: nothing.
    """

    def __init__(self, turns: Pointed, span: Span, label: str, listener: Uses | None) -> None:
        self._turns, self._span, self._label, self._listener = turns, span, label, listener

    @property
    def approach(self) -> Callable[[str], None]:
        """What is called before the program reads or writes memory."""
        return self._ask

    def _ask(self, operation: str) -> None:
        writes = operation == "store"
        self._turns.point(
            f"{operation} {self._label}",
            [self._span._replace(writes=writes)],
            looks=not writes,
        )

    def used(self, operation: str, array: Array, *, writes: bool) -> None:
        """Note that the program reads, or writes, an array itself."""
        if self._listener is not None:
            self._listener.used(operation, array, writes=writes)

    def used_elements(self, operation: str, array: Array, offsets: Array, *, writes: bool) -> None:
        """Note that the program reads, or writes, the elements at some byte offsets."""
        if self._listener is not None:
            self._listener.used_elements(operation, array, offsets, writes=writes)

    def is_shared(self, array: Array) -> bool:
        """Return whether an array is in a heap."""
        return self._turns.is_in_heap(array)


def steered_view(turns: Pointed, array: Array, span: Span, label: str) -> CheckedArray:
    """Return memory of a heap as an array whose uses are points."""
    listener = array._listener if isinstance(array, CheckedArray) else None
    return wrap(array.view(np.ndarray), SteeredUses(turns, span, label, listener))
