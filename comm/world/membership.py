"""``Membership``: which PEs form a group, and where this PE's part of the shared segment lies."""

from __future__ import annotations

from typing import Any

from emu.comm.link_model import Link
from emu.comm.memory.heap import Heap
from emu.comm.memory.segment import Segment
from emu.comm.world import details
from emu.comm.world.checks import check


class Membership:
    """The members of a group, as one of them knows them.

    Everything that a group can do is built on this class; it does nothing by itself.

    Args:
        segment: Shared memory of the world.
        heap: This process's handle on the symmetric heap.
        me: Address of this PE's block, the first argument of every kernel.
        name: Name of the group; unique in the world.
        members: World numbers of the members, in group order.
        index: Number of the group's entry in the table of groups.
        world_pe: World number of this PE.

    Attributes:
        name: Its name; unique in the world.
        my_pe: This PE's number in the group.
        n_pes: Number of members.
        members: World numbers of the members, in group order.
        member_set: The same numbers, for tests of membership.
        mine: Address of this PE's heap.
        barrier_address: Address of the group's barrier.
    """

    def __init__(
        self,
        segment: Segment,
        heap: Heap,
        me: int,
        name: str,
        members: tuple[int, ...],
        index: int,
        world_pe: int,
    ) -> None:
        self.segment = segment
        self.heap = heap
        self.me = me
        self.name = name
        self.members = members
        self.n_pes = len(members)
        self.my_pe = members.index(world_pe)
        self.index = index
        layout = segment.layout
        self.mine = segment.address + layout.heaps + world_pe * layout.stride
        self.barrier_address = segment.address + layout.groups + index * layout.group_bytes
        self.member_set = frozenset(members)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, my_pe={self.my_pe}, n_pes={self.n_pes})"

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


def publish_wait(group: Membership, description: dict[str, Any]) -> None:
    """Publish what this PE waits for, for the launcher's report."""
    pe, text = group.members[group.my_pe], details.publishable(description)
    if group.segment.read_text(pe) != text:  # so that readers rarely meet half-written text
        group.segment.write_text(pe, text)
