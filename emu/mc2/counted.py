"""Operators as counts: products, what scales and norms add to them, and bytes of operands and results of this PE.

What other PEs send is in no count of an operator: tasks of the communication server are bytes from one PE to another.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

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
