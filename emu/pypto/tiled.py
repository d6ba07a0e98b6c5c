"""Ops that communicate tile by tile, divided where tiles that they need come one by one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from emu.pypto.context import CONTEXT
from emu.pypto.node import Node
from emu.pypto.pieces import Pieces, blocks_of, divides, narrowed
from emu.pypto.submission import run_op
from emu.pypto.symbolic import Shape
from emu.pypto.tensor import Tensor

if TYPE_CHECKING:
    from emu.pypto.grids import Grid
    from emu.pypto.shmem import Memory


@dataclass(slots=True)
class Tiled:
    """A transfer between symmetric memory and a local tensor.

    Attributes:
        memory: The symmetric tensor.
        low: Corner of the transfer there.
        tile: Shape of the tiles.
        local: The tensor, whose valid part is meant.
        writes: Whether the local tensor is written; it has memory of its own then.
    """

    memory: Memory
    low: Shape
    tile: Shape
    local: Tensor
    writes: bool


def run_tiled(
    label: str, run: Callable[[Shape, Shape], None], transfer: Tiled, pred: set[Node] | None
) -> Node | None:
    """Submit a transfer; return the node of the whole if it is pending.

    Args:
        label: Name of the op.
        run: Moves a rectangle, given its corner in the local tensor and its extents.
        transfer: What is moved.
        pred: Nodes that must be complete first.
    """
    graph, t = CONTEXT.graph, transfer.local
    blocks = () if graph.idle else blocks_of(t.valid_shape, transfer.tile)
    if len(blocks) < 2 or not _is_divided(transfer, pred):
        if pred:
            pred = narrowed(pred, transfer.memory, transfer.low, t.valid_shape)
        whole = tuple([0] * len(t.valid_shape))
        reads, writes = ((), (t,)) if transfer.writes else ((t,), ())
        return run_op(
            label, lambda: run(whole, t.valid_shape), reads=reads, writes=writes, pred=pred
        )
    if t.buffer.batch == graph.batch_number:
        graph.flush()
    pieces = []
    for first, extent in blocks:
        deps = narrowed(pred or (), transfer.memory, _sum(transfer.low, first), extent)
        t.buffer.collect(_sum(t.low, first), extent, transfer.writes, deps)
        pieces.append((deps, functools.partial(run, first, extent)))
    nodes, node = graph.submit_pieces(label, pieces)
    for (first, extent), piece in zip(blocks, nodes, strict=True):
        if piece is not None:
            entry = (piece, _sum(t.low, first), extent, transfer.writes)
            t.buffer.pending.append(entry)
    if node is not None:
        node.pieces = Pieces(
            transfer.memory, transfer.low, t.valid_shape, blocks, nodes.__getitem__
        )
    return node


def _is_divided(transfer: Tiled, pred: set[Node] | None) -> bool:
    t = transfer.local
    return (pred is not None and divides(pred, transfer.memory)) or t.buffer.is_held_in_part(
        t.low, t.valid_shape, transfer.writes
    )


def run_signals(
    send: Callable[[list[int]], None], memory: Memory, grid: Grid, pred: set[Node]
) -> Node | None:
    """Submit the signals of a view, each of which waits for the tiles that it announces.

    Args:
        send: Signals the tiles of these numbers.
        memory: The symmetric tensor.
        grid: The view and its tiles.
        pred: What must be complete first.

    Returns:
        The node of the whole, if it is pending.
    """
    blocks = blocks_of(grid.shape, grid.tile)
    pieces = []
    for first, extent in blocks:
        deps = narrowed(pred, memory, _sum(grid.low, first), extent)
        pieces.append((deps, functools.partial(send, grid.tiles_in(first, extent))))
    nodes, node = CONTEXT.graph.submit_pieces("shmem_signal", pieces)
    if node is not None:
        node.pieces = Pieces(memory, grid.low, grid.shape, blocks, nodes.__getitem__)
    return node


def _sum(a: Shape, b: Shape) -> Shape:
    return tuple(map(int.__add__, a, b))
