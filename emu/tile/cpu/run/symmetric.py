"""Addresses in symmetric memory, for messages about loops that wait: whose heap they lie in.

Nothing here loads ``emu.comm`` where there is no World: kernels are launched without one, too.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from emu.comm.world.world import World


class Place(NamedTuple):
    """A place in symmetric memory."""

    pe: int
    """World number of the PE whose heap it lies in."""
    offset: int
    """Its place there."""


def current_world() -> World | None:
    """Return the World of this process, if it is a PE."""
    worlds = sys.modules.get("emu.comm.world.current")
    world: World | None = None if worlds is None else worlds.current()
    return world


def place_of(address: int) -> Place | None:
    """Return whose heap an address lies in, and where; None: in nobody's."""
    world = current_world()
    if world is None:
        return None
    layout = world.segment.layout
    distance = address - world.segment.address - layout.heaps
    if not 0 <= distance < layout.n_pes * layout.stride:
        return None
    return Place(*divmod(distance, layout.stride))


class Barrier(NamedTuple):
    """The barrier of a group."""

    group: int
    """The group's index."""
    name: str
    arrived: int
    """How many members have reached it."""
    members: int

    def __str__(self) -> str:
        return f"the barrier of group {self.name!r}, which {self.arrived} of {self.members} PEs have reached"


def barrier_of(address: int) -> Barrier | None:
    """Return the barrier whose generation lies at an address; None: there lies none."""
    world = current_world()
    if world is None:
        return None
    from emu.comm.layout import GROUPS

    layout = world.segment.layout
    index, at = divmod(address - world.segment.address - layout.groups, layout.group_bytes)
    fields = layout.group_dtype.fields
    assert fields is not None
    if not 0 <= index < GROUPS or at != fields["generation"][1]:
        return None
    entry = world.segment.group_entry(index)
    name, members = entry["name"].decode(errors="replace"), int(entry["n_pes"])
    if index == world.index:
        name, members = world.name, world.n_pes
    return Barrier(index, name, int(entry["arrived"]), members)
