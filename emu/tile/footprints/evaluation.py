"""Footprints of the accesses of a kernel, for one grid and the numbers that it is given.

All instances of an operation are evaluated at once: those of all programs, and of all rounds of the loops around it.
What depends on memory is not known; a branch that such a value decides is taken by all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from emu.tile import ops
from emu.tile.footprints import lines
from emu.tile.footprints.lines import Known, Line, Mask, Numbers, number
from emu.tile.ir import Module, Operation, Region, Value
from emu.tile.ops import Code
from emu.tile.passes.check_bounds import mask_of
from emu.tile.reference.elementwise import ELEMENTWISE
from emu.tile.types import I1, DType, Pointer, Tile, Token, element_of

_FAR = 1 << 60

MOST_INSTANCES = 1 << 22
"""Instances of an operation beyond which the rounds of a loop are not told apart."""


@dataclass(frozen=True)
class Footprint:
    """What the instances of an access touch at the most.

    Attributes:
        operation: The access.
        origin: The argument that its pointer comes from; None if it is not known.
        size: Bytes of an element.
        programs: Program of each instance that touches anything.
        starts: Its first byte, counted from the argument's pointer; None if it is not known.
        strides: Bytes of a step along each axis.
        counts: Steps along each axis, plus one.
        firsts: The lane that the first byte is of.
        is_exact: Whether all of that is touched, by each of the instances.
    """

    operation: Operation
    origin: int | None
    size: int
    programs: Numbers
    starts: Numbers | None = None
    strides: tuple[Numbers, ...] = ()
    counts: tuple[Numbers, ...] = ()
    firsts: tuple[Numbers, ...] = ()
    is_exact: bool = False


def find_footprints(
    module: Module,
    grid: tuple[int, int, int],
    numbers: Sequence[int | None],
    wanted: Collection[Operation],
) -> list[Footprint]:
    """Return the footprints of accesses; one may have several, and has none if it is never executed.

    Args:
        module: Module of a kernel that calls nothing.
        grid: Extents of the grid.
        numbers: Value of each argument; None of pointers, and where it is not known.
        wanted: The accesses.
    """
    with np.errstate(all="ignore"):
        return _Evaluation(module.kernel.body, grid, numbers, wanted).run()


@dataclass(eq=False)
class _Scope:
    """The instances of a region.

    Attributes:
        programs: Program of each.
        outer: The scope around it.
        rows: For each instance, that of the scope around it.
        known: What is known of values that were evaluated here.
        is_exact: Whether each instance is one: else it may be none, or several.
    """

    programs: Numbers
    outer: _Scope | None = None
    rows: Numbers | None = None
    known: dict[Value, Known] = field(default_factory=dict)
    is_exact: bool = True

    def of(self, value: Value) -> Known:
        """Return what is known of a value, here or in a scope around it."""
        if value in self.known:
            return self.known[value]
        if self.outer is None:
            return None
        found = self.outer.of(value)
        if found is not None and self.rows is not None:
            found = _chosen(found, self.rows)
        self.known[value] = found
        return found

    def inner(self, rows: Numbers, is_exact: bool = True) -> _Scope:
        """Return a scope of some of the instances, or several of each; perhaps one whose number is not known."""
        exact = self.is_exact and is_exact
        return _Scope(self.programs[rows], self, rows, is_exact=exact)


def _chosen(found: Line | Mask, rows: Numbers) -> Line | Mask:
    def pick(x: Numbers) -> Numbers:
        return x[rows] if x.ndim else x

    if isinstance(found, Line):
        return found.map(pick)
    return Mask(tuple(line.map(pick) for line in found.lines), found.is_exact)


class _Evaluation:
    def __init__(
        self,
        body: Region,
        grid: tuple[int, int, int],
        numbers: Sequence[int | None],
        wanted: Collection[Operation],
    ) -> None:
        self._body = body
        self._grid = grid
        self._wanted = wanted
        self._found: list[Footprint] = []
        self._records = True
        x, y, z = grid
        programs = np.arange(x * y * z, dtype=np.int64)
        self._ids = (programs % x, programs // x % y, programs // (x * y))
        self._root = _Scope(programs)
        for position, (argument, given) in enumerate(zip(body.arguments, numbers, strict=False)):
            known: Known = None
            if isinstance(argument.type, Pointer):
                known = Line(number(0), origin=position)
            elif given is not None and _is_integer(argument) and abs(given) < _FAR:
                known = Line(number(given))
            self._root.known[argument] = known

    def run(self) -> list[Footprint]:
        self._region(self._body, self._root)
        return self._found

    def _region(self, region: Region, scope: _Scope) -> None:
        if not len(scope.programs):
            return
        for operation in region.operations:
            code = operation.code
            if code is Code.FOR:
                self._for(operation, scope)
            elif code is Code.IF:
                self._if(operation, scope)
            elif code is Code.WHILE:
                for nested in operation.regions:
                    self._region(nested, scope.inner(_all(scope), is_exact=False))
            elif code in ops.MEMORY:
                if operation in self._wanted and self._records:
                    self._found.append(self._footprint(operation, scope))
            elif len(operation.results) == 1 and _may_be_known(operation.result):
                scope.known[operation.result] = self._evaluated(operation, scope)

    def _footprint(self, operation: Operation, scope: _Scope) -> Footprint:
        pointer, mask = operation.operands[0], mask_of(operation)
        element = element_of(pointer.type)
        assert isinstance(element, Pointer)
        line, count = scope.of(pointer), len(scope.programs)
        size = element.element.bytes
        if not isinstance(line, Line) or line.origin is None:
            return Footprint(operation, None, size, scope.programs)
        condition = None if mask is None else scope.of(mask)
        if mask is not None and not mask.shape and isinstance(condition, Line):
            condition = _truth(condition)
        narrow = condition if isinstance(condition, Mask) else None
        is_exact = scope.is_exact and (mask is None or (narrow is not None and narrow.is_exact))
        alive, lows, highs = lines.narrowed(line, narrow, count)
        if is_exact and narrow is not None:
            whole = lines.holds_throughout(narrow, lows, highs)
            is_exact = bool(np.all(np.broadcast_to(whole, count)[alive]))
        start = line.base + sum(s * low for s, low in zip(line.strides, lows, strict=True))

        def kept(x: Numbers) -> Numbers:
            return np.asarray(np.broadcast_to(x, count)[alive])

        return Footprint(
            operation,
            line.origin,
            size,
            scope.programs[alive],
            kept(np.asarray(start)),
            tuple(map(kept, line.strides)),
            tuple(kept(high - low + 1) for low, high in zip(lows, highs, strict=True)),
            tuple(map(kept, lows)),
            is_exact,
        )

    # ---- control

    def _if(self, operation: Operation, scope: _Scope) -> None:
        condition = scope.of(operation.operands[0])
        known = isinstance(condition, Line)
        parts = [_all(scope), _all(scope)]
        if isinstance(condition, Line):
            holds = np.broadcast_to(condition.base != 0, len(scope.programs))
            parts = [np.flatnonzero(holds), np.flatnonzero(~holds)]
        inner = [scope.inner(rows, is_exact=known) for rows in parts]
        for region, one in zip(operation.regions, inner, strict=True):
            self._region(region, one)
        for n, result in enumerate(operation.results):
            if not known or not _may_be_known(result):
                continue
            values = [
                (one.of(region.terminator.operands[n]), rows)
                for region, one, rows in zip(operation.regions, inner, parts, strict=True)
                if len(rows)
            ]
            scope.known[result] = _merged(values, len(scope.programs))

    def _for(self, operation: Operation, scope: _Scope) -> None:
        (body,) = operation.regions
        bounds = [scope.of(v) for v in operation.operands[:3]]
        trips = self._trips(bounds, scope)
        if trips is None:
            self._region(body, scope.inner(_all(scope), is_exact=False))
            return
        rows = np.repeat(_all(scope), trips)
        begins = np.cumsum(trips) - trips
        rounds = np.arange(len(rows), dtype=np.int64) - begins[rows]
        index, *carried = body.arguments
        first = scope.inner(rows)
        start, _, step = (b for b in bounds if isinstance(b, Line))
        at = first.programs * 0 + np.broadcast_to(start.base, len(trips))[rows]
        first.known[index] = Line(at + np.broadcast_to(step.base, len(trips))[rows] * rounds)
        steps = self._steps(body, carried, first)
        if not steps:
            self._region(body, first)
            return
        inner = scope.inner(rows)
        inner.known[index] = first.known[index]
        for n, (amount, sign) in steps.items():
            initial = scope.of(operation.operands[3 + n])
            if isinstance(initial, Line) and amount.is_even() and initial.shape == amount.shape:
                before, total = _sums(amount.base * sign, rows, begins, trips)
                zeros = replace(amount, strides=tuple(number(0) for _ in amount.shape))
                given = _chosen(initial, rows)
                assert isinstance(given, Line)
                inner.known[carried[n]] = lines.added(given, replace(zeros, base=before))
                last = lines.added(initial, replace(zeros, base=total))
                scope.known[operation.results[n]] = last
        self._region(body, inner)

    def _trips(self, bounds: Sequence[Known], scope: _Scope) -> Numbers | None:
        """Return the rounds of a loop for each instance; None if they are not known, or too many."""
        numbers = [b.base for b in bounds if isinstance(b, Line)]
        if len(numbers) < 3 or np.any(numbers[2] == 0):
            return None
        start, end, step = numbers
        trips = np.maximum(0, -((start - end) // step))
        trips = np.broadcast_to(trips, len(scope.programs))
        return trips if int(trips.sum()) <= MOST_INSTANCES else None

    def _steps(
        self, body: Region, carried: Sequence[Value], scope: _Scope
    ) -> dict[int, tuple[Line, int]]:
        """Return what carried values move by in each round, and the sign; the scope's values are dropped."""
        moves: dict[int, tuple[Value, int]] = {}
        for n, (value, yielded) in enumerate(zip(carried, body.terminator.operands, strict=True)):
            owner = yielded.owner
            if not _may_be_known(value) or owner is None:
                continue
            if owner.code not in (Code.ADD, Code.SUB, Code.PTR_ADD):
                continue
            a, b = owner.operands
            if a is value:
                moves[n] = b, -1 if owner.code is Code.SUB else 1
            elif b is value and owner.code is Code.ADD:
                moves[n] = a, 1
        if not moves:
            return {}
        before, self._records = self._records, False
        self._region(body, scope)
        self._records = before
        found = {}
        for n, (value, sign) in moves.items():
            amount = scope.of(value)
            if isinstance(amount, Line):
                element = element_of(carried[n].type)
                size = element.element.bytes if isinstance(element, Pointer) else 1
                found[n] = lines.scaled(amount, number(size)), sign
        return found

    # ---- values

    def _evaluated(self, operation: Operation, scope: _Scope) -> Known:
        code = operation.code
        if code is Code.CONSTANT:
            return _constant(operation)
        if code is Code.PROGRAM_ID:
            return Line(self._ids[operation.attributes["axis"]][scope.programs])
        if code is Code.NUM_PROGRAMS:
            return Line(number(self._grid[operation.attributes["axis"]]))
        if code is Code.ARANGE:
            start, end = operation.attributes["start"], operation.attributes["end"]
            return Line(number(start), (number(1),), (end - start,))
        count = 1 if code is Code.AFTER else len(operation.operands)
        operands = [scope.of(v) for v in operation.operands[:count]]
        if element_of(operation.result.type) == I1 and operation.result.shape:
            return _mask(operation, operands)
        known = [v for v in operands if isinstance(v, Line)]
        if len(known) < len(operands) or not operands:
            return None
        if code in _SHAPES:
            return _SHAPES[code](operation, known[0])
        if not operation.result.shape and not any(v.origin is not None for v in known):
            return _scalar(operation, known)
        rule = _TILES.get(code)
        found = None if rule is None else rule(operation, *known)
        element = element_of(operation.result.type)
        dtype = element if isinstance(element, DType) else None
        return found if found is not None and lines.fits(found, dtype) else None


