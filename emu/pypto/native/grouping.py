"""Groups: which ops of a batch one kernel computes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from emu.pypto.native.batch import Scalar, Spot, Step, Store
from emu.pypto.native.lowering import NEEDS_ROWS, can_lower, tile_dtype
from emu.pypto.symbolic import Shape
from emu.tile.fusion import LONGEST_ROW

MOST_OPS = 48
"""Ops of a group; LLVM's time grows with the square of what is live."""

MOST_BUFFERS = 24
"""Buffers that a group touches."""


@dataclass
class Group:
    """Ops that one kernel computes.

    Attributes:
        steps: Numbers of the ops.
        space: Extents of the loop.
        reduced: Axis of it that is reduced; None if none is.
        levels: For each op whether its results have an element per row.
    """

    steps: list[int]
    space: Shape
    reduced: int | None = None
    levels: list[bool] = field(default_factory=list)


def find_groups(steps: Sequence[Step], stores: Sequence[Store], least: int) -> list[Group | int]:
    """Divide a batch, in order: groups, and numbers of single ops that run by their reference.

    Args:
        steps: The ops.
        stores: The buffers that they touch.
        least: Elements from which on an op is compiled.
    """
    found: list[Group | int] = []
    grower: _Grower | None = None
    for number, step in enumerate(steps):
        if not _can_compile(step, stores, least):
            grower = None
            found.append(number)
            continue
        if grower is not None and grower.add(number, step):
            continue
        grower = _Grower(stores, step)
        if grower.add(number, step):
            found.append(grower.group)
        else:
            # Alone it fits no loop: it moves elements within one buffer.
            grower = None
            found.append(number)
    return found


def space_of(step: Step) -> Shape:
    """Return the elements that an op walks."""
    if step.operation.kind == "map":
        return step.outputs[0].extent
    source = step.inputs[0]
    assert isinstance(source, Spot)
    return source.extent


def _can_compile(step: Step, stores: Sequence[Store], least: int) -> bool:
    spots = [x for x in (*step.inputs, *step.outputs) if isinstance(x, Spot)]
    if any(stores[spot.buffer].strides is None for spot in spots):
        return False
    sources = [
        tile_dtype(x.dtype if isinstance(x, Scalar) else stores[x.buffer].dtype)
        for x in step.inputs
    ]
    result = tile_dtype(stores[step.outputs[0].buffer].dtype)
    if not sources or not can_lower(step.operation, sources, result):
        return False
    space = space_of(step)
    if math.prod(space) < least:
        return False
    if step.operation.kind == "map":
        # What is padded with zeros is left to the reference.
        return all(_fits(x, step.outputs[0]) for x in step.inputs if isinstance(x, Spot))
    axis = axis_of(step)
    if space[axis] == 1:
        return False
    needs_rows = step.operation.kind == "row" or step.operation.name in NEEDS_ROWS
    return not needs_rows or _is_row(space, axis)


def _is_row(space: Shape, axis: int) -> bool:
    return math.prod(space[axis + 1 :]) == 1 and space[axis] <= LONGEST_ROW


def _fits(x: Spot, out: Spot) -> bool:
    """Return whether an operand is valid wherever the result is."""
    lead = len(out.shape) - len(x.shape)
    return all(
        valid == (n if n != out.shape[lead + axis] else out.extent[lead + axis])
        for axis, (n, valid) in enumerate(zip(x.shape, x.extent, strict=True))
    )


class _Grower:
    """A group that grows.

    A loop reads elements before it writes the same elements, and in no other order. So a buffer that is written may be
    touched in one rectangle only, whose elements correspond to those of the loop.
    """

    def __init__(self, stores: Sequence[Store], first: Step) -> None:
        self._stores = stores
        self.group = Group([], space_of(first))
        self._loaded: dict[int, set[tuple[Shape, Shape]]] = {}
        self._written: dict[int, tuple[Shape, Shape]] = {}
        self._levels: dict[int, bool] = {}

    def add(self, number: int, step: Step) -> bool:
        """Add an op if one loop can compute it with the others; return whether it did."""
        group = self.group
        if len(group.steps) >= MOST_OPS or not self._is_in_order(step):
            return False
        level = self._level(step)
        if level is None:
            return False
        if step.operation.kind != "map":
            group.reduced = axis_of(step)
        group.steps.append(number)
        group.levels.append(level)
        for x in step.inputs:
            if isinstance(x, Spot) and x.buffer not in self._written:
                self._loaded.setdefault(x.buffer, set()).add((x.low, x.extent))
        for out in step.outputs:
            self._written[out.buffer] = (out.low, out.extent)
            self._levels[out.buffer] = level
        return True

    def _is_in_order(self, step: Step) -> bool:
        """Return whether each buffer that is written is touched in one rectangle."""
        loaded, written = self._loaded, self._written
        for x in step.inputs:
            if isinstance(x, Spot) and written.get(x.buffer, (x.low, x.extent)) != (
                x.low,
                x.extent,
            ):
                return False
        reads = [x for x in step.inputs if isinstance(x, Spot) and x.buffer not in written]
        for out in step.outputs:
            place = (out.low, out.extent)
            before = loaded.get(out.buffer, set()) | {
                (x.low, x.extent) for x in reads if x.buffer == out.buffer
            }
            if written.get(out.buffer, place) != place:
                return False
            # What is broadcast, or has an element per row, is read for several places of the loop.
            if before and (before != {place} or out.extent != self.group.space):
                return False
        return len({*loaded, *written}) <= MOST_BUFFERS

    def _level(self, step: Step) -> bool | None:
        """Return whether the results of an op have an element per row; None if it does not fit."""
        space, reduced = self.group.space, self.group.reduced
        if step.operation.kind != "map":
            return self._level_of_reduction(step)
        extent = step.outputs[0].extent
        inside = [x for x in step.inputs if isinstance(x, Spot) and x.buffer in self._levels]
        rows = [x for x in inside if self._levels[x.buffer]]
        if extent == space:
            if not rows:
                return False
            assert reduced is not None
            kept = (*space[:reduced], 1, *space[reduced + 1 :])
            # Results of rows are there in time where a program keeps whole rows.
            fits = _is_row(space, reduced) and all(x.extent == kept for x in rows)
            return False if fits else None
        if reduced is None or len(rows) < len(inside):
            return None
        kept = (*space[:reduced], 1, *space[reduced + 1 :])
        if extent not in (kept, (*space[:reduced], *space[reduced + 1 :])):
            return None
        return True if all(x.extent == extent for x in rows) else None

    def _level_of_reduction(self, step: Step) -> bool | None:
        space, reduced, axis = self.group.space, self.group.reduced, axis_of(step)
        if space_of(step) != space or reduced not in (None, axis):
            return None
        for x in step.inputs:
            # Results of rows in the place of what is reduced, or of weights, would be read in another shape.
            if isinstance(x, Spot) and x.buffer in self._levels and x.extent != space:
                return None
        return step.operation.kind == "reduce"


def axis_of(step: Step) -> int:
    """Return the axis that an op reduces, its first attribute."""
    axis = step.attributes[0]
    assert isinstance(axis, int)
    return axis
