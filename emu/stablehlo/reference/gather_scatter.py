"""Gathers and scatters."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from emu.mlir.ir import Operation
from emu.stablehlo.attributes import GatherDimensionNumbers, ScatterDimensionNumbers
from emu.stablehlo.checks import integer
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.scope import Scope, handles
from emu.stablehlo.reference.shaping import result_shape
from emu.stablehlo.reference.values import Array
from emu.stablehlo.syntax import ints

Grid = tuple[np.ndarray, ...]
"""One index array per dimension of the operand; they broadcast to the elements of the result."""


def full_index(
    indices: Array,
    index_vector_dim: int,
    index_map: Sequence[int],
    batching: Sequence[tuple[int, int]],
    rank: int,
) -> tuple[list[np.ndarray], tuple[int, ...]]:
    """Return where each slice starts, per dimension of the operand, and the shape of all slices.

    Args:
        indices: Start indices.
        index_vector_dim: Their dimension that holds the parts of one index; their rank for none.
        index_map: Dimension of the operand that each part belongs to.
        batching: Pairs of a batching dimension of the operand and of the indices.
        rank: Rank of the operand.
    """
    if index_vector_dim == indices.ndim:
        indices = indices[..., None]
    vectors = np.moveaxis(indices, index_vector_dim, -1).astype(np.int64)
    shape = vectors.shape[:-1]
    starts = [np.zeros(shape, np.int64) for _ in range(rank)]
    for part, dimension in enumerate(index_map):
        starts[dimension] = vectors[..., part]
    for dimension, other in batching:
        # The dimension of the index vector does not count among the batch dimensions.
        place = other - (other > index_vector_dim)
        line = np.arange(shape[place])
        line = line.reshape([-1 if d == place else 1 for d in range(len(shape))])
        starts[dimension] = np.broadcast_to(line, shape)
    return starts, shape


def slice_grid(
    starts: Sequence[np.ndarray],
    sizes: Sequence[int],
    dropped: Sequence[int],
    window_dims: Sequence[int],
    rank: int,
) -> Grid:
    """Return index arrays of rank ``rank``: the window's dimensions at ``window_dims``, the batch's at the rest."""
    batch_dims = [d for d in range(rank) if d not in window_dims]
    places = dict(zip((d for d in range(len(sizes)) if d not in dropped), window_dims, strict=True))
    grid = []
    for dimension, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        shape = [1] * rank
        for place, extent in zip(batch_dims, start.shape, strict=True):
            shape[place] = extent
        index = start.reshape(shape)
        if dimension in places:
            line = [1] * rank
            line[places[dimension]] = size
            index = index + np.arange(size).reshape(line)
        grid.append(index)
    return tuple(grid)


@handles("stablehlo.gather", "stablehlo.dynamic_gather")
def _gather(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    x, indices = args[:2]
    n = op.properties["dimension_numbers"]
    if not isinstance(n, GatherDimensionNumbers):
        raise EvaluationError("dimension_numbers are not those of a gather")
    given = op.properties.get("slice_sizes")
    sizes = ints(given) if given is not None else tuple(int(size) for size in args[2])
    batching = list(zip(n.operand_batching_dims, n.start_indices_batching_dims, strict=True))
    starts, _ = full_index(indices, n.index_vector_dim, n.start_index_map, batching, x.ndim)
    # A slice that would reach outside is moved inside.
    starts = [
        np.clip(start, 0, full - size)
        for start, full, size in zip(starts, x.shape, sizes, strict=True)
    ]
    dropped = (*n.collapsed_slice_dims, *n.operand_batching_dims)
    shape = result_shape(op)
    if math.prod(shape) and not math.prod(sizes):
        # The verifier lets a slice of no elements lose the dimension that says so.
        raise EvaluationError(f"slices of {list(sizes)} hold no element, but the result has some")
    grid = slice_grid(starts, sizes, dropped, n.offset_dims, len(shape))
    return (np.broadcast_to(x[grid], shape),)


@handles("stablehlo.torch_index_select")
def _index_select(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    x, indices = args
    dimension, batch = integer(op, "dim"), integer(op, "batch_dims")
    if not batch:
        return (np.take(x, indices.astype(np.int64), dimension, mode="clip"),)
    parts = [
        np.take(a, i.astype(np.int64), dimension - batch, mode="clip")
        for a, i in zip(
            x.reshape(-1, *x.shape[batch:]),
            indices.reshape(-1, *indices.shape[batch:]),
            strict=True,
        )
    ]
    return (np.stack(parts).reshape(result_shape(op)),)


@handles("stablehlo.scatter")
def _scatter(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    count = len(args) // 2
    inputs, indices, updates = args[:count], args[count], args[count + 1 :]
    n = op.properties["scatter_dimension_numbers"]
    if not isinstance(n, ScatterDimensionNumbers):
        raise EvaluationError("scatter_dimension_numbers are not those of a scatter")
    shape = inputs[0].shape
    batching = list(zip(n.input_batching_dims, n.scatter_indices_batching_dims, strict=True))
    starts, _ = full_index(
        indices, n.index_vector_dim, n.scatter_dims_to_operand_dims, batching, len(shape)
    )
    dropped = (*n.inserted_window_dims, *n.input_batching_dims)
    window = iter(updates[0].shape[d] for d in n.update_window_dims)
    sizes = [1 if d in dropped else next(window) for d in range(len(shape))]
    grid = slice_grid(starts, sizes, dropped, n.update_window_dims, updates[0].ndim)
    grid = tuple(np.broadcast_to(index, updates[0].shape).reshape(-1) for index in grid)
    # XLA leaves out an element outside of the operand.
    inside = np.ones(updates[0].size, np.bool_)
    for index, full in zip(grid, shape, strict=True):
        inside &= (index >= 0) & (index < full)
    flat = np.zeros(updates[0].size, np.int64)
    for index, full in zip(grid, shape, strict=True):
        flat = flat * full + np.where(inside, index, 0)
    results = [x.reshape(-1).copy() for x in inputs]
    values = [u.reshape(-1)[inside] for u in updates]
    _combine(op, results, flat[inside], values, scope)
    return [r.reshape(shape) for r in results]


def _combine(
    op: Operation, results: list[Array], places: np.ndarray, values: list[Array], scope: Scope
) -> None:
    """Combine values into places, in order where several meet: a round per repetition."""
    left = np.arange(places.size)
    while left.size:
        _, first = np.unique(places[left], return_index=True)
        now = left[np.sort(first)]
        here = places[now]
        given = [*(r[here] for r in results), *(v[now] for v in values)]
        found = scope.apply(op.regions[0], given, now.shape)
        for result, value in zip(results, found, strict=True):
            result[here] = value
        left = np.delete(left, first)
