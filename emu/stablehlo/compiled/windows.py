"""Reductions in windows, running ones among them, and scatters of what a window selects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from emu.mlir.ir import Operation
from emu.stablehlo.compiled.extrema import KEYED, Extremum
from emu.stablehlo.compiled.fallback import store
from emu.stablehlo.compiled.forms import Action, Context, Form, Site, plans
from emu.stablehlo.compiled.indexing import add_points
from emu.stablehlo.compiled.reductions import UFUNCS, combiner
from emu.stablehlo.compiled.running import scanned
from emu.stablehlo.reference.dtypes import is_integer, result_dtype
from emu.stablehlo.reference.reduction import window_view
from emu.stablehlo.reference.scope import HANDLERS, Scope
from emu.stablehlo.reference.shaping import pad, result_shape
from emu.stablehlo.reference.values import Array
from emu.stablehlo.regions import captured
from emu.stablehlo.syntax import ints
from emu.stablehlo.windows import Window, windows

_ANY_ORDER = {"stablehlo.and", "stablehlo.maximum", "stablehlo.minimum", "stablehlo.or"}
"""Combiners whose result is the same in any order, and of an element that is combined twice."""


@dataclass(frozen=True)
class _Padding:
    """How an operand becomes what windows move over.

    Attributes:
        low: Elements in front of it, per dimension; fewer than none cut it.
        high: Elements behind it.
        interior: Elements between two of it.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    interior: tuple[int, ...]

    @staticmethod
    def of(found: Sequence[Window]) -> _Padding:
        """Return the padding of windows."""
        low, high = (tuple(w.padding[side] for w in found) for side in (0, 1))
        return _Padding(low, high, tuple(w.base_dilation - 1 for w in found))

    def applied(self, x: Array, value: Array) -> Array:
        """Return an array padded with a value; the array itself if there is nothing to add."""
        if not any((*self.low, *self.high, *self.interior)):
            return x
        return pad(x, value, self.low, self.high, self.interior)


@dataclass(frozen=True)
class ReduceWindow(Form):
    """A reduction in windows by one function.

    Attributes:
        function: Name of the combiner.
        windows: Window per dimension.
    """

    function: str
    windows: tuple[Window, ...]

    def bind(self, site: Site) -> Action:
        """Return what reduces."""
        dtype = site.memory.layouts[site.step.operands[0]].dtype
        if self.function in _ANY_ORDER or is_integer(dtype):
            return site.all(self._by_dimension(dtype))
        return site.all(self._in_order())

    def _in_order(self) -> Callable[[Array, Array, Array], None]:
        """Return a fold in the order of the window's elements."""
        found, ufunc = self.windows, UFUNCS[self.function]
        sizes, moves = [w.size for w in found], [w.stride for w in found]
        spread, padding = [w.dilation for w in found], _Padding.of(found)

        def fold(x: Array, start: Array, result: Array) -> None:
            view = window_view(padding.applied(x, start), sizes, moves, spread)
            np.copyto(result, start)
            for place in np.ndindex(*sizes):
                ufunc(result, view[(..., *place)], out=result)

        return fold

    def _by_dimension(self, dtype: np.dtype[np.generic]) -> Callable[[Array, Array, Array], None]:
        """Return a fold along one dimension after the other."""
        found, ufunc = self.windows, UFUNCS[self.function]
        padding = _Padding.of(found)
        extremum = Extremum.of(self.function, dtype)

        def fold(x: Array, start: Array, result: Array) -> None:
            (keys, first), is_keyed = extremum.keys(x, start)
            total = padding.applied(keys, first)
            for axis, window in enumerate(found):
                if window.size > 1 or window.stride > 1:
                    total = _folded(total, axis, window, ufunc)
            if is_keyed:
                np.copyto(result, extremum.values(ufunc(first, total)))
            else:
                ufunc(first, total, out=result)

        return fold


def _folded(x: Array, axis: int, window: Window, ufunc: np.ufunc) -> Array:
    """Reduce in windows along one dimension."""
    count = (x.shape[axis] - (window.size - 1) * window.dilation - 1) // window.stride + 1
    parts = [
        slice(
            k * window.dilation,
            k * window.dilation + (count - 1) * window.stride + 1,
            window.stride,
        )
        for k in range(window.size)
    ]
    before = (slice(None),) * axis
    if window.size == 1:
        return x[(*before, parts[0])]
    total: Array = ufunc(x[(*before, parts[0])], x[(*before, parts[1])])
    for part in parts[2:]:
        ufunc(total, x[(*before, part)], out=total)
    return total