def _all(scope: _Scope) -> Numbers:
    return np.arange(len(scope.programs), dtype=np.int64)


def _is_integer(value: Value) -> bool:
    element = element_of(value.type)
    return isinstance(element, DType) and not element.is_float


def _may_be_known(value: Value) -> bool:
    if isinstance(value.type, Token):
        return False
    element = element_of(value.type)
    return isinstance(element, Pointer) or not element.is_float


def _truth(line: Line) -> Mask:
    """Return a mask that says what a number does: it is true where that is not 0."""
    return Mask((Line(1 - np.asarray(line.base != 0, np.int64)),))


def _constant(operation: Operation) -> Known:
    value, type_ = operation.attributes["value"], operation.result.type
    if not isinstance(value, int) or abs(value) >= _FAR:
        return None
    shape = type_.shape if isinstance(type_, Tile) else ()
    if element_of(type_) == I1 and shape:
        return Mask(() if value else (_even(1, shape),))
    return _even(int(value), shape) if isinstance(element_of(type_), DType) else None


def _even(value: int, shape: tuple[int, ...]) -> Line:
    return lines.splat(Line(number(value)), shape)


def _scalar(operation: Operation, operands: Sequence[Line]) -> Line | None:
    """Return what an operation makes of scalars, as the reference does it."""
    function = ELEMENTWISE.get(operation.code)
    result = element_of(operation.result.type)
    if function is None or not isinstance(result, DType):
        return None
    given = []
    for value, line in zip(operation.operands, operands, strict=True):
        element = element_of(value.type)
        if not isinstance(element, DType) or element.is_float:
            return None
        given.append(line.base.astype(element.numpy))
    found = np.asarray(function(operation, *np.broadcast_arrays(*given)))
    if found.dtype == np.uint64 and np.any(found > _FAR):
        return None
    return Line(found.astype(np.int64))


