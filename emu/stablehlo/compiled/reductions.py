"""Reductions that kernels don't fuse: of dimensions that are not neighbours, and argmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from emu.mlir.ir import Block, Operation, Value
from emu.stablehlo.attributes import ComparisonDirection, ComparisonType
from emu.stablehlo.compiled.fallback import store
from emu.stablehlo.compiled.forms import Action, Context, Form, Site, plans
from emu.stablehlo.reference.dtypes import is_float, result_dtype
from emu.stablehlo.reference.scope import HANDLERS, Scope
from emu.stablehlo.reference.values import Array
from emu.stablehlo.regions import captured, only_operation
from emu.stablehlo.syntax import ints

UFUNCS: dict[str, np.ufunc] = {
    "stablehlo.add": np.add,
    "stablehlo.and": np.bitwise_and,
    "stablehlo.maximum": np.maximum,
    "stablehlo.minimum": np.minimum,
    "stablehlo.multiply": np.multiply,
    "stablehlo.or": np.bitwise_or,
}


def combiner(op: Operation, region: int = 0) -> str | None:
    """Return the name of the operation that is all a region of two scalars does, if it is one."""
    block = op.regions[region].blocks[0]
    only = only_operation(op.regions[region])
    if only is None or only.operands != tuple(block.arguments):
        return None
    dtypes = {result_dtype(v.type) for v in (*block.arguments, op.operands[0])}
    return only.name if len(dtypes) == 1 else None


def _ufunc(op: Operation, dtype: np.dtype[Any]) -> np.ufunc | None:
    """Return NumPy's function of a combiner, where it has the same bits."""
    name = combiner(op)
    found = None if name is None else UFUNCS.get(name)
    if dtype.kind in "iu":
        return found
    if dtype.kind == "b":
        return found if name in ("stablehlo.and", "stablehlo.or") else None
    # Of two zeros NumPy's maximum takes any one.
    known = name in ("stablehlo.add", "stablehlo.multiply") and is_float(dtype)
    return found if known else None


# Along dimensions


@dataclass(frozen=True)
class Reduce(Form):
    """A reduction by a function of NumPy.

    Attributes:
        function: Name of the combiner.
        dimensions: Dimensions that are reduced.
    """

    function: str
    dimensions: tuple[int, ...]

    def bind(self, site: Site) -> Action:
        """Return what reduces."""
        ufunc, axes = UFUNCS[self.function], self.dimensions

        def run(x: Array, start: Array, result: Array) -> None:
            ufunc.reduce(x, axis=axes, dtype=x.dtype, out=result)
            ufunc(start, result, out=result)

        return site.all(run)


@dataclass(frozen=True)
class ArgMax(Form):
    """The index of the largest or smallest element, the first one of several, or of the first NaN.

    Attributes:
        dimension: Dimension that is reduced.
        is_smallest: Whether the smallest is looked for.
    """

    dimension: int
    is_smallest: bool

    def bind(self, site: Site) -> Action:
        """Return what looks for the index."""
        op, program, axis = site.op, site.program, self.dimension
        handler = HANDLERS[op.name]
        find, is_better = (np.argmin, np.less) if self.is_smallest else (np.argmax, np.greater)

        def run(
            x: Array, numbers: Array, start: Array, first: Array, value: Array, index: Array
        ) -> None:
            wide = x.astype(np.float32) if x.dtype.kind not in "iufb" else x
            place = np.expand_dims(find(wide, axis=axis), axis)
            best = np.take_along_axis(x, place, axis)
            # The start, or numbers that do not grow, could be what the region takes.
            beats = is_better(best, start) | (best != best)  # noqa: PLR0124  (NaN of any dtype)
            grows = (np.diff(numbers.astype(np.int64), axis=axis) > 0).all()
            if not (beats.all() and grows):
                found = handler(op, [x, numbers, start, first], Scope(program, {}))
                store(op, found, [value, index])
                return
            np.copyto(value, np.squeeze(best, axis))
            np.copyto(index, np.squeeze(np.take_along_axis(numbers, place, axis), axis))

        return site.all(run)


@plans("stablehlo.reduce")
def _reduce(context: Context) -> Form | None:
    op, x = context.op, context.operands[0]
    dimensions = tuple(ints(op.properties["dimensions"]))
    if not x.size or captured(op):
        return None
    if len(context.operands) == 2:
        found = _ufunc(op, x.dtype) if x.dtype.kind in "iufb" else None
        known = found is not None and dimensions and x.dtype != np.float16
        return Reduce(combiner(op) or "", dimensions) if known else None
    direction = _argmax_direction(op)
    if direction is None or len(dimensions) != 1 or len(context.operands) != 4:
        return None
    is_known = is_float(x.dtype) or x.dtype.kind in "iu"
    is_index = context.operands[1].dtype.kind in "iu"
    # Which of two zeros is the value, the first or the last, is of no importance only if nobody looks.
    if not is_known or not is_index or op.results[0].has_uses:
        return None
    return ArgMax(dimensions[0], direction == "LT")


def _argmax_direction(op: Operation) -> str | None:
    """Return "GT" or "LT" where a region is that of JAX's argmax or argmin."""
    text = _wiring(op.regions[0].blocks[0])
    for direction in ("GT", "LT"):
        if text == _ARGMAX.format(direction):
            return direction
    return None


_ARGMAX = (
    "compare {} 0 2;compare NE 0 0;or 4 5;compare EQ 0 2;compare LT 1 3;and 7 8;or 6 9;"
    "select 6 0 2;select 10 1 3;return 11 12"
)
"""Operations of the region, each with the numbers of its operands: the four parameters come first."""


def _wiring(block: Block) -> str:
    numbers: dict[Value, int] = {a: i for i, a in enumerate(block.arguments)}
    found = []
    for op in block:
        direction, kind = (op.properties.get(n) for n in ("comparison_direction", "compare_type"))
        words = [op.name.partition(".")[2]]
        if isinstance(direction, ComparisonDirection):
            words.append(direction.value)
        if isinstance(kind, ComparisonType) and kind.value == "TOTALORDER":
            words.append(kind.value)
        if any(v not in numbers for v in op.operands):
            return ""
        words += [str(numbers[v]) for v in op.operands]
        for result in op.results:
            numbers[result] = len(numbers)
        found.append(" ".join(words))
    return ";".join(found)
