"""Reductions: along dimensions, in windows, and scatters of what a window selects.

A reduction folds from its initial value in the order of the indices, the last dimension fastest.
StableHLO allows any order; this one is the same on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from emu.mlir.ir import Operation, Region
from emu.mlir.types import Type
from emu.stablehlo.reference.dtypes import result_dtype
from emu.stablehlo.reference.elementwise import convert
from emu.stablehlo.reference.scope import Scope, handles
from emu.stablehlo.reference.shaping import pad, result_shape
from emu.stablehlo.reference.values import Array
from emu.stablehlo.syntax import ints
from emu.stablehlo.windows import windows


def fold(
    region: Region, starts: Sequence[Array], lines: Sequence[Array], scope: Scope
) -> list[Array]:
    """Fold arrays along their first dimension.

    Args:
        region: Combines the totals and the next elements, all of rank 0.
        starts: Initial totals, which broadcast to the other dimensions.
        lines: One array per total.
        scope: Values around the region.

    Returns:
        Totals, of the shape that lines have behind the first dimension.
    """
    shape = lines[0].shape[1:]
    totals = [np.broadcast_to(start, shape) for start in starts]
    for step in range(lines[0].shape[0]):
        totals = scope.apply(region, [*totals, *(line[step] for line in lines)], shape)
    return totals


@handles("stablehlo.reduce")
def _reduce(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    count = len(args) // 2
    inputs, starts = args[:count], args[count:]
    dimensions = sorted(ints(op.properties["dimensions"]))
    kept = [d for d in range(inputs[0].ndim) if d not in dimensions]
    shape = tuple(inputs[0].shape[d] for d in kept)
    length = int(np.prod([inputs[0].shape[d] for d in dimensions], dtype=int))
    region = op.regions[0]
    types = [parameter.type for parameter in region.blocks[0].arguments]
    lines = [x.transpose([*dimensions, *kept]).reshape(length, *shape) for x in inputs]
    if not all(line.size for line in lines) and lines[0].shape[0] == 0:
        return [np.broadcast_to(start, shape) for start in starts]
    lines, starts = _promoted(types, lines, starts)
    return fold(region, starts, lines, scope)


def _promoted(
    types: Sequence[Type], lines: Sequence[Array], starts: Sequence[Array]
) -> tuple[list[Array], list[Array]]:
    """Convert inputs and initial values to the types that the region works in."""
    count = len(lines)
    wide = [result_dtype(t) for t in types[:count]]
    return (
        [convert(line, dtype) for line, dtype in zip(lines, wide, strict=True)],
        [convert(start, dtype) for start, dtype in zip(starts, wide, strict=True)],
    )


# Windows


def window_view(
    x: Array, sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Array:
    """Return a view ``[*places, *window]`` of the windows of an array that is padded already.

    There are none where a window is longer than the array.
    """
    spans = [(size - 1) * dilation + 1 for size, dilation in zip(sizes, dilations, strict=True)]
    if any(full < span for full, span in zip(x.shape, spans, strict=True)):
        places = tuple(
            max(0, (full - span) // stride + 1)
            for full, span, stride in zip(x.shape, spans, strides, strict=True)
        )
        return np.empty((*places, *sizes), x.dtype)
    # As plain bytes: NumPy cannot describe the dtypes of ml_dtypes that take one byte.
    plain = x.view(np.uint8) if x.dtype.itemsize == 1 else x
    view = np.lib.stride_tricks.sliding_window_view(plain, spans).view(x.dtype)
    steps = [slice(None, None, stride) for stride in strides]
    within = [slice(None, None, dilation) for dilation in dilations]
    return view[(*steps, *within)]


@handles("stablehlo.reduce_window")
def _reduce_window(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    count = len(args) // 2
    inputs, starts = args[:count], args[count:]
    sizes = ints(op.properties["window_dimensions"])
    rank = len(sizes)
    found = windows(op, sizes, ("base_dilations", "window_dilations"))
    strides, dilations = [w.stride for w in found], [w.dilation for w in found]
    low, high = ([w.padding[side] for w in found] for side in (0, 1))
    interior = [w.base_dilation - 1 for w in found]
    lines = []
    for x, start in zip(inputs, starts, strict=True):
        padded = pad(x, convert(start, x.dtype), low, high, interior)
        view = window_view(padded, sizes, strides, dilations)
        moved = view.transpose([*range(rank, 2 * rank), *range(rank)])
        lines.append(moved.reshape(math.prod(sizes), *result_shape(op)))
    types = [parameter.type for parameter in op.regions[0].blocks[0].arguments]
    lines, wide = _promoted(types, lines, starts)
    return fold(op.regions[0], wide, lines, scope)


@handles("stablehlo.select_and_scatter")
def _select_and_scatter(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    x, source, start = args
    rank = x.ndim
    sizes = ints(op.properties.get("window_dimensions")) or (1,) * rank
    found = windows(op, sizes, ("base_dilations", "window_dilations"))
    strides = [w.stride for w in found]
    low, high = ([w.padding[side] for w in found] for side in (0, 1))
    select, combine = op.regions
    none = [0] * rank
    # Places in the flat input; -1 outside of it, where nothing is selected.
    numbers = np.arange(x.size).reshape(x.shape)
    padded = pad(numbers, np.asarray(-1), low, high, none)
    view = window_view(padded, sizes, strides, [1] * rank)
    places = view.reshape(source.size, math.prod(sizes))
    flat = x.reshape(-1)
    chosen = np.full(source.size, -1)
    for column in places.T if x.size else ():
        value, best = flat[np.maximum(column, 0)], flat[np.maximum(chosen, 0)]
        (keep,) = scope.apply(select, [best, value], chosen.shape)
        better = (column >= 0) & ((chosen < 0) | ~np.asarray(keep, np.bool_))
        chosen = np.where(better, column, chosen)
    result = np.full(x.size, start, x.dtype)
    for place, value in zip(chosen, source.reshape(-1), strict=True):
        if place >= 0:
            (total,) = scope.apply(combine, [result[place], np.asarray(value)], ())
            result[place] = total[()]
    return (result.reshape(x.shape),)
