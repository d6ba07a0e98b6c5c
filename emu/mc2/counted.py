"""Operators as counts: products, what scales and norms add to them, and bytes of operands and results of this PE.

What other PEs send is in no count of an operator: tasks of the communication server are bytes from one PE to another.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from emu.comm.server.tasks import NUMPY_DTYPES
from emu.comm.tiling.enums import HcclCommand
from emu.comm.world.group import Group
from emu.mc2.arguments import FLOAT32, INT8, Array, local_memory
from emu.tile.counting import operators
from emu.tile.counting.operators import OperatorCounts, Product
from emu.tile.counting.places import place_of_program
from emu.tile.counting.state import Counting, wants_operators
from emu.tile.counting.work import Work
from emu.tile.types import FROM_NUMPY
from emu.trace.counting.collectives import Collective, pairs_of

_COLLECTIVES = {
    HcclCommand.ALLREDUCE: "all_reduce",
    HcclCommand.ALLGATHER: "all_gather",
    HcclCommand.REDUCE_SCATTER: "reduce_scatter",
    HcclCommand.ALLTOALL: "all_to_all",
    HcclCommand.ALLTOALLV: "all_to_all_v",
}
"""Collectives of a group that move what the commands do."""


def multiplications(elements: int, factors: int = 1) -> Work:
    """Return the work of multiplying elements by some scales, in fp32."""
    return operators.added(_name(FLOAT32), elements * factors)


def normalised(dtype: np.dtype[np.generic], elements: int) -> Work:
    """Return the work of adding a residual to elements and normalising their rows."""
    name = _name(dtype)
    norm = operators.fused(operators.FUSED["_fused_rms_norm"], name, elements)
    return operators.added(name, elements) + norm


def restored(dtype: np.dtype[np.generic], elements: int) -> Work:
    """Return the work of making a weight of quantised elements."""
    return operators.fused(operators.FUSED["dequantize"], _name(dtype), elements)


class SpanCounts:
    """What a span computes; parts of one product are one kernel of a device."""

    def __init__(self) -> None:
        self._rows: Counter[tuple[Hashable, int, int, np.dtype[np.generic]]] = Counter()
        self._bytes: Counter[tuple[str, str, str]] = Counter()
        self._work: Work = Counter()

    def multiply(
        self,
        x1: Array,
        out: Array,
        *,
        scales: int = 0,
        more: Array | None = None,
        weight: Hashable = None,
    ) -> None:
        """Add some rows of a product.

        Args:
            x1: [..., k], the rows.
            out: [..., n], their results.
            scales: Factors of each result in fp32.
            more: What is added to the results.
            weight: Tells products of several weights apart.
        """
        k, n = x1.shape[-1], out.shape[-1]
        self._rows[weight, k, n, x1.dtype] += math.prod(x1.shape[:-1])
        self._move("loaded", "x1", x1)
        self._move("stored", "result", out)
        if scales:
            self._work += multiplications(out.size, scales)
        if more is not None:
            self._work += operators.added(_name(FLOAT32), more.size)
            self._move("loaded", "more", more)

    def normalise(self, rows: Array) -> None:
        """Add that a residual is added to rows, and that they are normalised."""
        self._work += normalised(rows.dtype, rows.size)
        for verb, operand in (
            ("loaded", "y"),
            ("loaded", "residual"),
            ("stored", "y"),
            ("stored", "result"),
        ):
            self._move(verb, operand, rows)

    def _move(self, verb: str, operand: str, array: Array) -> None:
        self._bytes[verb, operand, _name(array.dtype)] += array.size * array.itemsize

    def to_json(self, name: str) -> list[dict[str, Any]]:
        """Return the counts of a call of this name, as an event has them; none if nothing was computed."""
        if not self._bytes:
            return []
        found = OperatorCounts()
        found.operators = max(1, len(self._rows))
        for (_, k, n, dtype), m in self._rows.items():
            kind = _name(dtype)
            found.multiply(Product(1, m, n, k), kind, kind, "i32" if dtype == INT8 else "f32")
            found.move("x2", kind, loaded=k * n * dtype.itemsize)
        found.work.update(self._work)
        for (verb, operand, kind), nbytes in self._bytes.items():
            found.move(operand, kind, **{verb: nbytes})
        return [found.counts(name, ("", 0)).to_json()]


def note_operator(
    name: str,
    products: Sequence[tuple[tuple[int, int, int], np.dtype[np.generic]]],
    read: Mapping[str, object],
    written: Mapping[str, object],
    *more: Work,
) -> None:
    """Count a call of an operator that is over, if operators count.

    Args:
        name: The operator's.
        products: ``(m, n, k)`` of each product, and the dtype of its operands.
        read: Operands by name; those that are None are left out.
        written: Results by name; the same.
        more: Other work.
    """
    if not wants_operators() or Counting.sink is None:
        return
    found = OperatorCounts()
    found.operators = 1
    for (m, n, k), dtype in products:
        kind = _name(dtype)
        found.multiply(Product(1, m, n, k), kind, kind, "i32" if dtype == INT8 else "f32")
    found.work.update(sum(more, Counter()))
    for operand, value in read.items():
        if value is not None:
            kind, nbytes = _memory(operand, value)
            found.move(operand, kind, loaded=nbytes)
    for operand, value in written.items():
        if value is not None:
            kind, nbytes = _memory(operand, value)
            found.move(operand, kind, stored=nbytes)
    Counting.sink(found.counts(name, place_of_program()))


def note_task(group: Group, task: Array) -> None:
    """Note what a task of the communication server takes from this PE to each other one, if bytes are counted.

    Args:
        group: The communicator.
        task: The task's message, or its record (:mod:`emu.comm.server.tasks`).
    """
    if Counting.moved is None:
        return
    command, turns = HcclCommand(int(task["command"])), int(task["repeat"])
    dtype = NUMPY_DTYPES[int(task["dtype"])]
    count, n_pes = int(task["count"]), group.n_pes
    counts: Sequence[int] = ()
    if command == HcclCommand.ALLTOALLV:
        counts = task["send_counts"].tolist()
    elif command in (HcclCommand.REDUCE_SCATTER, HcclCommand.ALLTOALL):
        count *= n_pes  # the message has that for one member
    call = Collective(_COLLECTIVES[command], group.my_pe, n_pes, count, dtype.itemsize, counts)
    for pe, nbytes in pairs_of(call):
        Counting.moved(group.members[group.my_pe], group.members[pe], nbytes * turns)


def _memory(name: str, value: object) -> tuple[str, int]:
    """Return name of the dtype and bytes of an array."""
    array = local_memory(name, value)
    return _name(array.dtype), math.prod(array.shape) * array.itemsize


def _name(dtype: np.dtype[np.generic]) -> str:
    return FROM_NUMPY[dtype].name
