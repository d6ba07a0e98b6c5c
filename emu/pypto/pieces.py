"""Ops that are done piece by piece, so that what needs a tile need not wait for the others.

A wait on a view, and a get, put or signal behind it, each have a node for every *piece*: a rectangle of whole tiles. The
whole op is a node too, which is complete when its pieces are, and by which reports call it. An op on
symmetric memory that names another in ``pred`` depends, piece by piece, on those pieces of the other that touch its
own rectangle of the same symmetric tensor, and on all of them where its rectangle reaches beyond the other's.

An op is divided only where that lets a piece begin earlier: where it depends on pieces that are pending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from emu.pypto.node import Node
from emu.pypto.symbolic import Shape, overlaps
from emu.pypto.tiles import count_tiles

if TYPE_CHECKING:
    from emu.pypto.shmem import Memory

MOST_PIECES = 64
"""Pieces of an op. One of more tiles has pieces of several, as whole rows of tiles where that is enough."""

Block = tuple[Shape, Shape]
"""Corner and extents of a piece."""


@lru_cache(maxsize=4096)
def blocks_of(shape: Shape, tile: Shape) -> tuple[Block, ...]:
    """Return the pieces of a rectangle, last axis fastest: its tiles, or groups of tiles."""
    step = list(tile)
    for axis in reversed(range(len(step))):
        if axis and count_tiles(shape, tuple(step)) > MOST_PIECES:
            step[axis] = max(shape[axis], 1)
    tiles = count_tiles(shape, tuple(step))
    if tiles > MOST_PIECES:
        step[0] *= -(-tiles // MOST_PIECES)
    walk: list[Block] = [((), ())]
    for extent, size in zip(shape, step, strict=True):
        walk = [
            ((*low, at), (*extents, min(size, extent - at)))
            for low, extents in walk
            for at in range(0, extent, size)
        ]
    return tuple(walk)


class Pieces:
    """The pieces of an op on a rectangle of symmetric memory.

    Args:
        memory: The symmetric tensor.
        low: Corner of the rectangle there.
        shape: Its extents.
        blocks: The pieces, from that corner.
        node_of: Returns the node of a piece, by its number; None if it is complete.
    """

    __slots__ = ("_blocks", "_low", "_node_of", "_shape", "memory")

    def __init__(
        self,
        memory: Memory,
        low: Shape,
        shape: Shape,
        blocks: Sequence[Block],
        node_of: Callable[[int], Node | None],
    ) -> None:
        self.memory = memory
        self._low = low
        self._shape = shape
        self._blocks = blocks
        self._node_of = node_of

    @property
    def count(self) -> int:
        """Number of pieces."""
        return len(self._blocks)

    def touching(self, low: Shape, extent: Shape) -> set[Node] | None:
        """Return the pending pieces that touch a rectangle; None: it reaches beyond, so that all count."""
        at = tuple([a - b for a, b in zip(low, self._low, strict=True)])
        if any(a < 0 or a + n > size for a, n, size in zip(at, extent, self._shape, strict=True)):
            return None
        nodes = [
            self._node_of(number)
            for number, block in enumerate(self._blocks)
            if overlaps(at, extent, *block)
        ]
        return {node for node in nodes if node is not None and not node.done}


def divides(deps: Iterable[Node], memory: Memory) -> bool:
    """Return whether some of these nodes are complete by pieces of ``memory``."""
    return any(
        node.pieces is not None and node.pieces.memory is memory and not node.done for node in deps
    )


def narrowed(deps: Iterable[Node], memory: Memory, low: Shape, extent: Shape) -> set[Node]:
    """Return what a piece of ``memory`` depends on, given what its op depends on."""
    found: set[Node] = set()
    for node in deps:
        pieces = node.pieces
        touching = None
        if pieces is not None and pieces.memory is memory and not node.done:
            touching = pieces.touching(low, extent)
        if touching is None:
            found.add(node)
        else:
            found |= touching
    return found
