"""Sorts by NumPy's, where the comparator agrees with the order that it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from emu.mlir.attributes import IntegerAttr
from emu.stablehlo.compiled.fallback import store
from emu.stablehlo.compiled.forms import Action, Context, Form, Site, plans
from emu.stablehlo.reference.dtypes import is_float
from emu.stablehlo.reference.elementwise import total_order
from emu.stablehlo.reference.scope import HANDLERS, Scope
from emu.stablehlo.reference.values import Array
from emu.stablehlo.regions import captured

_Less = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Sort(Form):
    """A stable sort with any comparator.

    NumPy proposes orders: ascending and descending, with and without a difference between zeros. The comparator
    decides whether one of them is the stable order; where none is, the reference sorts.

    Attributes:
        dimension: Along which one.
    """

    dimension: int

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

            def is_less(left: np.ndarray, right: np.ndarray) -> np.ndarray:
                pairs = [np.take_along_axis(x, i, -1) for x in lines for i in (left, right)]
                return np.asarray(scope.apply(region, pairs, left.shape)[0], np.bool_)

            for order in _orders(lines):
                if _is_stable_order(order, is_less):
                    for line, slot in zip(lines, results, strict=True):
                        sorted_line = np.take_along_axis(line, order, -1)
                        np.copyto(env[slot], np.moveaxis(sorted_line, -1, dimension))
                    return
            store(op, handler(op, arrays, scope), [env[s] for s in results])

        return run


def _is_stable_order(order: np.ndarray, is_less: _Less) -> bool:
    """Return whether a comparator sorts elements into an order, and is an order of these elements."""
    left, right = order[..., :-1], order[..., 1:]
    if is_less(right, left).any():
        return False
    grows = is_less(left, right)
    if not (grows | (left < right)).all():
        return False
    # With NaN a comparator may be no order: then elements next to each other don't tell all.
    rank = np.zeros(order.shape, np.int64)
    np.cumsum(grows, -1, out=rank[..., 1:])
    first = np.broadcast_to(order[..., :1], order.shape)
    last = np.broadcast_to(order[..., -1:], order.shape)
    above = np.array_equal(is_less(first, order), rank > 0)
    return above and np.array_equal(is_less(order, last), rank < rank[..., -1:])


def _orders(lines: Sequence[Array]) -> Iterator[np.ndarray]:
    """Iterate over orders that programs sort into: by the first operand, then by the first two."""
    counts = (1, 2) if len(lines) > 1 else (1,)
    for count in counts:
        for keys in _keys(lines[:count]):
            yield np.lexsort(keys[::-1], axis=-1)
            yield np.lexsort([~key for key in keys[::-1]], axis=-1)


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
    return Sort(dimension % x.ndim)
