"""The symmetric memory of this process's world where its uses are listened to: for rooms whose code uses it unseen."""

from __future__ import annotations

from typing import NamedTuple

from emu.comm.world import current
from emu.comm.world.listening import Listener


class Heaps(NamedTuple):
    """Symmetric memory of all PEs, and who listens to its uses.

    Attributes:
        listener: Who listens.
        low: Address of the first byte.
        high: Address behind the last.
    """

    listener: Listener
    low: int
    high: int


def find_heaps() -> Heaps | None:
    """Return the symmetric memory of this PE's world; None: nobody looks for races there, or it is no PE."""
    world = current.current()
    listener: Listener | None = getattr(world, "listener", None)
    if world is None or listener is None or not listener.finds_races:
        return None
    addresses = world.segment.heap_addresses
    return Heaps(listener, addresses.start, addresses.stop)
