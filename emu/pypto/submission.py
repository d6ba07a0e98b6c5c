"""Submission of ops: what an op waits for, and whether it joins the batch or becomes a node.

An op is submitted with the rectangles that it reads and writes. What else they are, this module does not know.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from math import prod

import numpy as np

from emu.comm.world import recording
from emu.pypto import operation as operations
from emu.pypto.buffer import LARGE
from emu.pypto.context import CONTEXT
from emu.pypto.family import submit_divided
from emu.pypto.node import Node
from emu.pypto.operation import LocalOp, Operation, Rectangle
from emu.pypto.recorded import record_action
from emu.tile.counting.state import Counting, paused

MOST_OPS = 256
"""Ops that are gathered before they run."""

MOST_BYTES = 1 << 28
"""Bytes of results that gathered ops keep alive before they run."""


def nodes_of(t: Rectangle) -> set[Node]:
    """Return the pending nodes that must be complete before ``t`` may be read."""
    found: set[Node] = set()
    if t.node is not None and not t.node.done:
        found.add(t.node)
    if t.buffer.pending:
        t.buffer.collect(t.low, t.valid_shape, False, found)
    return found


def force(t: Rectangle) -> None:
    """Wait until a tensor's values are there."""
    graph = CONTEXT.graph
    graph.flush()
    if not graph.idle:
        graph.force(list(nodes_of(t)))
    if graph.order is not None:
        graph.order.forced(t)


def run_op(
    label: str,
    action: Callable[[], None],
    *,
    reads: Sequence[Rectangle] = (),
    writes: Sequence[Rectangle] = (),
    pred: set[Node] | None = None,
) -> Node | None:
    """Submit an op that communicates; return its node if it is pending.

    Args:
        label: Name of the op.
        action: Function that runs it.
        reads: Local tensors that it reads.
        writes: Local tensors that it writes, on memory of their own.
        pred: Nodes that must be complete first.
    """
    graph = CONTEXT.graph
    for t in reads:
        if t.buffer.batch == graph.batch_number:
            graph.flush()
    if graph.idle:
        if recording.active is None:
            action()
        else:
            record_action(recording.active, label, action)
        return None
    deps = set() if pred is None else pred
    for t in reads:
        deps |= nodes_of(t)
    for t in writes:
        t.buffer.collect(t.low, t.valid_shape, True, deps)
    node = graph.submit(label, deps, action=action)
    if node is not None:
        touch(node, reads, writes)
    return node


def touch(node: Node, reads: Iterable[Rectangle], writes: Iterable[Rectangle]) -> None:
    """Note that a pending node reads and writes tensors."""
    for t in reads:
        t.buffer.pending.append((node, t.low, t.valid_shape, False))
    for t in writes:
        t.buffer.pending.append((node, t.low, t.valid_shape, True))


def submit(
    operation: Operation,
    inputs: tuple[Rectangle | np.generic, ...],
    outputs: tuple[Rectangle, ...],
    attributes: tuple[Hashable, ...] = (),
) -> None:
    """Submit a local op.

    In a kernel it joins the others that have not run, which are computed together when a value is needed.

    Args:
        operation: What it computes.
        inputs: Tensors, and numbers of the type of the arithmetic.
        outputs: Tensors that it writes, all of their valid part.
        attributes: What else the operation takes.
    """
    graph, op = CONTEXT.graph, (operation, inputs, outputs, attributes)
    if Counting.operators:
        _count(op)
    if graph.order is not None:
        graph.order.local([t for t in inputs if not isinstance(t, np.generic)], outputs)
    if graph.is_lazy and not graph.pending:
        batch, number, least = graph.batch, graph.batch_number, operations.LEAST_ELEMENTS
        batch.append(op)
        for t in outputs:
            buffer = t.buffer
            buffer.batch = number
            buffer.is_written = True
            if buffer.size >= least:
                graph.batch_is_large = True
        for x in inputs:
            if not isinstance(x, np.generic) and x.buffer.size >= least:
                graph.batch_is_large = True
                if x.buffer.memory is not None and not x.buffer.is_foreign:
                    # It lives at least until the batch runs.
                    graph.batch_bytes += x.buffer.memory.nbytes
        if (
            len(batch) >= MOST_OPS
            or operation.may_fail
            or graph.batch_bytes > MOST_BYTES
            or (operation.reads_all and _is_large(inputs))
        ):
            graph.flush()
        return
    _submit_with_dependencies(op)


def _count(op: LocalOp) -> None:
    from emu.pypto.counted import note  # where somebody counts; it is not needed else

    note(op)


@contextlib.contextmanager
def in_parts(
    operation: Operation,
    inputs: tuple[Rectangle, ...],
    outputs: tuple[Rectangle, ...],
    attributes: tuple[Hashable, ...] = (),
) -> Iterator[None]:
    """Let what the block submits count as one op, whose parts it is.

    Arguments as of :func:`submit`.
    """
    if not Counting.operators:
        yield
        return
    _count((operation, inputs, outputs, attributes))
    with paused():
        yield


def _is_large(inputs: tuple[Rectangle | np.generic, ...]) -> bool:
    """Return whether an op that reads whole tensors may find too little memory for one that is valid in a part only."""
    return any(
        not isinstance(t, np.generic)
        and t.shape != t.valid_shape
        and prod(t.shape) * t.dtype.itemsize > LARGE
        for t in inputs
    )


def _submit_with_dependencies(op: LocalOp) -> None:
    graph = CONTEXT.graph
    operation, inputs, outputs, _ = op
    for out in outputs:
        out.buffer.is_written = True
    reads = [t for t in inputs if not isinstance(t, np.generic)]
    deps: set[Node] = set()
    if graph.pending:
        for t in reads:
            deps |= nodes_of(t)
        for out in outputs:
            out.buffer.collect(out.low, out.valid_shape, True, deps)
        if submit_divided(op, deps):
            return
    node = graph.submit_local(op, deps)
    if node is not None:
        touch(node, reads, outputs)
    elif graph.batch and graph.batch[-1] is op:
        for out in outputs:
            out.buffer.batch = graph.batch_number
        if any(t.buffer.size >= operations.LEAST_ELEMENTS for t in (*reads, *outputs)):
            graph.batch_is_large = True
        if operation.may_fail:
            graph.flush()