def _merged(values: Sequence[tuple[Known, Numbers]], count: int) -> Known:
    """Return what branches give, of which each is taken by its own instances."""
    if len(values) == 1:
        found, rows = values[0]
        return found if found is None or len(rows) == count else _spread(values, count)
    return _spread(values, count)


def _spread(values: Sequence[tuple[Known, Numbers]], count: int) -> Known:
    given = [(v, rows) for v, rows in values if isinstance(v, Line)]
    if len(given) < len(values):
        return None
    first = given[0][0]
    if any(v.origin != first.origin or v.shape != first.shape for v, _ in given):
        return None

    def merge(get: Callable[[Line], Numbers]) -> Numbers:
        merged = np.zeros(count, np.int64)
        for value, rows in given:
            merged[rows] = get(value)
        return merged

    strides = tuple(
        merge(lambda v, axis=axis: v.strides[axis])  # type: ignore[misc]  # bound at once
        for axis in range(len(first.shape))
    )
    return replace(first, base=merge(lambda v: v.base), strides=strides)


def _sums(
    amounts: Numbers, rows: Numbers, begins: Numbers, trips: Numbers
) -> tuple[Numbers, Numbers]:
    """Return what is added before each round, and in all of them."""
    amounts = np.broadcast_to(amounts, len(rows))
    totals = np.concatenate([[0], np.cumsum(amounts)])
    before = totals[:-1] - totals[begins[rows]]
    return before, totals[begins + trips] - totals[begins]


