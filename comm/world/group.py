"""``Group``: data and signals between some PEs of a world.

Every ``pe`` argument counts within the group whose method is called. OpenSHMEM 1.5 gives the meaning.
One difference follows from shared memory, in which each operation is complete at its target when the
call returns: ``quiet`` and ``fence`` are memory fences, and the non-blocking forms
(:mod:`emu.comm.world.nonblocking`) are done at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from emu.comm.sync import entry_points, signal_numbers, signals
from emu.comm.world.agreement import BARRIER, mismatch, pass_barrier
from emu.comm.world.collectives import Collectives
from emu.comm.world.locking import Locking
from emu.comm.world.nonblocking import NonBlocking
from emu.comm.world.scopes import Scopes

if TYPE_CHECKING:
    from emu.comm.world.steering import Steering

# Names that the hot paths look up on every call.
_BARRIER, _DONE = BARRIER, signal_numbers.DONE


class Stoppable(Protocol):
    """A helper of a group that is stopped when the PE ends."""

    def stop(self) -> None:
        """End whatever it is doing."""


class Group(NonBlocking, Locking, Collectives, Scopes):
    """A set of PEs that share symmetric memory, signals, barriers and collectives.

    Attributes:
        name: Its name; unique in the world.
        my_pe: This PE's number in the group.
        n_pes: Number of members.
        members: World numbers of the members, in group order.
    """

    server: Stoppable | None = None
    """The communication server of this PE in the group, once there is one."""

    steering: Steering | None = None
    """What decides when this PE does something; None: nothing does."""

    # --- ordering --------------------------------------------------------------------------

    def fence(self) -> None:
        """Order this PE's stores to each PE: those before it are seen before those after it."""
        signals.full_fence()

    def quiet(self) -> None:
        """Return when all stores of this PE are complete at their targets."""
        signals.full_fence()

    def barrier(self) -> None:
        """Wait for every member, with all stores of all of them complete.

        Raises:
            CollectiveMismatchError: A member called a collective of this group instead. All raise.
            DeadlockError, PEDiedError, PeerFailedError: A member never comes.
        """
        arrived = entry_points.barrier_arrive(self.me, self.barrier_address, self.n_pes, _BARRIER)
        if arrived != _DONE and not pass_barrier(self, arrived, self.name):
            raise mismatch(self, "barrier()")

    def sync(self) -> None:
        """Wait for every member. Stores are complete when issued here, so this is :meth:`barrier`."""
        self.barrier()
