"""Control flow, calls, and operations with regions that run once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emu.mlir.attributes import IntegerAttr
from emu.mlir.ir import Operation, Region
from emu.stablehlo.checks import integer
from emu.stablehlo.reference.scope import Scope, callee, handles
from emu.stablehlo.reference.values import Array


@handles("func.call", "stablehlo.composite")
def _call(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return scope.call(callee(op), args)


@handles("stablehlo.while")
def _while(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    condition, body = op.regions
    # Each device decides for itself: that a loop with collectives runs as often on all of them is the program's duty.
    carried = list(args)
    while scope.run(condition, carried)[0]:
        carried = scope.run(body, carried)
    return carried


@handles("stablehlo.if")
def _if(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return scope.run(op.regions[0 if args[0] else 1], [])


@handles("stablehlo.case")
def _case(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    # An index that is out of range, a negative one too, takes the last branch.
    index, last = int(args[0]), len(op.regions) - 1
    return scope.run(op.regions[index if 0 <= index <= last else last], [])


@handles("stablehlo.map")
def _map(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return [np.array(a) for a in scope.apply(op.regions[0], args, args[0].shape)]


@handles("stablehlo.sort")
def _sort(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    attribute = op.properties.get("dimension")
    dimension = attribute.value if isinstance(attribute, IntegerAttr) else -1
    return sorted_by(op.regions[0], args, dimension, scope)


def sorted_by(
    comparator: Region, arrays: Sequence[Array], dimension: int, scope: Scope
) -> Sequence[Array]:
    """Return arrays of one shape, sorted together along a dimension by a comparator."""
    if not arrays[0].ndim:
        return arrays
    lines = [np.moveaxis(a, dimension, -1) for a in arrays]
    shape = lines[0].shape
    order = sorted_order(comparator, [line.reshape(-1, shape[-1]) for line in lines], scope)
    order = order.reshape(shape)
    return [np.moveaxis(np.take_along_axis(a, order, -1), -1, dimension) for a in lines]


def sorted_order(comparator: Region, lines: Sequence[Array], scope: Scope) -> np.ndarray:
    """Return, per line, the places of the elements in sorted order.

    Merges of runs of 1, 2, 4 … in all lines at once: stable, and no more comparisons than a merge
    sort makes, each of which the comparator's region decides.
    """
    count, length = lines[0].shape
    order = np.broadcast_to(np.arange(length), (count, length)).copy()

    def is_less(rows: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        pairs = [side for line in lines for side in (line[rows, left], line[rows, right])]
        (found,) = scope.apply(comparator, pairs, rows.shape)
        return np.asarray(found, np.bool_)

    width = 1
    while width < length:
        merged = np.empty_like(order)
        starts = np.arange(0, length, 2 * width)
        rows, begin = (a.reshape(-1) for a in np.meshgrid(np.arange(count), starts, indexing="ij"))
        left, right = begin.copy(), np.minimum(begin + width, length)
        left_end, right_end = right.copy(), np.minimum(begin + 2 * width, length)
        for step in range(2 * width):
            live = begin + step < right_end
            take_right = live & (right < right_end)
            both = take_right & (left < left_end)
            if both.any():
                r, a, b = rows[both], left[both], right[both]
                take_right[both] = is_less(r, order[r, b], order[r, a])
            chosen = np.where(take_right, right, left)[live]
            merged[rows[live], (begin + step)[live]] = order[rows[live], chosen]
            right = right + take_right
            left = left + (live & ~take_right)
        order, width = merged, 2 * width
    return order


# Several values as one


def packed(values: Sequence[Array]) -> Array:
    """Return the value of a tuple: an array of objects, one per element."""
    found = np.empty(len(values), object)
    for index, value in enumerate(values):
        found[index] = value
    return found


@handles("stablehlo.tuple")
def _tuple(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return (packed(args),)


@handles("stablehlo.get_tuple_element")
def _get_tuple_element(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return (args[0][integer(op, "index")],)


@handles("stablehlo.async_start")
def _async_start(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    # Computed at once: a program cannot see when a future's value is there.
    return (packed(scope.run(op.regions[0], args)),)


@handles("stablehlo.async_done")
def _async_done(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return list(args[0])
