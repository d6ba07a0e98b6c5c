"""Regions of reductions that kernels know."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from emu.mlir.ir import Operation, Value
from emu.stablehlo.compiled.fusion.values import tile_dtype
from emu.stablehlo.reference.scope import HANDLERS, Scope
from emu.stablehlo.reference.values import Array
from emu.stablehlo.regions import only_operation
from emu.tile.types import DType

_COMBINERS = {
    f"stablehlo.{name}" for name in ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
}


def combiner_of(op: Operation) -> str | None:
    """Return the name of the operation that combines two elements; None if it is more than one operation."""
    only = only_operation(op.regions[0]) if len(op.results) == 1 else None
    if only is None or only.name not in _COMBINERS:
        return None
    values = (*op.regions[0].blocks[0].arguments, *op.operands, *op.results)
    return only.name if len({tile_dtype(v) for v in values}) == 1 else None


ARGUMENTS = {"argmax": np.greater, "argmin": np.less}
"""Reductions of pairs of a value and its index to the index of the first extremum, or of the first NaN."""

_ORDER_ONLY = {
    f"stablehlo.{name}" for name in ("compare", "select", "and", "or", "xor", "not", "return")
}


def argument_of(op: Operation) -> str | None:
    """Return which of ``ARGUMENTS`` a reduction of pairs computes; None if it is neither, or if the values are used.

    What is in the region depends on the order of its parameters only, so that it is known by what it does to
    each order that there is.
    """
    block = op.regions[0].blocks[0]
    if len(op.results) != 2 or op.results[0].has_uses or len(op.regions[0].blocks) != 1:
        return None
    value, index = (tile_dtype(v) for v in op.operands[:2])
    if (
        value is None
        or index is None
        or not index.is_integer
        or not (value.is_float or value.is_integer)
    ):
        return None
    if any(inner.name not in _ORDER_ONLY for inner in block):
        return None
    samples = _samples(value, index)
    with np.errstate(all="ignore"):
        found = _applied(op, samples)
    return next((name for name in ARGUMENTS if np.array_equal(found, _chosen(name, samples))), None)


@lru_cache
def _samples(value: DType, index: DType) -> tuple[Array, ...]:
    """Return pairs to combine: of each order of values, with indices in the order in which they come."""
    numbers = [0.0, -0.0, 1.0, 2.0, 3.0]
    if value.is_float:
        numbers += [-1.0, float("inf"), float("-inf"), float("nan"), -float("nan")]
    places = [(0, 1), (0, 2), (1, 2), (2, 5), (3, 4)]
    rows = [(x, i, y, j) for x, y, (i, j) in itertools.product(numbers, numbers, places)]
    dtypes = (value.numpy, index.numpy, value.numpy, index.numpy)
    return tuple(
        np.array(c).astype(d) for c, d in zip(zip(*rows, strict=True), dtypes, strict=True)
    )


def _applied(op: Operation, samples: Sequence[Array]) -> Array:
    """Return the indices that a region chooses."""
    block = op.regions[0].blocks[0]
    values: dict[Value, Array] = dict(zip(block.arguments, samples, strict=True))
    scope = Scope.__new__(Scope)
    for inner in block:
        operands = [values[v] for v in inner.operands]
        if inner is block.last:
            return operands[1]
        values.update(zip(inner.results, HANDLERS[inner.name](inner, operands, scope), strict=True))
    raise AssertionError("a block has no terminator")


def _chosen(name: str, samples: Sequence[Array]) -> Array:
    x, i, y, j = samples
    with np.errstate(all="ignore"):
        first = ARGUMENTS[name](x, y) | (x == y) | np.isnan(x.astype(np.float64))
    return np.where(first, i, j)
