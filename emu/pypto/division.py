"""How local ops are divided: into which pieces, and what each piece needs of the operands.

Pieces are blocks of the space that an op walks (see :mod:`emu.pypto.walks`): tiles of element-wise ops, tiles of whole rows
of reductions, softmax and norms, rows of products. What makes an element is the same whether an op is divided or not,
and so are its bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from emu.pypto import walks
from emu.pypto.buffer import Buffer
from emu.pypto.context import CONTEXT
from emu.pypto.dtypes import Array, DataType
from emu.pypto.node import Node
from emu.pypto.operation import LocalOp, Rectangle
from emu.pypto.pieces import Block, blocks_of
from emu.pypto.symbolic import Shape
from emu.pypto.walks import Walk, Walker

_WALKERS: dict[str, Walker] = {
    "map": walks.element_wise,
    "reduce": walks.rows,
    "row": walks.rows,
}
"""Of the kinds of operations."""


class Part:
    """A rectangle of a tensor, all of it valid."""

    __slots__ = ("_array", "buffer", "dtype", "low", "node", "shape", "valid_shape")

    def __init__(self, buffer: Buffer, dtype: DataType, low: Shape, shape: Shape) -> None:
        self.buffer = buffer
        self.dtype = dtype
        self.low = low
        self.node: Node | None = None
        self.shape = self.valid_shape = shape
        self._array: Array | None = None

    @property
    def array(self) -> Array:
        """The elements."""
        if self._array is None:
            places = zip(self.low, self.shape, strict=True)
            # With the dots an array without axes stays one.
            index: tuple[Any, ...] = (..., *[slice(a, a + n) for a, n in places])
            self._array = self.buffer.array[index]
        return self._array

    def dense(self) -> Array:
        """Return the elements."""
        return self.array


class Divided:
    """An op, and how it may be cut.

    Args:
        op: The op.
        walk: Its walk.
    """

    __slots__ = ("op", "walk")

    def __init__(self, op: LocalOp, walk: Walk) -> None:
        self.op = op
        self.walk = walk

    def blocks(self) -> tuple[Block, ...]:
        """Return the pieces that the tile shapes in force ask for; none if there is no tile of this rank."""
        walk, tile = self.walk, list(CONTEXT.vec_tile)
        space = walk.space
        if walk.is_product and CONTEXT.cube_tile:
            tile = [max(CONTEXT.cube_tile[0])] * len(space)
        if len(tile) != len(space):
            return ()
        for axis in walk.uncut:
            tile[axis] = max(space[axis], 1)
        return blocks_of(space, tuple(tile))

    def fits(self, space: Shape, blocks: Sequence[Block]) -> bool:
        """Return whether the op may be cut into these blocks of a space."""
        return space == self.walk.space and all(
            extent[axis] == space[axis] for _, extent in blocks for axis in self.walk.uncut
        )

    def piece(self, block: Block) -> LocalOp:
        """Return the op on a block."""
        operation, inputs, outputs, attributes = self.op
        follows = iter(self.walk.inputs)
        read = tuple(
            [x if isinstance(x, np.generic) else _part(x, next(follows), block) for x in inputs]
        )
        written = [
            _part(t, axes, block) for t, axes in zip(outputs, self.walk.outputs, strict=True)
        ]
        return operation, read, tuple(written), attributes


def find_division(op: LocalOp) -> Divided | None:
    """Return how an op may be cut; None: it may not."""
    operation, inputs, outputs, attributes = op
    walker = operation.walk or _WALKERS.get(operation.kind)
    tensors = [t for t in inputs if not isinstance(t, np.generic)]
    if walker is None or operation.may_fail or not _may_be_cut(tensors, outputs):
        return None
    walk = walker([t.shape for t in tensors], [t.shape for t in outputs], attributes)
    if walk is None or (walk.needs_rows and not _has_plain_rows(tensors[0])):
        return None
    return Divided(op, walk)


def _has_plain_rows(t: Rectangle) -> bool:
    """Return whether the elements of a row lie beside each other."""
    memory = t.buffer.memory
    return memory is None or memory.strides[-1] == memory.itemsize


def _may_be_cut(inputs: Sequence[Rectangle], outputs: Sequence[Rectangle]) -> bool:
    """Return whether all is valid, and no piece overwrites what another reads."""
    return not any(_is_moved(t, out) for t in inputs for out in outputs) and all(
        t.shape == t.valid_shape for t in (*inputs, *outputs)
    )


def _is_moved(t: Rectangle, out: Rectangle) -> bool:
    """Return whether an operand lies, elsewhere, in the memory of the result."""
    if t.buffer is out.buffer:
        return (t.low, t.shape) != (out.low, out.shape)
    if not (t.buffer.is_foreign and out.buffer.is_foreign):
        return False
    return np.may_share_memory(t.buffer.array, out.buffer.array)


def _part(t: Rectangle, follows: Shape, block: Block) -> Part:
    """Return what a piece touches of a tensor."""
    low, extent = list(t.low), list(t.shape)
    for axis, other in enumerate(follows):
        if other != walks.WHOLE:
            low[axis] += block[0][other]
            extent[axis] = block[1][other]
    return Part(t.buffer, t.dtype, tuple(low), tuple(extent))


def touched(op: LocalOp) -> Iterator[tuple[Rectangle, bool]]:
    """Iterate over the rectangles that an op touches, and whether it writes them."""
    _, inputs, outputs, _ = op
    for t in inputs:
        if not isinstance(t, np.generic):
            yield t, False
    for t in outputs:
        yield t, True


def dependencies_of(op: LocalOp) -> set[Node]:
    """Return the pending nodes that must be complete before an op."""
    found: set[Node] = set()
    for t, writes in touched(op):
        t.buffer.collect(t.low, t.valid_shape, writes, found)
    return found


def is_held_in_part(op: LocalOp) -> bool:
    """Return whether pending nodes hold up a part of an operand or of a result, but not all of it."""
    _, inputs, outputs, _ = op
    for t in inputs:
        if (
            not isinstance(t, np.generic)
            and t.buffer.pending
            and t.buffer.is_held_in_part(t.low, t.shape, False)
        ):
            return True
    return any(t.buffer.pending and t.buffer.is_held_in_part(t.low, t.shape, True) for t in outputs)
