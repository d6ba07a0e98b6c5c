"""Reductions that kernels don't fuse: of dimensions that are not neighbours, argmax, and in windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from emu.mlir.ir import Block, Operation, Value
from emu.stablehlo.attributes import ComparisonDirection, ComparisonType
from emu.stablehlo.compiled.fallback import store
from emu.stablehlo.compiled.forms import Action, Context, Form, Site, plans
from emu.stablehlo.compiled.indexing import add_points
from emu.stablehlo.reference.dtypes import is_float, is_integer, result_dtype
from emu.stablehlo.reference.reduction import window_view
from emu.stablehlo.reference.scope import HANDLERS, Scope
from emu.stablehlo.reference.shaping import pad, result_shape
from emu.stablehlo.reference.values import Array
from emu.stablehlo.regions import captured, only_operation
from emu.stablehlo.syntax import ints
from emu.stablehlo.windows import Window, windows

_UFUNCS: dict[str, np.ufunc] = {
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
    found = None if name is None else _UFUNCS.get(name)
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
        ufunc, axes = _UFUNCS[self.function], self.dimensions

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


# In windows


@dataclass(frozen=True)
class ReduceWindow(Form):
    """A reduction in windows, folded in the order of the window's elements.

    Attributes:
        function: Name of the combiner.
        windows: Window per dimension.
        running: Dimension along which it is a running total; -1 for none.
    """

    function: str
    windows: tuple[Window, ...]
    running: int

    def bind(self, site: Site) -> Action:
        """Return what reduces."""
        ufunc = _UFUNCS[self.function]
        if self.running >= 0:
            axis, zero = self.running, np.zeros((), site.memory.layouts[site.step.results[0]].dtype)

            def accumulate(x: Array, start: Array, result: Array) -> None:
                if start[()] != 0:
                    fold(x, start, result)
                    return
                np.add.accumulate(x, axis, x.dtype, result)
                # The start is added to all: no total is -0.
                np.add(result, zero, out=result)

            fold = self._fold(ufunc)
            return site.all(accumulate)
        return site.all(self._fold(ufunc))

    def _fold(self, ufunc: np.ufunc) -> Callable[[Array, Array, Array], None]:
        found = self.windows
        sizes, moves = [w.size for w in found], [w.stride for w in found]
        low, high = ([w.padding[side] for w in found] for side in (0, 1))
        interior = [w.base_dilation - 1 for w in found]
        spread = [w.dilation for w in found]
        is_plain = not any((*low, *high, *interior))

        def fold(x: Array, start: Array, result: Array) -> None:
            padded = x if is_plain else pad(x, start, low, high, interior)
            view = window_view(padded, sizes, moves, spread)
            np.copyto(result, start)
            for place in np.ndindex(*sizes):
                ufunc(result, view[(..., *place)], out=result)

        return fold


@plans("stablehlo.reduce_window")
def _reduce_window(context: Context) -> Form | None:
    op, x = context.op, context.operands[0]
    if len(context.operands) != 2 or not x.size or 0 in result_shape(op) or captured(op):
        return None
    if x.dtype.kind not in "iufb" and x.dtype.name != "bfloat16":
        return None
    sizes = ints(op.properties["window_dimensions"])
    found = windows(op, sizes, ("base_dilations", "window_dilations"))
    ufunc = _ufunc(op, x.dtype)
    if ufunc is None:
        return None
    running = _running_dimension(found, x.shape) if ufunc is np.add else -1
    if not (is_integer(x.dtype) or x.dtype.name in ("float32", "float64")):
        running = -1
    return ReduceWindow(combiner(op) or "", tuple(found), running)


def _running_dimension(found: Sequence[Window], shape: Sequence[int]) -> int:
    """Return the dimension along which windows hold all that comes before; -1 for none."""
    trivial = Window(1, 1, 1, 1, (0, 0))
    moving = [d for d, window in enumerate(found) if window != trivial]
    if len(moving) != 1:
        return -1
    (d,) = moving
    return d if found[d] == Window(shape[d], 1, 1, 1, (shape[d] - 1, 0)) else -1


@dataclass(frozen=True)
class SelectAndScatter(Form):
    """``select_and_scatter`` that adds.

    Attributes:
        windows: Window per dimension.
    """

    windows: tuple[Window, ...]

    def bind(self, site: Site) -> Action:
        """Return what selects and adds."""
        op, program, found = site.op, site.program, self.windows
        sizes, moves = [w.size for w in found], [w.stride for w in found]
        low, high = ([w.padding[side] for w in found] for side in (0, 1))
        none, ones = [0] * len(found), [1] * len(found)
        shape = site.memory.layouts[site.step.operands[0]].shape
        count = int(np.prod(shape, dtype=int))
        # Places in the flat input; -1 outside of it, where nothing is selected.
        padded = pad(np.arange(count).reshape(shape), np.asarray(-1), low, high, none)
        places = window_view(padded, sizes, moves, ones).reshape(-1, int(np.prod(sizes, dtype=int)))
        select = op.regions[0]

        def run(x: Array, source: Array, start: Array, result: Array) -> None:
            scope, flat = Scope(program, {}), x.reshape(-1)
            chosen = places[:, 0]
            for column in places.T[1:]:
                value, best = flat[np.maximum(column, 0)], flat[np.maximum(chosen, 0)]
                (keep,) = scope.apply(select, [best, value], chosen.shape)
                better = (column >= 0) & ((chosen < 0) | ~np.asarray(keep, np.bool_))
                chosen = np.where(better, column, chosen)
            result.fill(start[()])
            add_points(result.reshape(-1), chosen, np.ascontiguousarray(source).reshape(-1))

        return site.all(run)


@plans("stablehlo.select_and_scatter")
def _select_and_scatter(context: Context) -> Form | None:
    op, (x, source, _) = context.op, context.operands
    name = combiner(op, 1)
    known = x.dtype.kind in "iu" or x.dtype.name in ("float32", "float64")
    if name != "stablehlo.add" or not known or captured(op) or not x.size or not source.size:
        return None
    sizes = ints(op.properties.get("window_dimensions")) or (1,) * x.ndim
    found = windows(op, sizes, ("base_dilations", "window_dilations"))
    return SelectAndScatter(tuple(found))
