"""``Membership``: which PEs form a group, and where this PE's part of the shared segment lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from emu.comm.link_model import Link
from emu.comm.memory.heap import Heap
from emu.comm.memory.segment import Segment
from emu.comm.sync import entry_points
from emu.comm.world import details
from emu.comm.world.checks import check

Rows: TypeAlias = Sequence[tuple[int, int, int]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """A group as one of its members knows it: everything from which a :class:`Membership` is made."""

    segment: Segment
    """Shared memory of the world."""
    heap: Heap
    """This process's handle on the symmetric heap."""
    me: int
    """Address of this PE's block, the first argument of every kernel."""
    world_pe: int
    """World number of this PE."""
    name: str
    """Name of the group; unique in the world."""
    members: tuple[int, ...]
    """World numbers of the members, in group order."""
    index: int
    """Number of the group's entry in the table of groups."""


class Membership:
    """The members of a group, as one of them knows them.

    Everything that a group can do is built on this class; it does nothing by itself. What the hot paths
    read is an attribute of its own, one look-up away.

    Args:
        identity: The group, and this PE in it.

    Attributes:
        identity: The group, and this PE in it.
        segment: Shared memory of the world.
        heap: This process's handle on the symmetric heap.
        me: Address of this PE's block, the first argument of every kernel.
        name: Its name; unique in the world.
        my_pe: This PE's number in the group.
        n_pes: Number of members.
        members: World numbers of the members, in group order.
        index: Number of its entry in the table of groups.
        member_set: The same numbers, for tests of membership.
        mine: Address of this PE's heap.
        barrier_address: Address of the group's barrier.
    """

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.segment = segment = identity.segment
        self.heap = identity.heap
        self.me = identity.me
        self.name = identity.name
        self.members = identity.members
        self.member_set = frozenset(identity.members)
        self.n_pes = len(identity.members)
        self.my_pe = identity.members.index(identity.world_pe)
        self.index = identity.index
        layout = segment.layout
        self.mine = segment.address + layout.heaps + identity.world_pe * layout.stride
        self.barrier_address = segment.address + layout.groups + self.index * layout.group_bytes

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, my_pe={self.my_pe}, n_pes={self.n_pes})"

    def _arrive(self, tag: int, rows: Rows = ()) -> int:
        """Arrive at the group's barrier, as :func:`emu.comm.sync.signals.barrier_arrive` does.

        Args:
            tag: What this PE calls.
            rows: Memory of the segment that other members read behind the barrier: (offset, bytes, host that needs it
                or -1 for all). On one host they can read it as it is.
        """
        return int(entry_points.barrier_arrive(self.me, self.barrier_address, self.n_pes, tag))

    @property
    def link(self) -> Link | None:
        """The emulated link between the PEs; None in a world without one."""
        return self.segment.link

    def world_pe(self, pe: int) -> int:
        """Return the world number of member ``pe``.

        Raises:
            ArgumentError: ``pe`` is not in ``[0, n_pes)``.
        """
        if type(pe) is int and 0 <= pe < self.n_pes:
            return self.members[pe]
        return self.members[check.index("pe", pe, self.n_pes, f" for group {self.name!r}")]


def publish_wait(group: Membership, description: details.Description) -> None:
    """Publish what this PE waits for, for the launcher's report."""
    pe = group.members[group.my_pe]
    text = details.publishable({**description, "at": details.call_site()})
    if group.segment.read_text(pe) != text:  # so that readers rarely meet half-written text
        group.segment.write_text(pe, text)
