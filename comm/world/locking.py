"""``Locking``: OpenSHMEM's locks, as a queue in which each PE waits at a word of its own.

A lock is one element of a symmetric int64 array. Its 64 bits are two words on each member:

* the *tail*, of which only that of member 0 counts: 1 + the number of the member that asked last, or 0;
* the *place* of the member itself: whether it holds the lock or waits for it, plus 1 + the number of the member that
  comes after it.

Who wants the lock swaps itself into the tail (Mellor-Crummey and Scott, 1991). If there was another one, it marks its own
place as waiting, adds itself to the other one's place, and waits until that one hands over. All changes of a place
are additions, so that it does not matter whether the mark or the successor comes first.
"""

from __future__ import annotations

import operator
from typing import cast

import numpy as np

from emu.comm.errors import ArgumentError
from emu.comm.layout import PLACE_HOLDS as _HOLDS
from emu.comm.layout import PLACE_WAITS as _WAITS
from emu.comm.ops import Cmp
from emu.comm.sync import signal_numbers, signals
from emu.comm.world.array import SymmetricArray, symmetric
from emu.comm.world.one_sided import OneSided
from emu.comm.world.waiting import Waiting
from emu.kernels.core.messages import shown

_TAIL, _PLACE = 0, 1
_HOME = 0
"""The member whose tail counts."""


class Locking(OneSided):
    """A group whose members exclude each other by locks."""

    def set_lock(self, lock: SymmetricArray, *, index: int = 0) -> None:
        """Take a lock, and wait for it as long as another PE holds it; PEs get it in the order in which they ask.

        Args:
            lock: Of int64, zeroed (``alloc(..., poison=False)``). Its elements are for locks alone and are 0 when nobody
                holds or wants them. The lock is the same one whichever group's method is called.
            index: Which element, in C order.

        Raises:
            ArgumentError: Not such an array, or this PE holds the lock already and would wait for ever.
            DeadlockError: Nobody can end the wait, or nothing changed for the launch's time-out.
            PEDiedError, PeerFailedError: Another PE ended.
        """
        owner, words, label = self._lock(lock, index)
        if place_of(owner, words, label):
            raise ArgumentError(
                f"lock must be one that this PE does not hold, but PE {self.my_pe} has taken {label} "
                "already, and would wait for itself"
            )
        mine = owner.my_pe
        before = owner._atomic(words, _HOME, _TAIL, signal_numbers.SWAP, mine + 1, 0)
        if not 0 <= before <= owner.n_pes:
            owner._atomic(words, _HOME, _TAIL, signal_numbers.SWAP, before, 0)
            raise _not_zeroed(label, before)
        mark = _WAITS if before else _HOLDS
        owner._atomic(words, mine, _PLACE, signal_numbers.ADD, mark, 0)
        if before:
            owner._atomic(words, before - 1, _PLACE, signal_numbers.ADD, mine + 1, 0)
            Waiting.wait_for(owner, [(words, _PLACE, Cmp.LT, _WAITS)], f"set_lock({label})")

    def test_lock(self, lock: SymmetricArray, *, index: int = 0) -> bool:
        """Take a lock if no PE holds it, without waiting.

        Args:
            lock: As for :meth:`set_lock`.
            index: Which element, in C order.

        Returns:
            True: it was taken, and :meth:`clear_lock` must follow. False: some PE holds it, perhaps this one.

        Raises:
            ArgumentError: Not such an array.
        """
        owner, words, label = self._lock(lock, index)
        place_of(owner, words, label)
        mine = owner.my_pe
        before = owner._atomic(words, _HOME, _TAIL, signal_numbers.CAS, mine + 1, 0)
        if not 0 <= before <= owner.n_pes:
            raise _not_zeroed(label, before)
        if not before:
            owner._atomic(words, mine, _PLACE, signal_numbers.ADD, _HOLDS, 0)
        return not before

    def clear_lock(self, lock: SymmetricArray, *, index: int = 0) -> None:
        """Complete all stores of this PE, and hand a lock that it holds to the PE that has waited longest.

        Args:
            lock: As for :meth:`set_lock`.
            index: Which element, in C order.

        Raises:
            ArgumentError: Not such an array, or this PE does not hold the lock.
        """
        owner, words, label = self._lock(lock, index)
        place, mine = place_of(owner, words, label), owner.my_pe
        if not place:
            raise ArgumentError(
                f"lock must be one that this PE holds, but PE {self.my_pe} does not hold {label}"
            )
        signals.full_fence()
        if place == _HOLDS:  # nobody is known to come after it
            last = owner._atomic(words, _HOME, _TAIL, signal_numbers.CAS, 0, mine + 1)
            if last != mine + 1:  # but somebody will be in a moment
                Waiting.wait_for(owner, [(words, _PLACE, Cmp.GT, _HOLDS)], f"clear_lock({label})")
                place = owner._atomic(words, mine, _PLACE, signal_numbers.FETCH, 0, 0)
        owner._atomic(words, mine, _PLACE, signal_numbers.SET, 0, 0)
        if place != _HOLDS:
            next_one = place - _HOLDS - 1
            owner._atomic(words, next_one, _PLACE, signal_numbers.ADD, _HOLDS - _WAITS, 0)

    def _lock(self, lock: SymmetricArray, index: int) -> tuple[OneSided, SymmetricArray, str]:
        """Return the group that a lock belongs to, the two words of its element, and what messages call it."""
        if symmetric("lock", lock).dtype != np.int64:
            raise ArgumentError(f"lock must be of int64, but got {lock!r}")
        self.route(lock, self.my_pe, "lock")
        offset = lock.element_offset(index)
        label = f"{lock.label}[{operator.index(index)}]"
        owner = cast("OneSided", lock.group)
        words = SymmetricArray(
            owner, offset, (2,), np.dtype(np.int32), f"{label} (tail, place)", root=lock.root
        )
        return owner, words, label


def place_of(owner: OneSided, words: SymmetricArray, label: str) -> int:
    """Return this PE's place, 0 if it does not hold the lock, after checking that it can be one."""
    place = owner._atomic(words, owner.my_pe, _PLACE, signal_numbers.FETCH, 0, 0)
    if place and not 0 <= place - _HOLDS <= owner.n_pes:
        raise _not_zeroed(label, place)
    return place


def _not_zeroed(label: str, found: int) -> ArgumentError:
    return ArgumentError(
        f"lock must be zeroed before its first use (alloc(..., poison=False)) and be left alone, "
        f"but {label} holds {shown(found)}"
    )
