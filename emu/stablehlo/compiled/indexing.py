"""Gathers and scatters by indices into memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from emu.kernels.jit import jit
from emu.mlir.ir import Operation
from emu.stablehlo.attributes import GatherDimensionNumbers, ScatterDimensionNumbers
from emu.stablehlo.compiled.fallback import store
from emu.stablehlo.compiled.forms import Action, Context, Form, Site, plans
from emu.stablehlo.compiled.storage import contiguous_strides
from emu.stablehlo.reference.dtypes import result_dtype
from emu.stablehlo.reference.gather_scatter import full_index, slice_grid
from emu.stablehlo.reference.scope import HANDLERS, Scope
from emu.stablehlo.reference.shaping import result_shape
from emu.stablehlo.reference.values import Array
from emu.stablehlo.regions import only_operation
from emu.stablehlo.syntax import ints


@dataclass(frozen=True)
class Addresses:
    """How start indices become places of elements.

    Attributes:
        vector: Dimension of the indices that holds the parts of one index; their rank for none.
        parts: Dimension of the operand per part of an index.
        batching: Pairs of a batching dimension of the operand and of the indices.
        shape: Shape of the operand.
        sizes: Shape of a slice.
    """

    vector: int
    parts: tuple[int, ...]
    batching: tuple[tuple[int, int], ...]
    shape: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def steps(self) -> tuple[int, ...]:
        """Distance of neighbours along each dimension of the operand, in elements."""
        return contiguous_strides(self.shape, 1)

    def starts(self, indices: Array) -> list[np.ndarray]:
        """Return where each slice starts along each dimension."""
        pairs = list(self.batching)
        return full_index(indices, self.vector, self.parts, pairs, len(self.shape))[0]

    def window(self) -> np.ndarray:
        """Return the distances of a slice's elements from its first, in its order."""
        grid = np.zeros(self.sizes, np.int64)
        for dimension, (size, step) in enumerate(zip(self.sizes, self.steps, strict=True)):
            line = [1] * len(self.sizes)
            line[dimension] = size
            grid = grid + (np.arange(size) * step).reshape(line)
        return grid


@dataclass(frozen=True)
class Take(Form):
    """A gather of whole rows.

    Attributes:
        axis: Dimension that the indices belong to.
        shape: Shape of the indices without their vector.
    """

    axis: int
    shape: tuple[int, ...]

    def bind(self, site: Site) -> Action:
        """Return what takes the rows."""
        axis, shape = self.axis, self.shape

        def run(x: Array, indices: Array, result: Array) -> None:
            # "clip" moves indices inside, as a gather of slices of one element does.
            np.take(x, indices.reshape(shape).astype(np.intp), axis, result, "clip")

        return site.all(run)


@dataclass(frozen=True)
class Gather(Form):
    """A gather of any slices.

    Attributes:
        addresses: Where slices are.
        dropped: Dimensions of a slice that the result has not.
        offsets: Dimensions of the result that are those of a slice.
        rank: Rank of the result.
    """

    addresses: Addresses
    dropped: tuple[int, ...]
    offsets: tuple[int, ...]
    rank: int

    def bind(self, site: Site) -> Action:
        """Return what gathers."""
        addresses, steps = self.addresses, self.addresses.steps
        zeros = [np.zeros((1,) * (self.rank - len(self.offsets)), np.int64) for _ in steps]
        grid = slice_grid(zeros, addresses.sizes, self.dropped, self.offsets, self.rank)
        window = sum(index * step for index, step in zip(grid, steps, strict=True))
        moving = [d for d in range(len(steps)) if d in addresses.parts or d in
                  {pair[0] for pair in addresses.batching}]  # fmt: skip
        batch = [d for d in range(self.rank) if d not in self.offsets]

        def run(x: Array, indices: Array, result: Array) -> None:
            starts = addresses.starts(indices)
            places = np.zeros([result.shape[d] for d in batch], np.int64)
            for d in moving:
                room = addresses.shape[d] - addresses.sizes[d]
                places += np.clip(starts[d], 0, room) * steps[d]
            shape = [1] * result.ndim
            for d, extent in zip(batch, places.shape, strict=True):
                shape[d] = extent
            np.take(x.reshape(-1), places.reshape(shape) + window, None, result, "clip")

        return site.all(run)


@plans("stablehlo.gather")
def _gather(context: Context) -> Form | None:
    x, indices = context.operands
    n = context.op.properties["dimension_numbers"]
    if not isinstance(n, GatherDimensionNumbers) or not x.size or not indices.size:
        return None
    sizes = ints(context.op.properties["slice_sizes"])
    shape = result_shape(context.op)
    if not math.prod(shape) or indices.dtype.kind not in "iu":
        return None
    batching = tuple(zip(n.operand_batching_dims, n.start_indices_batching_dims, strict=True))
    where = Addresses(n.index_vector_dim, tuple(n.start_index_map), batching, x.shape, sizes)
    found = _rows(n, where, indices.shape, len(shape))
    if found is not None:
        return found
    dropped = (*n.collapsed_slice_dims, *n.operand_batching_dims)
    return Gather(where, dropped, tuple(n.offset_dims), len(shape), contiguous=True)


def _rows(
    n: GatherDimensionNumbers, where: Addresses, indices: Sequence[int], rank: int
) -> Form | None:
    """Return the form of a gather that takes whole rows of one dimension."""
    if len(where.parts) != 1 or where.batching or tuple(n.collapsed_slice_dims) != where.parts:
        return None
    (axis,) = where.parts
    if any(
        d != axis and a != b for d, (a, b) in enumerate(zip(where.shape, where.sizes, strict=True))
    ):
        return None
    shape = tuple(size for d, size in enumerate(indices) if d != where.vector)
    behind = range(axis + len(shape), rank)
    return Take(axis, shape) if tuple(n.offset_dims) == (*range(axis), *behind) else None


