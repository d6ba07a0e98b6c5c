"""Element-wise ops that are done by pieces, because they wait for tiles that come one by one.

A *family* is a chain of such ops on results of one shape. Each piece is a node which runs all ops of the family on its
rectangle, once the tiles that it needs have come. Where all have come before the first piece runs, the ops run whole,
as if nothing had been divided. An element has the same bits in either case: whether an op is compiled goes by the whole.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from emu.pypto import operation as operations
from emu.pypto.backend import run_ops, run_pieces
from emu.pypto.buffer import Buffer
from emu.pypto.context import CONTEXT
from emu.pypto.dtypes import Array, DataType
from emu.pypto.node import Node, find_origin
from emu.pypto.operation import LocalOp, Rectangle
from emu.pypto.pieces import Block, blocks_of
from emu.pypto.symbolic import Shape


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
            self._array = self.buffer.array[tuple([slice(a, a + n) for a, n in places])]
        return self._array

    def dense(self) -> Array:
        """Return the elements."""
        return self.array


def submit_divided(op: LocalOp, deps: set[Node]) -> bool:
    """Add an element-wise op piece by piece, if that lets a piece of it begin before the others.

    Args:
        op: The op.
        deps: What the whole op depends on; nothing is divided that waits for nothing.

    Returns:
        Whether it was added.
    """
    operation, _, outputs, _ = op
    if operation.kind != "map" or operation.may_fail or not deps:
        return False
    (out,) = outputs
    tile = CONTEXT.vec_tile
    if len(tile) != len(out.shape) or not _may_be_divided(op) or not _is_held_in_part(op):
        return False
    blocks = blocks_of(out.shape, tile)
    if len(blocks) < 2:
        return False
    needed = [_dependencies(op, block) for block in blocks]
    graph = CONTEXT.graph
    for node in needed[0]:
        other = node.family
        if isinstance(other, OpFamily) and other.takes(op, needed):
            other.add(op, graph.next_number())
            return True
    family = OpFamily(op, blocks, needed)
    runs = [functools.partial(family.run, number) for number in range(len(blocks))]
    nodes, whole = graph.submit_pieces(
        op[0].name, list(zip(needed, runs, strict=True)), at_once=False
    )
    family.begin(nodes, whole)
    return True


def _is_held_in_part(op: LocalOp) -> bool:
    _, inputs, (out,), _ = op
    return out.buffer.is_held_in_part(out.low, out.shape, True) or any(
        t.buffer.is_held_in_part(t.low, t.shape, False)
        for t in inputs
        if not isinstance(t, np.generic)
    )


def _may_be_divided(op: LocalOp) -> bool:
    """Return whether an op may be divided: all is valid, and no piece overwrites what another reads."""
    _, inputs, outputs, _ = op
    (out,) = outputs
    return not any(_is_moved(t, out) for t in inputs if not isinstance(t, np.generic)) and all(
        isinstance(t, np.generic) or t.shape == t.valid_shape for t in (*inputs, *outputs)
    )


def _is_moved(t: Rectangle, out: Rectangle) -> bool:
    """Return whether an operand lies, elsewhere, in the memory of the result."""
    if t.buffer is out.buffer:
        return (t.low, t.shape) != (out.low, out.shape)
    if not (t.buffer.is_foreign and out.buffer.is_foreign):
        return False
    return np.may_share_memory(t.buffer.array, out.buffer.array)


def _dependencies(op: LocalOp, block: Block) -> set[Node]:
    _, inputs, (out,), _ = op
    found: set[Node] = set()
    for t in inputs:
        if not isinstance(t, np.generic):
            part = _part(t, out.shape, block)
            part.buffer.collect(part.low, part.shape, False, found)
    part = _part(out, out.shape, block)
    part.buffer.collect(part.low, part.shape, True, found)
    return found


def _part(t: Rectangle, shape: Shape, block: Block) -> Part:
    """Return what a piece of a result of ``shape`` needs of an operand, which may be broadcast."""
    lead = len(shape) - len(t.shape)
    low, extent = [], []
    for axis, size in enumerate(t.shape):
        same = size == shape[lead + axis]
        low.append(t.low[axis] + (block[0][lead + axis] if same else 0))
        extent.append(block[1][lead + axis] if same else size)
    return Part(t.buffer, t.dtype, tuple(low), tuple(extent))


class OpFamily:
    """Ops on results of one shape, and the nodes of their pieces.

    Args:
        op: The first op.
        blocks: The pieces of its result.
        deps: What each piece depends on.
    """

    __slots__ = ("_blocks", "_deps", "_left", "_nodes", "_ops", "_shape", "_started", "_whole")

    def __init__(self, op: LocalOp, blocks: tuple[Block, ...], deps: list[set[Node]]) -> None:
        self._ops = [op]
        self._blocks = blocks
        self._shape = op[2][0].shape
        self._deps = deps
        self._left = len(blocks)
        self._started = False
        self._nodes: list[Node] = []
        self._whole: Node | None = None

    def begin(self, nodes: Sequence[Node | None], whole: Node | None) -> None:
        """Take over the nodes of the pieces and of the whole."""
        self._nodes = [node for node in nodes if node is not None]
        self._whole = whole
        for node in self._nodes:
            node.family = self
        self._touch(self._ops[0])

    def takes(self, op: LocalOp, deps: Sequence[set[Node]]) -> bool:
        """Return whether an op may join: no piece of it would wait for more."""
        if self._started or op[2][0].shape != self._shape or len(deps) != len(self._nodes):
            return False
        for node, mine, others in zip(self._nodes, self._deps, deps, strict=True):
            open_deps = {dep for dep in mine if not dep.done}
            if node.done or not (
                others == open_deps or (node in others and others - {node} <= open_deps)
            ):
                return False
        return blocks_of(self._shape, CONTEXT.vec_tile) == self._blocks

    def add(self, op: LocalOp, seq: int) -> None:
        """Let an op join."""
        self._ops.append(op)
        if self._whole is not None:
            self._whole.more.append((seq, op[0].name, find_origin()))
        self._touch(op)

    def _touch(self, op: LocalOp) -> None:
        """Note what each piece reads and writes."""
        _, inputs, (out,), _ = op
        for node, block in zip(self._nodes, self._blocks, strict=True):
            for t in inputs:
                if not isinstance(t, np.generic):
                    part = _part(t, self._shape, block)
                    part.buffer.pending.append((node, part.low, part.shape, False))
            part = _part(out, self._shape, block)
            part.buffer.pending.append((node, part.low, part.shape, True))

    def run(self, number: int) -> None:
        """Run a piece; all, if none has run and all may."""
        if not self._started and all(n.missing == 0 and not n.done for n in self._nodes):
            self._started = True
            for node in self._nodes:
                node.action = None
            ops, self._ops = self._ops, []
            run_ops(ops)
            return
        self._started = True
        block = self._blocks[number]
        pieces: list[LocalOp] = [
            (
                operation,
                tuple(
                    [
                        t if isinstance(t, np.generic) else _part(t, self._shape, block)
                        for t in inputs
                    ]
                ),
                (_part(out, self._shape, block),),
                attributes,
            )
            for operation, inputs, (out,), attributes in self._ops
        ]
        self._left -= 1
        if not self._left:
            self._ops = []
        run_pieces(pieces, math.prod(self._shape) >= operations.LEAST_ELEMENTS)
