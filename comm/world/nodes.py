"""Nodes: which PEs make up a machine of the emulated system, where a program is told that there are several.

On one host memory is shared by all PEs, and a node is only what a program asks for its local rank, and for the teams of a
node. In a World over several hosts each host is a node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.comm.errors import ArgumentError
from emu.comm.world.current import places_of
from emu.kernels.core import environment

if TYPE_CHECKING:
    from emu.comm.world.group import Group
    from emu.comm.world.world import World


def ranks_per_node(n_pes: int) -> int:
    """Return how many of ``n_pes`` PEs make up a node: all, unless ``EMU_RANKS_PER_NODE`` names a divisor.

    Raises:
        ArgumentError: The variable is no number.
    """
    try:
        named = environment.ranks_per_node() or n_pes
    except ValueError as error:
        raise ArgumentError(str(error)) from None
    return named if n_pes % named == 0 else n_pes


def node_of(world: World) -> Group:
    """Return the group of this PE's node."""
    places = places_of(world)
    if places is not None:
        return world.group(f"node {places.here}", list(places.local))
    size = ranks_per_node(world.n_pes)
    if size == world.n_pes:
        return world
    node = world.my_pe // size
    return world.group(f"node {node}", list(range(node * size, (node + 1) * size)))


def same_place(world: World) -> Group:
    """Return the group of the PEs that have this PE's place in their nodes."""
    places = places_of(world)
    if places is not None:
        place = world.my_pe - places.local.start
        nodes = [places.pes_of(host) for host in range(places.n_hosts)]
        members = [pes[place] for pes in nodes if place < len(pes)]
        return world.group(f"place {place} of nodes", members)
    size = ranks_per_node(world.n_pes)
    place = world.my_pe % size
    return world.group(f"place {place} of nodes", list(range(place, world.n_pes, size)))