# Scatters


@jit()
def _add(target, starts, window, updates):  # type: ignore[no-untyped-def]  # compiled per dtype
    for i in range(starts.size):
        if starts[i] < 0:
            continue
        for j in range(window.size):
            target[starts[i] + window[j]] += updates[i, j]


@jit()
def _add_rows(target, starts, window, updates):  # type: ignore[no-untyped-def]
    for i in range(starts.size):
        if starts[i] < 0:
            continue
        row = target[starts[i] : starts[i] + window.size]
        for j in range(window.size):
            row[j] += updates[i, j]


@jit()
def _multiply(target, starts, window, updates):  # type: ignore[no-untyped-def]
    for i in range(starts.size):
        if starts[i] < 0:
            continue
        for j in range(window.size):
            target[starts[i] + window[j]] *= updates[i, j]


@jit()
def _set(target, starts, window, updates):  # type: ignore[no-untyped-def]
    for i in range(starts.size):
        if starts[i] < 0:
            continue
        for j in range(window.size):
            target[starts[i] + window[j]] = updates[i, j]


_KERNELS: dict[str, Callable[..., None]] = {
    "add": _add,
    "add_rows": _add_rows,
    "multiply": _multiply,
    "set": _set,
}


def add_points(target: Array, places: np.ndarray, values: Array) -> None:
    """Add values to places of a row, in their order; those at negative places are left out."""
    _KERNELS["add"](target, places, np.zeros(1, np.int64), values.reshape(-1, 1))


@dataclass(frozen=True)
class Scatter(Form):
    """A scatter whose region adds, multiplies, or takes the update.

    Attributes:
        addresses: Where slices are.
        kernel: What combines.
        points: Number of slices.
    """

    addresses: Addresses
    kernel: str
    points: int

    def bind(self, site: Site) -> Action:
        """Return what scatters."""
        op, program = site.op, site.program
        where, points, steps = self.addresses, self.points, self.addresses.steps
        window = where.window().reshape(-1)
        is_row = bool(np.array_equal(window, np.arange(window.size)))
        kernel = _KERNELS["add_rows" if self.kernel == "add" and is_row else self.kernel]
        moving = sorted({*where.parts, *(pair[0] for pair in where.batching)})
        room = [where.shape[d] - where.sizes[d] for d in range(len(steps))]
        handler = HANDLERS[op.name]

        # A slice of one element along each dimension in which it moves is inside or outside as a whole.
        is_single = all(where.sizes[d] == 1 for d in moving)

        def run(x: Array, indices: Array, updates: Array, result: Array) -> None:
            starts = where.starts(indices)
            places = np.zeros(starts[0].shape, np.int64)
            outside = np.zeros(starts[0].shape, np.bool_)
            for d in moving:
                outside |= (starts[d] < 0) | (starts[d] > room[d])
                places += starts[d] * steps[d]
            if outside.any():
                if not is_single:
                    found = handler(op, [x, indices, updates], Scope(program, {}))
                    store(op, found, [result])
                    return
                places[outside] = -1
            if result is not x:
                np.copyto(result, x)
            target = result.reshape(-1)
            kernel(target, places.reshape(-1), window, updates.reshape(points, window.size))

        return site.all(run)


@plans("stablehlo.scatter")
def _scatter(context: Context) -> Form | None:
    op = context.op
    n = op.properties["scatter_dimension_numbers"]
    if len(context.operands) != 3 or not isinstance(n, ScatterDimensionNumbers):
        return None
    x, indices, updates = context.operands
    kernel = combiner(op)
    is_known = x.dtype.name in ("float32", "float64") or x.dtype.kind in "iu"
    is_known = is_known and x.dtype == updates.dtype and indices.dtype.kind in "iu"
    if kernel is None or not is_known or not updates.size or not x.size or not x.ndim:
        return None
    rank = updates.ndim
    windows = tuple(n.update_window_dims)
    if windows != tuple(range(rank - len(windows), rank)):
        return None
    dropped = (*n.inserted_window_dims, *n.input_batching_dims)
    extents = iter(updates.shape[d] for d in windows)
    sizes = tuple(1 if d in dropped else next(extents) for d in range(x.ndim))
    batching = tuple(zip(n.input_batching_dims, n.scatter_indices_batching_dims, strict=True))
    parts = tuple(n.scatter_dims_to_operand_dims)
    where = Addresses(n.index_vector_dim, parts, batching, x.shape, sizes)
    points = math.prod(updates.shape[: rank - len(windows)])
    return Scatter(where, kernel, points, in_place=((0, 0),), contiguous=True)


def combiner(op: Operation) -> str | None:
    """Return what a scatter's region does with the old and the new value, if it is one operation."""
    block = op.regions[0].blocks[0]
    operations = block.operations
    if len(block.arguments) != 2:
        return None
    old, new = block.arguments
    elements = {result_dtype(value.type) for value in (old, new, op.results[0])}
    if len(elements) != 1:
        return None
    if len(operations) == 1:
        return "set" if operations[0].operands == (new,) else None
    names = {"stablehlo.add": "add", "stablehlo.multiply": "multiply"}
    only = only_operation(op.regions[0])
    return None if only is None else names.get(only.name)