@dataclass(frozen=True)
class Running(Form):
    """A reduction in windows that hold all elements up to their place, or from it on.

    Attributes:
        dimension: Along which one.
        is_reversed: Whether windows begin at their places, so that the last holds one element.
        function: Name of the combiner; empty for any other region.
    """

    dimension: int
    is_reversed: bool
    function: str

    def bind(self, site: Site) -> Action:
        """Return what reduces."""
        op, program, env = site.op, site.program, site.memory.env
        operands, results = site.step.operands, site.step.results
        handler = HANDLERS[op.name]
        totals = self._scan(site) if not self.function else self._accumulate(site)

        def run() -> None:
            given, targets = [env[s] for s in operands], [env[s] for s in results]
            count = len(given) // 2
            turned = [[self._turned(x) for x in arrays] for arrays in (given[:count], targets)]
            if not totals(given[count:], *turned):
                store(op, handler(op, given, Scope(program, {})), targets)

        return run

    def _turned(self, x: Array) -> Array:
        """Return a view whose first dimension is the one along which totals grow."""
        moved = np.moveaxis(x, self.dimension, 0)
        return moved[::-1] if self.is_reversed else moved

    def _scan(self, site: Site) -> _Totals:
        """Return what applies any region."""
        region, program = site.op.regions[0], site.program

        def combine(left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
            pairs = (*right, *left) if self.is_reversed else (*left, *right)
            shape = np.broadcast_shapes(left[0].shape, right[0].shape)
            return Scope(program, {}).apply(region, pairs, shape)

        def totals(
            starts: Sequence[Array], lines: Sequence[Array], targets: Sequence[Array]
        ) -> bool:
            if not Scope(program, {}).is_elementwise(region):
                return False
            found = scanned(starts, lines, combine)
            if found is None:
                return False
            for target, total in zip(targets, found, strict=True):
                np.copyto(target, total)
            return True

        return totals

    def _accumulate(self, site: Site) -> _Totals:
        """Return what applies a function of NumPy, in order."""
        ufunc = UFUNCS[self.function]
        dtype = site.memory.layouts[site.step.operands[0]].dtype
        extremum = Extremum.of(self.function, dtype)
        neutral = 1 if ufunc is np.multiply else 0

        def totals(
            starts: Sequence[Array], lines: Sequence[Array], targets: Sequence[Array]
        ) -> bool:
            (start,), (line,), (target,) = starts, lines, targets
            # The padding is combined, too: it must change nothing.
            if self.function not in _ANY_ORDER and start[()] != neutral:
                return False
            (keys, first), is_keyed = extremum.keys(line, start)
            total = ufunc.accumulate(keys, 0, keys.dtype, None if is_keyed else target)
            # Of the start is left that no sum of zeros is -0 unless it is.
            ufunc(first, total, out=total)
            if is_keyed:
                np.copyto(target, extremum.values(total))
            return True

        return totals


_Totals = Callable[[Sequence[Array], Sequence[Array], Sequence[Array]], bool]
"""Finds totals of starts and elements, and puts them into arrays; returns False where it cannot."""


@plans("stablehlo.reduce_window")
def _reduce_window(context: Context) -> Form | None:
    op, x = context.op, context.operands[0]
    if not x.size or 0 in result_shape(op) or captured(op):
        return None
    sizes = ints(op.properties["window_dimensions"])
    found = tuple(windows(op, sizes, ("base_dilations", "window_dilations")))
    name = combiner(op) if len(context.operands) == 2 else None
    function = name if name is not None and _is_known(name, x.dtype) else ""
    running = _running(found, x.shape)
    if running is not None and (function or _keeps_types(op)):
        return Running(*running, function)
    return ReduceWindow(function, found) if function else None


def _keeps_types(op: Operation) -> bool:
    """Return whether a region takes and returns what the operation does."""
    around = [result_dtype(v.type) for v in (*op.operands, *op.results)]
    block = op.regions[0].blocks[0]
    inside = [result_dtype(v.type) for v in (*block.arguments, *block.terminator.operands)]
    return around == inside


def _is_known(name: str, dtype: np.dtype[np.generic]) -> bool:
    """Return whether NumPy's function of a combiner has the same bits."""
    if name not in UFUNCS:
        return False
    if dtype.kind in "iu":
        return True
    if dtype.kind == "b":
        return name in ("stablehlo.and", "stablehlo.or")
    # As integers the extremes of other floats have no order that is known.
    return dtype.name in KEYED and name not in ("stablehlo.and", "stablehlo.or")


def _running(found: Sequence[Window], shape: Sequence[int]) -> tuple[int, bool] | None:
    """Return the dimension along which windows hold all that comes before, or all from there on (True)."""
    trivial = Window(1, 1, 1, 1, (0, 0))
    moving = [d for d, window in enumerate(found) if window != trivial]
    if len(moving) != 1:
        return None
    (d,) = moving
    size = shape[d]
    for padding, is_reversed in (((size - 1, 0), False), ((0, size - 1), True)):
        if found[d] == Window(size, 1, 1, 1, padding):
            return d, is_reversed
    return None


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
