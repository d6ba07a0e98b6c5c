"""Addresses in symmetric memory, for messages about loops that wait: whose heap they lie in.

Nothing here loads ``emu.comm``: kernels are launched without a world, too.
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
