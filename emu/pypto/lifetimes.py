"""Lifetimes of the symmetric memory of one group: when its slots can be given back."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from emu.comm.world.group import Group


PREFIX = "pypto"
"""Of the keys of all slots."""


def name_of(number: int) -> str:
    """Return what reports call the create of a number."""
    return f"shmem{number}"


def number_of(name: str) -> int:
    """Return the number of the create whose slots have a name; 0: it is no such name."""
    number = name.removeprefix("shmem").partition(".")[0]
    return int(number) if name.startswith("shmem") and number.isdecimal() else 0


class Lifetimes:
    """This PE's record of the creates in one group, in order.

    Slots are freed late: another PE may still signal into them after this one has drained the kernel. So
    each PE publishes the number of the last create it has drained, and slots go back when the smallest
    of these numbers has passed theirs.

    Attributes:
        group: The group.
        created: Number of creates so far. Members make the same creates in the same order, so the number
            is part of the key that they find each other's memory by.
        claimed: Rows of slots, as (offset in the heap, src_pe), that waits of this PE are for.
    """

    __slots__ = ("_drained", "_retired", "_slow", "claimed", "created", "group")

    def __init__(self, group: Group) -> None:
        self.group = group
        self.created = 0
        self.claimed: set[tuple[int, int]] = set()
        self._drained = group.alloc((1,), np.dtype(np.int64), key="pypto.drained", poison=False)
        self._retired: deque[int] = deque()
        self._slow = 0

    def retire(self, number: int) -> None:
        """Publish that this PE has drained the kernel that made a create, of this number from 1."""
        self._retired.append(number)
        self.group.signal_op(self._drained, number, self.group.my_pe)

    def collect(self) -> None:
        """Give back the slots that no PE can use any more."""
        retired, group = self._retired, self.group
        if not retired or not self._have_drained(retired[0]):
            return
        drained = min(group.fetch(self._drained, pe) for pe in range(group.n_pes))
        numbers = set()
        while retired and retired[0] <= drained:
            numbers.add(retired.popleft())
        # All sets of all creates are found in one walk over the table.
        for words in group.find_allocs(PREFIX):
            if number_of(words.name) in numbers:
                self.claimed -= {(words.offset, pe) for pe in range(group.n_pes)}
                words.free()

    def _have_drained(self, number: int) -> bool:
        """Return whether all have drained a create; the one that had not when this was last asked comes first."""
        group = self.group
        for step in range(group.n_pes):
            pe = (self._slow + step) % group.n_pes
            if group.fetch(self._drained, pe) < number:
                self._slow = pe
                return False
        return True