# ---- masks

_UNKNOWN_MASK = Mask((), is_exact=False)


def _mask(operation: Operation, operands: Sequence[Known]) -> Mask:
    """Return what a tile of i1 says; nothing, if that is not known."""
    code = operation.code
    if code is Code.AND:
        found = [v.lines for v in operands if isinstance(v, Mask)]
        is_exact = len(found) == len(operands) and all(
            v.is_exact for v in operands if isinstance(v, Mask)
        )
        return Mask(tuple(line for some in found for line in some), is_exact)
    if code is Code.SPLAT and isinstance(operands[0], Line):
        shape = operation.result.shape
        return Mask(tuple(lines.splat(line, shape) for line in _truth(operands[0]).lines))
    if code in _SHAPES and isinstance(operands[0], Mask):
        moved = [_SHAPES[code](operation, line) for line in operands[0].lines]
        is_exact = operands[0].is_exact and None not in moved
        return Mask(tuple(line for line in moved if line is not None), is_exact)
    known = [v for v in operands if isinstance(v, Line)]
    if code not in ops.ORDERED_COMPARISONS | {Code.EQ} or len(known) < 2:
        return _UNKNOWN_MASK
    a, b = known
    if code in (Code.GT, Code.GE):
        a, b = b, a
    difference = lines.added(replace(a, origin=None), replace(b, origin=None), -1)
    if known[0].origin != known[1].origin:
        return _UNKNOWN_MASK
    if code is Code.EQ:
        return Mask((difference, lines.scaled(difference, number(-1))))
    gap = 1 if code in (Code.LT, Code.GT) else 0
    return Mask((replace(difference, base=difference.base + gap),))


