"""Waits inside compiled kernels: loops that read the same values again and again.

A PE in such a loop announces itself to the launcher as waiting, as long as the values stay the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from emu.comm.layout import B_WAITING, B_WAITS
from emu.comm.world import details

if TYPE_CHECKING:
    from emu.comm.world.world import World

_announced = False


def wait(
    world: World,
    call: str,
    text: str,
    reads: Sequence[tuple[int, int, int, int]] = (),
    barrier: Mapping[str, int | str] | None = None,
) -> None:
    """Announce that this PE waits.

    Args:
        world: The PE's World.
        call: What waits.
        text: What it waits for.
        reads: The same for words of symmetric memory: PE, place in its heap, bytes, and the bits that are there.
        barrier: The same for a barrier: ``index`` and name of its ``group``, ``generation``, and ``at`` which line.
    """
    global _announced
    if _announced:
        return
    _announced = True
    description: details.Description = {"call": call, "text": text}
    if reads:
        description["reads"] = reads
    if barrier is not None:
        description.update(barrier)
    world.segment.write_text(world.my_pe, details.publishable(description))
    world.segment.block(world.my_pe)[B_WAITING] += 1


def go_on(world: World) -> None:
    """Withdraw the announcement: a value has changed, or the loop has ended."""
    global _announced
    if not _announced:
        return
    _announced = False
    world.segment.write_text(world.my_pe, "")
    block = world.segment.block(world.my_pe)
    block[B_WAITS] += 1
    block[B_WAITING] -= 1
