"""Batches of ops as what a device would launch: counts of its kernels, one after the other.

Products, sorts and whatever else is no vector operation are kernels of their own. *Chains* of vector operations are one kernel each: consecutive ops
that walk the same elements, tile by tile, as a compiler for a device puts them into on-chip memory. A chain loads what it reads from outside once, and stores what somebody
else needs: another kernel of the batch, or the program. Backends divide batches in other ways, which does not matter here.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from emu.pypto.buffer import Buffer
from emu.pypto.counted import Described, add_work, counts_of, described
from emu.pypto.native.batch import Batch
from emu.pypto.operation import LocalOp, Rectangle
from emu.pypto.symbolic import Shape
from emu.tile.counting.counts import Counts
from emu.tile.counting.operators import OperatorCounts
from emu.tile.types import FROM_NUMPY

LONGEST_ROW = 16384
"""Elements of a row that on-chip memory keeps for a second walk, behind a reduction of it."""

_Bytes = tuple[str, int]
_Place = tuple[Shape, Shape]
"""Corner and extents of a rectangle of a buffer."""


class _Kernel(NamedTuple):
    """What a device would launch: ops, and (dtype, bytes) of what they load and store together; None: what the only op counts."""

    ops: tuple[Described, ...]
    moved: tuple[tuple[_Bytes, ...], tuple[_Bytes, ...]] | None


def kernels_of(ops: list[LocalOp]) -> tuple[Hashable, Callable[[], dict[str, Any]]]:
    """Return what tells batches with other counts apart, and what returns the details of the batch's event."""
    batch = Batch(ops)
    held = {buffer for buffer, needed in zip(batch.buffers, batch.needed, strict=True) if needed}
    chains: list[_Chain] = []
    for op in ops:
        if not chains or not chains[-1].add(op):
            chains.append(_Chain(op))
    users = Counter(buffer for chain in chains for buffer in chain.touched)
    shared = held | {buffer for buffer, times in users.items() if times > 1}
    kernels = tuple([chain.kernel(shared) for chain in chains])
    return kernels, functools.partial(_details, kernels)


def _details(kernels: Sequence[_Kernel]) -> dict[str, Any]:
    """Return the details of an event: the counts of each kernel; those that are alike, together."""
    alike = Counter(kernels)
    return {"counts": [_multiplied(_counts(k), times).to_json() for k, times in alike.items()]}


def _multiplied(counts: Counts, times: int) -> Counts:
    return functools.reduce(lambda total, one: total + one, [counts] * times)


@functools.lru_cache(4096)
def _counts(kernel: _Kernel) -> Counts:
    """Return the counts of a kernel."""
    if kernel.moved is None:
        return counts_of(kernel.ops[0], ("", 0))
    found = OperatorCounts()
    found.operators = 1
    for op in kernel.ops:
        add_work(found, op)
    loaded, stored = kernel.moved
    for dtype, nbytes in loaded:
        found.move("operands", dtype, loaded=nbytes)
    for dtype, nbytes in stored:
        found.move("results", dtype, stored=nbytes)
    return found.counts(kernel.ops[0].operation.name, ("", 0))


class _Chain:
    """Ops that one kernel does; it holds tensors alive, and must be gone when they are computed."""

    def __init__(self, op: LocalOp) -> None:
        self._ops = [op]
        self._space = _space_of(op)
        self._axis = _axis_of(op)
        self._read: dict[Buffer, set[_Place]] = {}
        self._written: dict[Buffer, _Place] = {}
        self._note(op)

    @property
    def touched(self) -> set[Buffer]:
        """What it reads and writes."""
        return {*self._read, *self._written}

    def add(self, op: LocalOp) -> bool:
        """Add an op, if it belongs to the chain; return whether it does."""
        if self._space is None or not self._walks(op) or not self._is_in_place(op):
            return False
        self._ops.append(op)
        axis = _axis_of(op)
        self._axis = self._axis if axis is None else axis
        self._note(op)
        return True

    def _walks(self, op: LocalOp) -> bool:
        """Return whether an op walks the same elements, or one for each row that was reduced."""
        space, mine = _space_of(op), self._space
        if space is None or mine is None:
            return False
        axis, reduced = _axis_of(op), self._axis
        if reduced is None:
            return space == mine
        if space == mine:
            is_row = math.prod(mine[reduced + 1 :]) == 1 and mine[reduced] <= LONGEST_ROW
            return is_row and axis in (None, reduced)
        kept = (*mine[:reduced], 1, *mine[reduced + 1 :])
        return axis is None and space in (kept, (*mine[:reduced], *mine[reduced + 1 :]))

    def _is_in_place(self, op: LocalOp) -> bool:
        """Return whether each buffer that the chain writes is touched in one rectangle of it."""
        _, inputs, outputs, _ = op
        for t in inputs:
            if not isinstance(t, np.generic):
                place = (t.low, t.valid_shape)
                if self._written.get(t.buffer, place) != place:
                    return False
        for t in outputs:
            place = (t.low, t.valid_shape)
            if self._written.get(t.buffer, place) != place:
                return False
            if self._read.get(t.buffer, {place}) != {place}:
                return False
        return True

    def _note(self, op: LocalOp) -> None:
        _, inputs, outputs, _ = op
        for t in inputs:
            if not isinstance(t, np.generic) and t.buffer not in self._written:
                self._read.setdefault(t.buffer, set()).add((t.low, t.valid_shape))
        for t in outputs:
            self._written[t.buffer] = (t.low, t.valid_shape)

    def kernel(self, shared: set[Buffer]) -> _Kernel:
        """Return what it is to a device.

        Args:
            shared: Buffers that somebody else needs.
        """
        ops = tuple([described(op) for op in self._ops])
        if self._space is None:
            return _Kernel(ops, None)
        loaded = [
            _bytes(buffer, extent)
            for buffer, places in self._read.items()
            for _, extent in sorted(places)
        ]
        stored = [
            _bytes(buffer, extent)
            for buffer, (_, extent) in self._written.items()
            if buffer in shared
        ]
        return _Kernel(ops, (tuple(loaded), tuple(stored)))


def _bytes(buffer: Buffer, extent: Shape) -> _Bytes:
    """Return the dtype of a rectangle of a buffer, and its bytes."""
    dtype = np.dtype(buffer.dtype)
    return FROM_NUMPY[dtype].name, math.prod(extent) * dtype.itemsize


def _space_of(op: LocalOp) -> Shape | None:
    """Return the elements that a vector operation walks; None: it is none."""
    operation, inputs, outputs, _ = op
    if operation.kind == "map":
        return outputs[0].valid_shape
    if operation.kind == "other":
        return None
    source: Rectangle | np.generic = inputs[0]
    return None if isinstance(source, np.generic) else source.valid_shape


def _axis_of(op: LocalOp) -> int | None:
    """Return the axis along which a vector operation needs whole rows; None: it needs none, or is no vector operation."""
    return int(op[3][0]) if op[0].kind in ("reduce", "row") else None
