"""What puts and gets move when they run: tile by tile, or at once where nobody could tell.

Rows as long as those of the symmetric tensor lie one behind the other on both sides. On a World that nothing listens to or steers,
and that emulates no link, their tiles are one copy: its tiles are complete in the same order. A trace has one put or get then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.comm.ops import AtomicOp
from emu.pypto.dtypes import Array
from emu.pypto.symbolic import Shape
from emu.pypto.tiles import tile_starts

if TYPE_CHECKING:
    from emu.pypto.shmem import Memory

SET = AtomicOp.SET


def _are_rows(memory: Memory, array: Array) -> bool:
    """Return whether an array is to be moved at once: whole rows, one behind the other here and there."""
    data = memory.data
    return bool(
        memory.moves_rows
        and array.shape[1:] == data.shape[1:]
        and array.flags.c_contiguous
        and not data.freed
    )


def fetch(memory: Memory, pe: int, low: Shape, target: Array, tile: Shape) -> None:
    """Fill an array from the rectangle at ``low`` of a PE's memory."""
    data, group, shape = memory.data, memory.group, target.shape
    if _are_rows(memory, target):
        if target.size:
            group._load_rows(data.offset + low[0] * data.strides[0], target, pe)
        return
    for start, where in tile_starts(shape, tile):
        piece = target[where]
        at = tuple(map(int.__add__, low, start))
        group.get(data, pe, offsets=at, shape=piece.shape, out=piece)


def store(memory: Memory, pe: int, low: Shape, values: Array, tile: Shape, op: AtomicOp) -> None:
    """Store an array into the rectangle at ``low`` of a PE's memory."""
    data, group, shape = memory.data, memory.group, values.shape
    if op is SET and _are_rows(memory, values):
        if values.size:
            group._store_rows(data.offset + low[0] * data.strides[0], values, pe)
        return
    for start, where in tile_starts(shape, tile):
        group.put(data, values[where], pe, offsets=tuple(map(int.__add__, low, start)), op=op)
