"""Gathers and scatters by indices into memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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


@jit()
def _maximum(target, starts, window, updates):  # type: ignore[no-untyped-def]
    is_row = window[-1] - window[0] == window.size - 1  # places ascend
    for i in range(starts.size):
        if starts[i] < 0:
            continue
        if is_row:
            row = target[starts[i] : starts[i] + window.size]
            for j in range(window.size):
                old, new = row[j], updates[i, j]
                takes = (new > old) | (new != new)  # noqa: PLR0124  (NaN)
                # Of zeros only two negative ones are negative.
                row[j] = old + new if (new == 0) & (old == 0) else new if takes else old
            continue
        for j in range(window.size):
            old, new = target[starts[i] + window[j]], updates[i, j]
            takes = (new > old) | (new != new)  # noqa: PLR0124  (NaN)
            found = old + new if (new == 0) & (old == 0) else new if takes else old
            target[starts[i] + window[j]] = found


@jit()
def _minimum(target, starts, window, updates):  # type: ignore[no-untyped-def]
    is_row = window[-1] - window[0] == window.size - 1
    for i in range(starts.size):
        if starts[i] < 0:
            continue
        if is_row:
            row = target[starts[i] : starts[i] + window.size]
            for j in range(window.size):
                old, new = row[j], updates[i, j]
                takes = (new < old) | (new != new)  # noqa: PLR0124  (NaN)
                row[j] = -(-old - new) if (new == 0) & (old == 0) else new if takes else old
            continue
        for j in range(window.size):
            old, new = target[starts[i] + window[j]], updates[i, j]
            takes = (new < old) | (new != new)  # noqa: PLR0124  (NaN)
            found = -(-old - new) if (new == 0) & (old == 0) else new if takes else old
            target[starts[i] + window[j]] = found


_KERNELS: dict[str, Callable[..., None]] = {
    "add": _add,
    "add_rows": _add_rows,
    "maximum": _maximum,
    "minimum": _minimum,
    "multiply": _multiply,
    "set": _set,
}


def compile_scatters(dtypes: Sequence[np.dtype[Any]]) -> None:
    """Compile what combines updates of these dtypes, and what sets those of any dtype."""
    starts = np.zeros(1, np.int64)
    for dtype in dtypes:
        for name, kernel in _KERNELS.items():
            if name != "set":
                kernel(np.zeros(1, dtype), starts, starts, np.zeros((1, 1), dtype))
    for width in (1, 2, 4, 8):
        _set_bits(np.zeros(1, f"u{width}"), starts, starts, np.zeros((1, 1), f"u{width}"))


def add_points(target: Array, places: np.ndarray, values: Array) -> None:
    """Add values to places of a row, in their order; those at negative places are left out."""
    _KERNELS["add"](target, places, np.zeros(1, np.int64), values.reshape(-1, 1))


@dataclass(frozen=True)
class Scatter(Form):
    """A scatter whose region adds, multiplies, takes the greater or the less, or the update.

    Attributes:
        addresses: Where slices are.
        kernels: What combines, per operand.
        points: Number of slices.
    """

    addresses: Addresses
    kernels: tuple[str, ...]
    points: int

    def bind(self, site: Site) -> Action:
        """Return what scatters."""
        op, program, env = site.op, site.program, site.memory.env
        where, points, steps = self.addresses, self.points, self.addresses.steps
        window = where.window().reshape(-1)
        combine = [self._kernel(name, window) for name in self.kernels]
        count, results = len(combine), site.step.results
        inputs, index, changes = (
            site.step.operands[:count],
            site.step.operands[count],
            site.step.operands[count + 1 :],
        )
        handler = HANDLERS[op.name]

        def run() -> None:
            places = self._places(env[index], steps)
            if places is None:
                given = [env[s] for s in site.step.operands]
                store(op, handler(op, given, Scope(program, {})), [env[s] for s in results])
                return
            for kernel, source, change, target in zip(
                combine, inputs, changes, results, strict=True
            ):
                x, result = env[source], env[target]
                if result is not x:
                    np.copyto(result, x)
                updates = env[change].reshape(points, window.size)
                kernel(result.reshape(-1), places, window, updates)

        return run

    def _kernel(self, name: str, window: np.ndarray) -> Callable[..., None]:
        """Return what combines updates with an operand."""
        if name == "add" and np.array_equal(window, np.arange(window.size)):
            return _KERNELS["add_rows"]
        return _set_bits if name == "set" else _KERNELS[name]

    def _places(self, indices: Array, steps: Sequence[int]) -> np.ndarray | None:
        """Return where slices begin; a negative number for one outside. None where one is so in part."""
        where = self.addresses
        moving = sorted({*where.parts, *(pair[0] for pair in where.batching)})
        starts = where.starts(indices)
        places = np.zeros(starts[0].shape, np.int64)
        outside = np.zeros(starts[0].shape, np.bool_)
        for d in moving:
            outside |= (starts[d] < 0) | (starts[d] > where.shape[d] - where.sizes[d])
            places += starts[d] * steps[d]
        if outside.any():
            # A slice of one element along each dimension in which it moves is inside or outside as a whole.
            if any(where.sizes[d] != 1 for d in moving):
                return None
            places[outside] = -1
        return places.reshape(-1)


def _set_bits(target: Array, starts: np.ndarray, window: np.ndarray, updates: Array) -> None:
    """Take updates of any dtype."""
    bits = np.dtype(f"u{target.dtype.itemsize}")
    _KERNELS["set"](target.view(bits), starts, window, updates.view(bits))


@plans("stablehlo.scatter")
def _scatter(context: Context) -> Form | None:
    op, count = context.op, len(context.operands) // 2
    n = op.properties["scatter_dimension_numbers"]
    if not isinstance(n, ScatterDimensionNumbers):
        return None
    inputs, indices, changes = (
        context.operands[:count],
        context.operands[count],
        context.operands[count + 1 :],
    )
    x, updates = inputs[0], changes[0]
    kernels = _kernels(op, [each.dtype for each in inputs])
    if kernels is None or indices.dtype.kind not in "iu":
        return None
    if not updates.size or not x.size or not x.ndim:
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
    in_place = tuple((i, i) for i in range(count))
    return Scatter(where, kernels, points, in_place=in_place, contiguous=True)


_COMBINERS = {
    "stablehlo.add": "add",
    "stablehlo.maximum": "maximum",
    "stablehlo.minimum": "minimum",
    "stablehlo.multiply": "multiply",
}


def _kernels(op: Operation, dtypes: Sequence[np.dtype[np.generic]]) -> tuple[str, ...] | None:
    """Return what a scatter's region does with the old and the new value of each operand, if kernels do it."""
    block, count = op.regions[0].blocks[0], len(dtypes)
    old, new = block.arguments[:count], block.arguments[count:]
    returned = block.terminator.operands
    around = [result_dtype(value.type) for value in op.results]
    inside = [[result_dtype(value.type) for value in values] for values in (old, new, returned)]
    if any(each != around for each in inside):
        return None
    found = []
    for before, change, after, dtype in zip(old, new, returned, dtypes, strict=True):
        by = after.defining_op
        if after is change and dtype.itemsize <= 8:
            found.append("set")
        elif by is not None and set(by.operands) == {before, change} and by.name in _COMBINERS:
            if dtype.name not in ("float32", "float64") and dtype.kind not in "iu":
                return None
            found.append(_COMBINERS[by.name])
        else:
            return None
    return tuple(found)