# ---- tiles

_SHAPES: dict[Code, Callable[[Operation, Line], Line | None]] = {
    Code.SPLAT: lambda o, v: lines.splat(v, o.result.shape),
    Code.BROADCAST: lambda o, v: lines.broadcast(v, o.result.shape),
    Code.PERMUTE: lambda o, v: lines.permute(v, o.attributes["order"]),
    Code.RESHAPE: lambda o, v: lines.reshape(v, o.result.shape),
    Code.AFTER: lambda o, v: v,
}


def _moved(operation: Operation, pointer: Line, offset: Line) -> Line | None:
    element = element_of(operation.result.type)
    assert isinstance(element, Pointer)
    if pointer.origin is None:
        return None
    return lines.added(pointer, lines.scaled(offset, number(element.element.bytes)))


def _product(operation: Operation, a: Line, b: Line) -> Line | None:
    if not b.is_even():
        a, b = b, a
    return lines.scaled(a, b.base) if b.is_even() else None


def _shifted(operation: Operation, a: Line, b: Line) -> Line | None:
    if not b.is_even() or np.any(b.base < 0) or np.any(b.base > 40):
        return None
    return lines.scaled(a, np.asarray(1 << b.base))


def _quotient(operation: Operation, a: Line, b: Line) -> Line | None:
    if not b.is_even() or np.any(b.base <= 0):
        return None
    if lines.remainder(a, b.base) is not None:
        return lines.scaled(a, number(0))
    if not a.is_even():
        return None
    return a.map(lambda x: np.sign(x) * (np.abs(x) // b.base))


def _rest(operation: Operation, a: Line, b: Line) -> Line | None:
    if not b.is_even() or np.any(b.base <= 0):
        return None
    if a.is_even():
        return replace(a, base=np.sign(a.base) * (np.abs(a.base) % b.base))
    return lines.remainder(a, b.base)


def _low_bits(operation: Operation, a: Line, b: Line) -> Line | None:
    if not b.is_even():
        a, b = b, a
    if not b.is_even() or np.any(b.base < 0) or np.any(b.base & (b.base + 1)):
        return None
    return lines.remainder(a, b.base + 1)


def _extreme(operation: Operation, a: Line, b: Line) -> Line | None:
    (a_low, a_high), (b_low, b_high) = a.bounds(), b.bounds()
    if operation.code is Code.MAX:
        a_low, b_high, b_low, a_high = b_low, a_high, a_low, b_high
    if np.all(a_high <= b_low):
        return a
    return b if np.all(b_high <= a_low) else None


def _cast(operation: Operation, a: Line) -> Line | None:
    source, target = (element_of(v.type) for v in (operation.operands[0], operation.result))
    if isinstance(source, Pointer) != isinstance(target, Pointer) or source == I1:
        return None
    return a


_TILES: dict[Code, Callable[..., Line | None]] = {
    Code.ADD: lambda o, a, b: lines.added(a, b),
    Code.SUB: lambda o, a, b: lines.added(a, b, -1),
    Code.NEG: lambda o, a: lines.scaled(a, number(-1)),
    Code.MUL: _product,
    Code.SHL: _shifted,
    Code.DIV: _quotient,
    Code.REM: _rest,
    Code.AND: _low_bits,
    Code.MIN: _extreme,
    Code.MAX: _extreme,
    Code.PTR_ADD: _moved,
    Code.CAST: _cast,
}
