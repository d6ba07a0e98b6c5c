"""Intervals: code that computes bounds of the elements of a tile, as a rule from a few scalars.

``row * stride + tl.arange(0, 1024)`` lies between two numbers that follow from ``row`` and ``stride`` alone. The
bounds of what is not built in this way (indices that were loaded, say) are the least and the greatest
element of the smallest tile that is not: of a row of indices rather than of the pointers made of it.

An interval is that of the *true* integers, which may exceed the dtype where the program's own arithmetic wraps.
Sums, differences and products are right modulo the width in either case; where anything else is done with a
value (a widening, a division), :meth:`Intervals.settle` adds the condition that it did not wrap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from emu.tile import ops
from emu.tile.ir import Builder, Operation, Region, Value
from emu.tile.ops import Code
from emu.tile.passes.origins import is_pointer
from emu.tile.types import I1, I64, DType, Pointer, Tile, element_of

Number = int | Value
"""An i64: known now, or when the program runs."""

# Sums of two numbers up to _FAR, products of two up to _SIDE and addresses moved by _OFFSET elements fit into an i64.
_FAR = 1 << 61
_SIDE = 1 << 31
_OFFSET = 1 << 48


@dataclass(frozen=True)
class Interval:
    """Bounds of all elements of a value.

    Attributes:
        low: No element is less.
        high: No element is greater.
        least: What is known of ``low`` now.
        most: What is known of ``high`` now.
        conditions: What must hold when the program runs for the bounds to be right.
    """

    low: Number
    high: Number
    least: int = -_FAR
    most: int = _FAR
    conditions: tuple[Value, ...] = ()


@dataclass(eq=False)
class Scope:
    """A region that is being rewritten.

    Attributes:
        out: Its operations so far.
        known: Intervals of values, computed in it.
    """

    out: list[Operation] = field(default_factory=list)
    known: dict[Value, Interval] = field(default_factory=dict)

    def builder(self) -> Builder:
        """Return a builder that appends to it."""
        return Builder(Region([], self.out))


Path = tuple[object, ...]
"""How the coordinates of a lane become those of a value: the views between, apart from broadcasts."""


class Arithmetic:
    """Arithmetic of numbers of which some are known now.

    Args:
        builder: Where code goes.
    """

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    def value(self, number: Number) -> Value:
        """Return a number as a value."""
        return self.builder.constant(number, I64) if isinstance(number, int) else number

    def binary(self, code: Code, now: Callable[[int, int], int], a: Number, b: Number) -> Number:
        """Apply an operation, now if both are known."""
        if isinstance(a, int) and isinstance(b, int):
            return now(a, b)
        more = {"propagate_nan": False} if code in (Code.MIN, Code.MAX) else {}
        return self.builder.binary(code, self.value(a), self.value(b), **more)

    def add(self, a: Number, b: Number) -> Number:
        """Return the sum."""
        return b if a == 0 else a if b == 0 else self.binary(Code.ADD, lambda x, y: x + y, a, b)

    def sub(self, a: Number, b: Number) -> Number:
        """Return the difference."""
        return a if b == 0 else self.binary(Code.SUB, lambda x, y: x - y, a, b)

    def mul(self, a: Number, b: Number) -> Number:
        """Return the product."""
        return b if a == 1 else a if b == 1 else self.binary(Code.MUL, lambda x, y: x * y, a, b)

    def min(self, a: Number, b: Number) -> Number:
        """Return the smaller one."""
        return a if a is b else self.binary(Code.MIN, min, a, b)

    def max(self, a: Number, b: Number) -> Number:
        """Return the greater one."""
        return a if a is b else self.binary(Code.MAX, max, a, b)

    def compare(self, code: Code, a: Number, b: Number) -> Value:
        """Return a comparison."""
        return self.builder.compare(code, self.value(a), self.value(b))

    def all(self, conditions: tuple[Value, ...]) -> Value:
        """Return whether all conditions hold."""
        distinct = list(dict.fromkeys(conditions))
        if not distinct:
            return self.builder.constant(True, I1)
        found = distinct[0]
        for condition in distinct[1:]:
            found = self.builder.binary(Code.AND, found, condition)
        return found


class Intervals:
    """Intervals of values, given what a mask says of the lanes that count.

    Args:
        here: The scope in which the bounds are needed.
        home: The scope that defines each value.
    """

    def __init__(self, here: Scope, home: dict[Value, Scope]) -> None:
        self._here = here
        self._home = home
        self._narrowed: dict[tuple[Value, Path | None], Interval] = {}
        self._subjects: set[Value] = set()
        self._depends: dict[Value, bool] = {}
        self.empty: list[Value] = []

    # ---- masks

    def assume(self, mask: Value, path: Path = ()) -> None:
        """Take a mask into account: intervals are then those of lanes where it is true.

        ``empty`` gets conditions of which each says that there is no such lane.
        """
        operation = mask.owner
        if operation is None:
            return
        code = operation.code
        if code is Code.AND:
            for operand in operation.operands:
                self.assume(operand, path)
        elif code in (Code.BROADCAST, Code.SPLAT):
            self.assume(operation.operands[0], path)
        elif code in (Code.RESHAPE, Code.PERMUTE):
            self.assume(operation.operands[0], (*path, _view(operation)))
        elif code in ops.ORDERED_COMPARISONS | {Code.EQ}:
            self._assume_comparison(operation, path)

    def _assume_comparison(self, operation: Operation, path: Path) -> None:
        first, second = operation.operands
        if is_pointer(first) or not first.dtype.is_integer:
            return
        arithmetic = Arithmetic(self._here.builder())
        a = self.settle(self._plain(first), first.dtype)
        b = self.settle(self._plain(second), second.dtype)
        code = operation.code
        if code in (Code.GT, Code.GE):
            (first, a), (second, b) = (second, b), (first, a)
        gap = 1 if code in (Code.LT, Code.GT) else 0
        both = tuple(dict.fromkeys(a.conditions + b.conditions))
        high = arithmetic.min(a.high, arithmetic.sub(b.high, gap))
        low = arithmetic.max(b.low, arithmetic.add(a.low, gap))
        most, least = min(a.most, b.most - gap), max(b.least, a.least + gap)
        lower = Interval(a.low, high, a.least, most, both)
        upper = Interval(low, b.high, least, b.most, both)
        if code is Code.EQ:
            low, high = arithmetic.max(a.low, b.low), arithmetic.min(a.high, b.high)
            least, most = max(a.least, b.least), min(a.most, b.most)
            lower = upper = Interval(low, high, least, most, both)
        for value, interval in ((first, lower), (second, upper)):
            self._narrow(value, path, interval)

    def _narrow(self, value: Value, path: Path, interval: Interval) -> None:
        if value.owner is not None and value.owner.code is Code.CONSTANT:
            return
        while value.owner is not None and value.owner.code in (Code.SPLAT, Code.BROADCAST):
            value = value.owner.operands[0]  # all lanes of one element count as it does
        key = (value, path if value.shape else None)
        arithmetic = Arithmetic(self._here.builder())
        before = self._narrowed.get(key)
        if before is not None:
            interval = Interval(
                arithmetic.max(before.low, interval.low),
                arithmetic.min(before.high, interval.high),
                max(before.least, interval.least),
                min(before.most, interval.most),
                before.conditions + interval.conditions,
            )
        self._narrowed[key] = interval
        self._subjects.add(value)
        self._depends.clear()
        nothing = arithmetic.compare(Code.GT, interval.low, interval.high)
        self.empty.append(arithmetic.all((*interval.conditions, nothing)))

    def _depends_on_mask(self, value: Value) -> bool:
        if not self._subjects:
            return False
        if value not in self._depends:
            owner = value.owner
            passes = owner is not None and owner.code in ops.ELEMENTWISE | ops.LEAVES | ops.SHAPES
            self._depends[value] = value in self._subjects or (
                passes and owner is not None and any(map(self._depends_on_mask, owner.operands))
            )
        return self._depends[value]

    # ---- intervals

    def settle(self, interval: Interval, dtype: DType) -> Interval:
        """Return the interval with the condition that the dtype holds the true integers."""
        low, high = dtype.limits
        if low <= interval.least and interval.most <= high:
            return interval
        return self._limit(interval, low, min(high, _FAR))

    def _limit(self, interval: Interval, low: int, high: int) -> Interval:
        arithmetic = Arithmetic(self._here.builder())
        found = list(interval.conditions)
        if interval.least < low:
            found.append(arithmetic.compare(Code.GE, interval.low, low))
        if interval.most > high:
            found.append(arithmetic.compare(Code.LE, interval.high, high))
        return replace(
            interval,
            least=max(interval.least, low),
            most=min(interval.most, high),
            conditions=tuple(found),
        )

    def of(self, value: Value, path: Path = ()) -> Interval:
        """Return the interval of a value: of addresses for pointers."""
        found = self._narrowed.get((value, path if value.shape else None))
        if found is not None:
            return found
        if self._depends_on_mask(value):
            return self._compute(value, path)
        return self._plain(value)

    def _plain(self, value: Value) -> Interval:
        """Return the interval of all elements, computed where the value is defined."""
        home = self._home[value]
        if value not in home.known:
            inner = (
                self if home is self._here and not self._subjects else Intervals(home, self._home)
            )
            home.known[value] = inner._compute(value, ())
        return home.known[value]

    def _compute(self, value: Value, path: Path) -> Interval:
        operation = value.owner
        if operation is not None:
            if operation.code is Code.CONSTANT and isinstance(operation.attributes["value"], int):
                number = int(operation.attributes["value"])
                return Interval(number, number, number, number)
            if value.shape or self._depends_on_mask(value):
                found = self._of_operation(operation, path)
                if found is not None:
                    return found
        return self._of_elements(value)

    def _of_elements(self, value: Value) -> Interval:
        """Return the least and the greatest element."""
        builder = self._here.builder()
        element = element_of(value.type)
        if element == I1:
            return Interval(0, 1, 0, 1)
        least, most = -_FAR, _FAR
        if isinstance(element, DType):
            least, most = I64.limits if element.bits == 64 else element.limits
        number = builder.cast(value, I64)
        if value.owner is not None and value.owner.code is Code.PROGRAM_ID:
            least = 0
        if not value.shape:
            return self._limit(Interval(number, number, least, most), -_FAR, _FAR)
        assert isinstance(value.type, Tile)
        row = builder.reshape(number, (value.type.size,))
        (low,) = builder.reduce((row,), 0, combining(builder, Code.MIN))
        (high,) = builder.reduce((row,), 0, combining(builder, Code.MAX))
        return self._limit(Interval(low, high, least, most), -_FAR, _FAR)

    def _of_operation(self, operation: Operation, path: Path) -> Interval | None:
        code, operands = operation.code, operation.operands
        if code is Code.ARANGE:
            start, end = operation.attributes["start"], operation.attributes["end"]
            return Interval(start, end - 1, start, end - 1)
        if code in (Code.SPLAT, Code.BROADCAST):
            return self.of(operands[0], path)
        if code in ops.SHAPES:
            found = [self.of(v, (*path, _view(operation))) for v in operands[:2]]
            return self._union(*found) if code in (Code.JOIN, Code.CAT) else found[0]
        if code is Code.SELECT:
            return self._union(self.of(operands[1], path), self.of(operands[2], path))
        if code is Code.PTR_ADD:
            return self._moved(operation, path)
        if code in ops.CONVERSIONS:
            return self._converted(operation, path)
        rule = _RULES.get(code)
        if rule is None or not all(v.dtype.is_integer for v in operands):
            return None
        arithmetic = Arithmetic(self._here.builder())
        found = [self.of(v, path) for v in operands]
        if code not in _RING:
            found = [self.settle(i, v.dtype) for i, v in zip(found, operands, strict=True)]
        elif code in (Code.MUL, Code.SHL):
            found = [self._limit(i, -_SIDE, _SIDE) for i in found]
        result = rule(arithmetic, *found)
        if result is None:
            return None
        kept = tuple(dict.fromkeys(c for i in found for c in i.conditions))
        result = replace(result, conditions=kept + result.conditions)
        return self._limit(result, -_FAR, _FAR)

    def _union(self, a: Interval, b: Interval) -> Interval:
        arithmetic = Arithmetic(self._here.builder())
        return Interval(
            arithmetic.min(a.low, b.low),
            arithmetic.max(a.high, b.high),
            min(a.least, b.least),
            max(a.most, b.most),
            tuple(dict.fromkeys(a.conditions + b.conditions)),
        )

    def _moved(self, operation: Operation, path: Path) -> Interval:
        pointer, offset = operation.operands
        element = element_of(pointer.type)
        assert isinstance(element, Pointer)
        by = self.settle(self.of(offset, path), offset.dtype)
        by = self._limit(by, -_OFFSET, _OFFSET)
        at = self.of(pointer, path)
        arithmetic = Arithmetic(self._here.builder())
        size = element.element.bytes
        return Interval(
            arithmetic.add(at.low, arithmetic.mul(by.low, size)),
            arithmetic.add(at.high, arithmetic.mul(by.high, size)),
            conditions=tuple(dict.fromkeys(at.conditions + by.conditions)),
        )

    def _converted(self, operation: Operation, path: Path) -> Interval | None:
        (operand,) = operation.operands
        source, target = element_of(operand.type), element_of(operation.result.type)
        if not _is_whole(source) or not _is_whole(target):
            return None
        found = self.of(operand, path)
        if isinstance(source, DType) and (
            isinstance(target, Pointer) or target.bits > source.bits or source == I1
        ):
            found = self.settle(found, source)
        return found


def _is_whole(element: DType | Pointer) -> bool:
    return isinstance(element, Pointer) or element.is_integer


def _view(operation: Operation) -> object:
    attributes = tuple(sorted(operation.attributes.items()))
    shapes = tuple(v.shape for v in (*operation.operands, *operation.results))
    return operation.code, shapes, attributes


def combining(builder: Builder, code: Code) -> Callable[[Value, Value], tuple[Value]]:
    """Return the combine function of a reduction by MIN or MAX."""
    return lambda a, b: (builder.binary(code, a, b, propagate_nan=False),)


# ---- what each operation makes of the intervals of its operands

_Rule = Callable[..., Interval | None]


def _add(n: Arithmetic, a: Interval, b: Interval) -> Interval:
    return Interval(n.add(a.low, b.low), n.add(a.high, b.high), a.least + b.least, a.most + b.most)


def _sub(n: Arithmetic, a: Interval, b: Interval) -> Interval:
    return Interval(n.sub(a.low, b.high), n.sub(a.high, b.low), a.least - b.most, a.most - b.least)


def _neg(n: Arithmetic, a: Interval) -> Interval:
    return Interval(n.sub(0, a.high), n.sub(0, a.low), -a.most, -a.least)


def _mul(n: Arithmetic, a: Interval, b: Interval) -> Interval:
    if a.low is a.high or a.least == a.most:
        a, b = b, a
    corners = [x * y for x in (a.least, a.most) for y in (b.least, b.most)]
    least, most = min(corners), max(corners)
    if b.low is b.high or b.least == b.most:
        low, high = n.mul(a.low, b.low), n.mul(a.high, b.low)
        if b.least < 0:
            low, high = n.min(low, high), n.max(low, high)
        return Interval(low, high, least, most)
    products = [n.mul(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    low = n.min(n.min(products[0], products[1]), n.min(products[2], products[3]))
    high = n.max(n.max(products[0], products[1]), n.max(products[2], products[3]))
    return Interval(low, high, least, most)


def _shl(n: Arithmetic, a: Interval, b: Interval) -> Interval | None:
    if b.least != b.most or not 0 <= b.least < 31:
        return None
    by = 1 << b.least
    return Interval(n.mul(a.low, by), n.mul(a.high, by), a.least * by, a.most * by)


def _shr(n: Arithmetic, a: Interval, b: Interval) -> Interval | None:
    if b.least != b.most or not 0 <= b.least < 63:
        return None

    def shift(x: Number) -> Number:
        return n.binary(Code.SHR, lambda p, q: p >> q, x, b.least)

    return Interval(shift(a.low), shift(a.high), a.least >> b.least, a.most >> b.least)


def _positive(n: Arithmetic, b: Interval) -> tuple[Number, tuple[Value, ...]] | None:
    """Return a divisor, if it is one number, and the condition that it is positive."""
    if b.low is not b.high and b.least != b.most:
        return None
    if isinstance(b.low, int):
        return (b.low, ()) if b.low > 0 else None
    return n.max(b.low, 1), (n.compare(Code.GE, b.low, 1),)


def _div(n: Arithmetic, a: Interval, b: Interval) -> Interval | None:
    divisor = _positive(n, b)
    if divisor is None:
        return None
    by, conditions = divisor

    def quotient(x: Number) -> Number:
        return n.binary(Code.DIV, lambda p, q: abs(p) // q * (1 if p >= 0 else -1), x, by)

    least, most = min(a.least, 0), max(a.most, 0)
    return Interval(quotient(a.low), quotient(a.high), least, most, conditions)


def _rem(n: Arithmetic, a: Interval, b: Interval) -> Interval | None:
    divisor = _positive(n, b)
    if divisor is None:
        return None
    by, conditions = divisor
    last = n.sub(by, 1)
    low = 0 if a.least >= 0 else n.min(0, n.max(a.low, n.sub(1, by)))
    high = n.max(0, n.min(a.high, last))
    bound = max(abs(b.least), abs(b.most))
    least = 0 if a.least >= 0 else -min(-a.least, bound)
    return Interval(low, high, least, max(0, min(a.most, bound)), conditions)


def _and(n: Arithmetic, a: Interval, b: Interval) -> Interval | None:
    if b.least < 0:
        a, b = b, a
    return None if b.least < 0 else Interval(0, b.high, 0, b.most)


def _or(n: Arithmetic, a: Interval, b: Interval) -> Interval | None:
    if a.least < 0 or b.least < 0:
        return None
    return Interval(0, n.add(a.high, b.high), 0, a.most + b.most)


def _min(n: Arithmetic, a: Interval, b: Interval) -> Interval:
    least, most = min(a.least, b.least), min(a.most, b.most)
    return Interval(n.min(a.low, b.low), n.min(a.high, b.high), least, most)


def _max(n: Arithmetic, a: Interval, b: Interval) -> Interval:
    least, most = max(a.least, b.least), max(a.most, b.most)
    return Interval(n.max(a.low, b.low), n.max(a.high, b.high), least, most)


_RULES: dict[Code, _Rule] = {
    Code.ADD: _add,
    Code.SUB: _sub,
    Code.NEG: _neg,
    Code.MUL: _mul,
    Code.SHL: _shl,
    Code.SHR: _shr,
    Code.DIV: _div,
    Code.REM: _rem,
    Code.AND: _and,
    Code.OR: _or,
    Code.XOR: _or,
    Code.MIN: _min,
    Code.MAX: _max,
}
_RING = frozenset({Code.ADD, Code.SUB, Code.NEG, Code.MUL, Code.SHL})
"""Operations that are right modulo the width whether their operands wrapped or not."""
