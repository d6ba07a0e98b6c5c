"""What faults may change in a PE's operations, and what they are in a world where none is injected."""

from __future__ import annotations

from typing import Protocol

from emu.comm.arrays import Array


class Faulting(Protocol):
    """What may go wrong in a PE's operations."""

    repeats: bool
    """Whether the signal that is sent now is the last one again, which arrives together with that."""

    def note(self, operation: str) -> None:
        """Note that the PE begins a fence or a quiet, which waits for nobody's turn."""

    def done(self) -> None:
        """Note that the operation is over that the PE was let do last."""

    def carried(self, pe: int, data: Array) -> Array:
        """Return the data with which a store arrives at a PE."""

    def signals(self, pe: int) -> int:
        """Return how often a signal arrives at a PE that is sent once."""

    def has_room(self) -> bool:
        """Return whether the heap has room for an array that this PE allocates now."""

    def allocated(self, pe: int, first: int, behind: int) -> None:
        """Note that this PE has allocated an array: the first byte of its heap that it has, and the one behind the last.

        Args:
            pe: World number of this PE.
            first: Byte offset in its heap.
            behind: Likewise.
        """


class Faultless:
    """Lets nothing go wrong."""

    repeats = False

    def note(self, operation: str) -> None:
        """Do nothing."""

    def done(self) -> None:
        """Do nothing."""

    def carried(self, pe: int, data: Array) -> Array:
        """Return the data as they are."""
        return data

    def signals(self, pe: int) -> int:
        """Return 1."""
        return 1

    def has_room(self) -> bool:
        """Return True."""
        return True

    def allocated(self, pe: int, first: int, behind: int) -> None:
        """Do nothing."""
