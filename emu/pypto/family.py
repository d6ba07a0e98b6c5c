"""Local ops that are done by pieces, because they wait for tiles that come one by one.

A *family* is a chain of such ops that walk rectangles of one shape. Each piece is a node which runs all ops of the family on its
rectangle, once the tiles that it needs have come. Where all have come before the first piece runs, the ops run whole,
as if nothing had been divided. An element has the same bits in either case: whether an op is compiled goes by the whole.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from emu.pypto import operation as operations
from emu.pypto.backend import run_ops, run_pieces
from emu.pypto.context import CONTEXT
from emu.pypto.division import (
    Divided,
    dependencies_of,
    find_division,
    is_held_in_part,
    touched,
)
from emu.pypto.node import Node, find_origin
from emu.pypto.operation import LocalOp
from emu.pypto.pieces import Block


def submit_divided(op: LocalOp, deps: set[Node]) -> bool:
    """Add a local op piece by piece, if that lets a piece of it begin before the others.

    Args:
        op: The op.
        deps: What the whole op depends on; nothing is divided that waits for nothing.

    Returns:
        Whether it was added.
    """
    if not deps or not is_held_in_part(op):
        return False
    divided = find_division(op)
    if divided is None:
        return False
    graph = CONTEXT.graph
    if not divided.walk.is_product:
        for other in dict.fromkeys([node.family for node in sorted(deps)]):
            if isinstance(other, OpFamily) and other.takes(divided):
                other.add(divided, graph.next_number())
                return True
    blocks, needed = _pieces(divided)
    if len(blocks) < 2:
        return False
    family = OpFamily(divided, blocks, needed)
    runs = [functools.partial(family.run, number) for number in range(len(blocks))]
    nodes, whole = graph.submit_pieces(
        op[0].name, list(zip(needed, runs, strict=True)), at_once=False
    )
    family.begin(nodes, whole)
    return True


def _pieces(divided: Divided) -> tuple[tuple[Block, ...], list[set[Node]]]:
    """Return the pieces of an op and what each depends on; those of a product that wait for the same are one."""
    all_blocks = divided.blocks()
    needed = [dependencies_of(divided.piece(block)) for block in all_blocks]
    if not divided.walk.is_product:
        return all_blocks, needed
    blocks: list[Block] = []
    kept: list[set[Node]] = []
    for (low, extent), deps in zip(all_blocks, needed, strict=True):
        if kept and kept[-1] == deps:
            first, extents = blocks[-1]
            joined = (*extents[:-2], extents[-2] + extent[-2], extents[-1])
            blocks[-1] = first, joined
        else:
            blocks.append((low, extent))
            kept.append(deps)
    return tuple(blocks), kept


class OpFamily:
    """Ops that walk one space, and the nodes of their pieces.

    Args:
        first: The first op.
        blocks: Its pieces.
        deps: What each piece depends on.
    """

    __slots__ = ("_blocks", "_deps", "_left", "_nodes", "_ops", "_space", "_started", "_whole")

    def __init__(self, first: Divided, blocks: tuple[Block, ...], deps: list[set[Node]]) -> None:
        self._ops = [first]
        self._space = first.walk.space
        self._blocks = blocks
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

    def takes(self, divided: Divided) -> bool:
        """Return whether an op may join: no piece of it would wait for more."""
        if self._started or not divided.fits(self._space, self._blocks):
            return False
        for node, mine, block in zip(self._nodes, self._deps, self._blocks, strict=True):
            if node.done:
                return False
            others = dependencies_of(divided.piece(block))
            open_deps = {dep for dep in mine if not dep.done}
            if others != open_deps and not (node in others and others - {node} <= open_deps):
                return False
        return True

    def add(self, divided: Divided, seq: int) -> None:
        """Let an op join."""
        self._ops.append(divided)
        if self._whole is not None:
            self._whole.more.append((seq, divided.op[0].name, find_origin()))
        self._touch(divided)

    def _touch(self, divided: Divided) -> None:
        """Note what each piece reads and writes."""
        for node, block in zip(self._nodes, self._blocks, strict=True):
            for part, writes in touched(divided.piece(block)):
                part.buffer.pending.append((node, part.low, part.shape, writes))

    def run(self, number: int) -> None:
        """Run a piece; all, if none has run and all may."""
        if not self._started and all(n.missing == 0 and not n.done for n in self._nodes):
            self._started = True
            for node in self._nodes:
                node.action = None
            ops, self._ops = [each.op for each in self._ops], []
            run_ops(ops)
            return
        self._started = True
        block = self._blocks[number]
        pieces = [each.piece(block) for each in self._ops]
        self._left -= 1
        if not self._left:
            self._ops = []
        run_pieces(pieces, math.prod(self._space) >= operations.LEAST_ELEMENTS)
