"""Loops: the dimensions that the operands of a group share, as few of them as possible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from emu.pypto.symbolic import Shape
from emu.tile.fusion import Loop, Space, plan_loop


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Dimensions of a loop, made of neighbouring axes of a group's space.

    Attributes:
        axes: For each dimension the axes of the space that it joins.
        extents: Extent of each.
        labels: ``o``, ``r`` or ``i`` for each, see :class:`emu.tile.fusion.Loop`.
    """

    axes: tuple[tuple[int, ...], ...]
    extents: tuple[int, ...]
    labels: str

    def strides(self, of_axes: Sequence[int]) -> tuple[int, ...]:
        """Return strides along the dimensions, given those along the axes."""
        return tuple([of_axes[axes[-1]] for axes in self.axes])

    def loop(self) -> Loop:
        """Return the loop over these dimensions."""
        parts = dict.fromkeys("ori", 1)
        for extent, label in zip(self.extents, self.labels, strict=True):
            parts[label] *= extent
        return plan_loop(Space(parts["o"], parts["r"], parts["i"], ()), self.extents, self.labels)


def join_axes(shape: Shape, reduced: int | None, places: Sequence[Sequence[int]]) -> Dimensions:
    """Return the dimensions of a loop over a space.

    Axes of extent 1 vanish, and neighbours that all operands walk in one stride become one.

    Args:
        shape: Extents of the space.
        reduced: Axis that is reduced, if one is; its extent is not 1.
        places: Strides of each operand along the axes.
    """
    kept = [axis for axis, extent in enumerate(shape) if extent != 1]
    joined: list[list[int]] = []
    for axis in kept:
        before = joined[-1][-1] if joined else None
        if (
            before is not None
            and reduced not in (before, axis)
            and all(p[before] == p[axis] * shape[axis] for p in places)
        ):
            joined[-1].append(axis)
        else:
            joined.append([axis])
    extents = tuple([math.prod(shape[a] for a in axes) for axes in joined])
    labels = "".join([_label(axes[0], reduced) for axes in joined])
    return Dimensions(tuple(map(tuple, joined)), extents, labels)


def _label(axis: int, reduced: int | None) -> str:
    if reduced is None or axis < reduced:
        return "o"
    return "r" if axis == reduced else "i"
