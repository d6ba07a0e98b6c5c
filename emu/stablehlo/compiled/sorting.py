"""Sorts by NumPy's, where the comparator agrees with the order that it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from emu.mlir.attributes import IntegerAttr
from emu.mlir.ir import Operation
from emu.stablehlo.compiled.fallback import store
from emu.stablehlo.compiled.forms import Action, Context, Form, Site, plans
from emu.stablehlo.reference.dtypes import is_float
from emu.stablehlo.reference.elementwise import total_order
from emu.stablehlo.reference.scope import HANDLERS, Scope
from emu.stablehlo.reference.shaping import result_shape
from emu.stablehlo.reference.values import Array
from emu.stablehlo.regions import captured
from emu.stablehlo.syntax import ints

_Less = Callable[[Sequence[Array], Sequence[Array]], np.ndarray]


@dataclass(frozen=True)
class Sort(Form):
    """A stable sort with any comparator.

    NumPy proposes orders: ascending and descending, with and without a difference between zeros. The comparator
    decides whether one of them is the stable order; where none is, the reference sorts.

    Attributes:
        dimension: Along which one.
        count: How many of the first elements are used; what is behind them is not sorted.
    """

    dimension: int
    count: int

    def bind(self, site: Site) -> Action:
        """Return what sorts."""
        op, program, env = site.op, site.program, site.memory.env
        operands, results = site.step.operands, site.step.results
        handler, dimension = HANDLERS[op.name], self.dimension
        region = op.regions[0]

        def run() -> None:
            arrays = [env[s] for s in operands]
            scope = Scope(program, {})
            lines = [np.moveaxis(a, dimension, -1) for a in arrays]

            def is_less(left: Sequence[Array], right: Sequence[Array]) -> np.ndarray:
                pairs = [x for pair in zip(left, right, strict=True) for x in pair]
                shape = np.broadcast_shapes(left[0].shape, right[0].shape)
                return np.asarray(scope.apply(region, pairs, shape)[0], np.bool_)

            # What is no order of the first elements is none of all.
            few = [x[..., :_FEW] for x in lines]
            for keys in _orders(lines):
                start = _order_of([key[..., :_FEW] for key in keys], _FEW)
                if not _is_stable_order(start, _taken(few, start), is_less):
                    continue
                order = _order_of(keys, self.count)
                found = _taken(lines, order)
                if not _is_stable_order(order, found, is_less):
                    continue
                if self.count < lines[0].shape[-1] and not _are_first(order, found, lines, is_less):
                    continue
                for line, slot in zip(found, results, strict=True):
                    target = np.moveaxis(env[slot], dimension, -1)
                    np.copyto(target[..., : self.count], line)
                return
            store(op, handler(op, arrays, scope), [env[s] for s in results])

        return run


_FEW = 32
"""Elements of a line that a comparator is tried with first."""


def _taken(lines: Sequence[Array], order: np.ndarray) -> list[Array]:
    """Return lines in an order."""
    return [np.take_along_axis(line, order, -1) for line in lines]


def _is_stable_order(order: np.ndarray, lines: Sequence[Array], is_less: _Less) -> bool:
    """Return whether a comparator sorts elements into an order, and is an order of these elements.

    Args:
        order: Places that the elements had.
        lines: The elements in this order.
        is_less: The comparator.
    """
    left, right = [x[..., :-1] for x in lines], [x[..., 1:] for x in lines]
    if is_less(right, left).any():
        return False
    grows = is_less(left, right)
    if not (grows | (order[..., :-1] < order[..., 1:])).all():
        return False
    # With NaN a comparator may be no order: then elements next to each other don't tell all.
    rank = np.zeros(order.shape, np.int64)
    np.cumsum(grows, -1, out=rank[..., 1:])
    first, last = [x[..., :1] for x in lines], [x[..., -1:] for x in lines]
    above = np.array_equal(is_less(first, lines), rank > 0)
    return above and np.array_equal(is_less(lines, last), rank < rank[..., -1:])


def _are_first(
    order: np.ndarray, found: Sequence[Array], lines: Sequence[Array], is_less: _Less
) -> bool:
    """Return whether all other elements come behind those that were found."""
    last = [x[..., -1:] for x in found]
    before = is_less(lines, last)
    equal = ~(before | is_less(last, lines))
    before = before | (equal & (np.arange(lines[0].shape[-1]) <= order[..., -1:]))
    np.put_along_axis(before, order, False, -1)
    return not before.any()


def _orders(lines: Sequence[Array]) -> Iterator[list[np.ndarray]]:
    """Iterate over integers by which programs sort: of the first operand, then of the first two, up and down."""
    for count in (1, 2)[: len(lines)]:
        for keys in _keys(lines[:count]):
            yield keys
            yield [~key for key in keys]


def _order_of(keys: Sequence[np.ndarray], count: int) -> np.ndarray:
    """Return the stable order of integers, as far as its first elements."""
    key, size = keys[0], keys[0].shape[-1]
    if len(keys) > 1:
        return np.lexsort(keys[::-1], axis=-1)[..., :count]
    low, high = int(key.min()), int(key.max())
    if size >= 1 << 32 or high - low >= 1 << 32:
        return np.argsort(key, -1, kind="stable")[..., :count]
    # With its place behind it each number is unique: any sort is a stable one.
    distance = key.astype(np.uint64) - np.uint64(low % (1 << 64))
    joined = (distance << np.uint64(32)) | np.arange(size, dtype=np.uint64)
    if count < size:
        joined = np.partition(joined, count - 1, -1)[..., :count]
    joined.sort(-1)
    return (joined & np.uint64(0xFFFFFFFF)).astype(np.int64)


def _keys(lines: Sequence[Array]) -> Iterator[list[np.ndarray]]:
    """Iterate over integers that are ordered as the elements are."""
    yield [_key(line, is_canonical=True) for line in lines]
    if any(is_float(line.dtype) for line in lines):
        yield [_key(line, is_canonical=False) for line in lines]


def _key(line: Array, *, is_canonical: bool) -> np.ndarray:
    if not is_float(line.dtype):
        return line if line.dtype.itemsize == 8 else line.astype(np.int64)
    if is_canonical:
        line = np.where(np.isnan(line), np.asarray(np.nan, line.dtype), line + line.dtype.type(0))
    return total_order(np.ascontiguousarray(line))


@plans("stablehlo.sort")
def _sort(context: Context) -> Form | None:
    op, x = context.op, context.operands[0]
    known = all(a.dtype.kind != "c" for a in context.operands)
    if not x.size or not x.ndim or not known or captured(op):
        return None
    attribute = op.properties.get("dimension")
    dimension = attribute.value if isinstance(attribute, IntegerAttr) else -1
    dimension %= x.ndim
    return Sort(dimension, max(_used(op, dimension), 1))


def _used(op: Operation, dimension: int) -> int:
    """Return how many of the first elements along a dimension anything looks at."""
    count, size = 0, result_shape(op)[dimension]
    for result in op.results:
        for user, _ in result.uses:
            if user.name != "stablehlo.slice":
                return size
            count = max(count, ints(user.properties["limit_indices"])[dimension])
    return count
