"""Waits that are no calls of the machine: a kernel's loop that goes on reading the same.

A PE in such a loop announces itself to the launcher as one that waits, as long as what it reads stays the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.comm.layout import B_WAITING, B_WAITS
from emu.comm.world import details

if TYPE_CHECKING:
    from emu.comm.world.world import World

_announced = False


def wait(world: World, call: str, text: str) -> None:
    """Announce that this PE waits, in what, and for what."""
    global _announced
    if _announced:
        return
    _announced = True
    world.segment.write_text(world.my_pe, details.publishable({"call": call, "text": text}))
    world.segment.block(world.my_pe)[B_WAITING] += 1


def go_on(world: World) -> None:
    """Take the announcement back: what was read has changed, or the loop has ended."""
    global _announced
    if not _announced:
        return
    _announced = False
    world.segment.write_text(world.my_pe, "")
    block = world.segment.block(world.my_pe)
    block[B_WAITS] += 1
    block[B_WAITING] -= 1
