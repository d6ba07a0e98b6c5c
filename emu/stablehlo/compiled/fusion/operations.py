"""Element-wise operations of StableHLO and CHLO, written in the tile IR.

Each has one function, which takes a builder, the static facts of the operation (:class:`Facts`) and its operands as tiles
or scalars of one shape. The results equal the reference's to the bit, but for functions of the transcendental kind.
"""

from __future__ import annotations

from emu.stablehlo.compiled.fusion.precision import reduce_precision
from emu.tile.fusion.emitters import Emit, Facts
from emu.tile.ir import Builder, Value
from emu.tile.ops import Code
from emu.tile.types import (
    DTYPES,
    F32,
    F64,
    I1,
    DType,
)


def like(b: Builder, value: bool | float, x: Value) -> Value:
    """Return a constant of the type of another value."""
    return b.constant(value, x.type)


def _binary(code: Code, of_bool: Code | None = None) -> Emit:
    def emit(b: Builder, facts: Facts, x: list[Value]) -> Value:
        chosen = of_bool if of_bool is not None and facts.dtype == I1 else code
        return b.binary(chosen, x[0], x[1])

    return emit


def _unary(code: Code) -> Emit:
    return lambda b, facts, x: b.unary(code, x[0])


def _unsigned(b: Builder, x: Value) -> Value:
    return b.bitcast(x, x.dtype.as_unsigned())


def extremum(b: Builder, code: Code, x: Value, y: Value) -> Value:
    """Return the greater (MAX) or the smaller: NaN wins, and -0 is less than +0."""
    if x.dtype == I1:
        return b.binary(Code.OR if code is Code.MAX else Code.AND, x, y)
    if not x.dtype.is_float:
        return b.binary(code, x, y)
    found = b.binary(code, x, y, propagate_nan=True)
    # Equal numbers have equal bits but for zeros, whose signs decide.
    join = Code.AND if code is Code.MAX else Code.OR
    bits = b.binary(join, _unsigned(b, x), _unsigned(b, y))
    return b.select(b.compare(Code.EQ, x, y), b.bitcast(bits, x.dtype), found)


def _extremum(code: Code) -> Emit:
    return lambda b, facts, x: extremum(b, code, x[0], x[1])


def _clamp(b: Builder, facts: Facts, x: list[Value]) -> Value:
    low, value, high = x
    return extremum(b, Code.MIN, extremum(b, Code.MAX, value, low), high)


def _divide(b: Builder, facts: Facts, x: list[Value]) -> Value:
    """Divide; integers by zero give all ones, and the least by -1 itself."""
    dividend, divisor = x
    if facts.dtype.is_float:
        return b.binary(Code.DIV, dividend, divisor)
    zero, one = like(b, 0, dividend), like(b, 1, dividend)
    is_zero = b.compare(Code.EQ, divisor, zero)
    safe = b.select(is_zero, one, divisor)
    ones = b.unary(Code.NOT, zero)
    if not facts.dtype.is_signed:
        return b.select(is_zero, ones, b.binary(Code.DIV, dividend, safe))
    is_minus = b.compare(Code.EQ, safe, ones)
    safe = b.select(is_minus, one, safe)
    quotient = b.binary(Code.DIV, dividend, safe)
    quotient = b.select(is_minus, b.binary(Code.SUB, zero, dividend), quotient)
    return b.select(is_zero, ones, quotient)


def _remainder(b: Builder, facts: Facts, x: list[Value]) -> Value:
    """Return the remainder; of integers by zero the dividend."""
    dividend, divisor = x
    if facts.dtype.is_float:
        return b.binary(Code.REM, dividend, divisor)
    zero, one = like(b, 0, dividend), like(b, 1, dividend)
    is_zero = b.compare(Code.EQ, divisor, zero)
    trivial = is_zero
    if facts.dtype.is_signed:
        minus = b.unary(Code.NOT, zero)
        trivial = b.binary(Code.OR, is_zero, b.compare(Code.EQ, divisor, minus))
    found = b.binary(Code.REM, dividend, b.select(trivial, one, divisor))
    return b.select(is_zero, dividend, b.select(trivial, zero, found))


def _negate(b: Builder, facts: Facts, x: list[Value]) -> Value:
    if facts.dtype.is_float:
        return b.unary(Code.NEG, x[0])
    return b.binary(Code.SUB, like(b, 0, x[0]), x[0])


def _abs(b: Builder, facts: Facts, x: list[Value]) -> Value:
    return b.unary(Code.ABS, x[0])


def _sign(b: Builder, facts: Facts, x: list[Value]) -> Value:
    (value,) = x
    zero, one = like(b, 0, value), like(b, 1, value)
    above = b.compare(Code.GT, value, zero)
    if not facts.dtype.is_float:
        if not facts.dtype.is_signed:
            return b.select(above, one, zero)
        below = b.compare(Code.LT, value, zero)
        return b.select(above, one, b.select(below, like(b, -1, value), zero))
    below = b.compare(Code.LT, value, zero)
    # Zeros and NaN are themselves.
    return b.select(above, one, b.select(below, like(b, -1.0, value), value))


def _is_finite(b: Builder, facts: Facts, x: list[Value]) -> Value:
    size = b.unary(Code.ABS, _widened(b, x[0]))
    return b.compare(Code.LT, size, like(b, float("inf"), size))


def _is_inf(b: Builder, facts: Facts, x: list[Value]) -> Value:
    size = b.unary(Code.ABS, _widened(b, x[0]))
    return b.compare(Code.EQ, size, like(b, float("inf"), size))


def _is_signed_inf(sign: float) -> Emit:
    def emit(b: Builder, facts: Facts, x: list[Value]) -> Value:
        value = _widened(b, x[0])
        return b.compare(Code.EQ, value, like(b, sign * float("inf"), value))

    return emit


def _widened(b: Builder, x: Value) -> Value:
    """Return a float as f32 at least: every dtype up to 32 bits has its values there."""
    return x if x.dtype == F64 else b.cast(x, F32)


def _round_away(b: Builder, facts: Facts, x: list[Value]) -> Value:
    """Round to the nearest, halves away from zero."""
    value = _widened(b, x[0])
    whole = b.unary(Code.TRUNC, value)
    rest = b.unary(Code.ABS, b.binary(Code.SUB, value, whole))
    zero = like(b, 0.0, value)
    step = b.select(b.compare(Code.LT, value, zero), like(b, -1.0, value), like(b, 1.0, value))
    away = b.binary(Code.ADD, whole, step)
    # Of an infinity the rest is NaN, and the whole the result.
    found = b.select(b.compare(Code.GE, rest, like(b, 0.5, value)), away, whole)
    return b.cast(found, facts.dtype)


def _logistic(b: Builder, facts: Facts, x: list[Value]) -> Value:
    return b.unary(Code.SIGMOID, x[0])


def _shift(kind: str) -> Emit:
    def emit(b: Builder, facts: Facts, x: list[Value]) -> Value:
        value, count = x
        dtype = facts.dtype
        if kind == "left":
            return b.binary(Code.SHL, value, count)
        working = dtype.as_unsigned() if kind == "logical" else dtype.as_signed()
        moved = b.binary(Code.SHR, b.bitcast(value, working), b.bitcast(count, working))
        return b.bitcast(moved, dtype)

    return emit


_RELATIONS = {
    "EQ": Code.EQ,
    "NE": Code.NE,
    "GE": Code.GE,
    "GT": Code.GT,
    "LE": Code.LE,
    "LT": Code.LT,
}


def _compare(b: Builder, facts: Facts, x: list[Value]) -> Value:
    relation, _, total = facts.word.partition(" ")
    left, right = x
    if total and left.dtype.is_float:
        left, right = _total_order(b, left), _total_order(b, right)
    if left.dtype == I1:
        left, right = b.cast(left, DTYPES["u8"]), b.cast(right, DTYPES["u8"])
    return b.compare(_RELATIONS[relation], left, right)


def _total_order(b: Builder, x: Value) -> Value:
    """Return integers that are ordered as floats are in IEEE's total order."""
    bits = b.bitcast(x, x.dtype.as_signed())
    flipped = b.binary(Code.XOR, bits, like(b, bits.dtype.limits[1], bits))
    return b.select(b.compare(Code.LT, bits, like(b, 0, bits)), flipped, bits)


def _select(b: Builder, facts: Facts, x: list[Value]) -> Value:
    return b.select(x[0], x[1], x[2])


def _convert(b: Builder, facts: Facts, x: list[Value]) -> Value:
    return b.cast(x[0], facts.dtype)


def _bitcast(b: Builder, facts: Facts, x: list[Value]) -> Value:
    return b.bitcast(x[0], facts.dtype)


def _square(b: Builder, facts: Facts, x: list[Value]) -> Value:
    return b.binary(Code.MUL, x[0], x[0])


def _population(b: Builder, facts: Facts, x: list[Value]) -> Value:
    """Count the bits that are set: pairs first, then fours, then bytes, summed by a product."""
    value = _unsigned(b, x[0])
    width = facts.dtype.bits
    ones = (1 << width) - 1

    def mask(byte: int) -> Value:
        return like(b, int.from_bytes(bytes([byte]) * (width // 8), "little"), value)

    def down(y: Value, count: int) -> Value:
        return b.binary(Code.SHR, y, like(b, count, value))

    pairs = b.binary(Code.SUB, value, b.binary(Code.AND, down(value, 1), mask(0x55)))
    fours = b.binary(
        Code.ADD,
        b.binary(Code.AND, pairs, mask(0x33)),
        b.binary(Code.AND, down(pairs, 2), mask(0x33)),
    )
    total = b.binary(Code.AND, b.binary(Code.ADD, fours, down(fours, 4)), mask(0x0F))
    if width > 8:
        total = down(b.binary(Code.MUL, total, like(b, ones // 255, value)), width - 8)
    return b.bitcast(total, facts.dtype)


def _leading_zeros(b: Builder, facts: Facts, x: list[Value]) -> Value:
    """Count the bits above the highest that is set: fill those below it, and count what is left."""
    value = _unsigned(b, x[0])
    step = 1
    while step < facts.dtype.bits:
        value = b.binary(Code.OR, value, b.binary(Code.SHR, value, like(b, step, value)))
        step *= 2
    return _population(b, facts, [b.unary(Code.NOT, value)])


EMITTERS: dict[str, Emit] = {
    "stablehlo.abs": _abs,
    "stablehlo.add": _binary(Code.ADD, Code.OR),
    "stablehlo.and": _binary(Code.AND),
    "stablehlo.atan2": _binary(Code.ATAN2),
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.ceil": _unary(Code.CEIL),
    "stablehlo.clamp": _clamp,
    "stablehlo.compare": _compare,
    "stablehlo.convert": _convert,
    "stablehlo.cosine": _unary(Code.COS),
    "stablehlo.count_leading_zeros": _leading_zeros,
    "stablehlo.divide": _divide,
    "stablehlo.exponential": _unary(Code.EXP),
    "stablehlo.exponential_minus_one": _unary(Code.EXPM1),
    "stablehlo.floor": _unary(Code.FLOOR),
    "stablehlo.is_finite": _is_finite,
    "stablehlo.log": _unary(Code.LOG),
    "stablehlo.log_plus_one": _unary(Code.LOG1P),
    "stablehlo.logistic": _logistic,
    "stablehlo.maximum": _extremum(Code.MAX),
    "stablehlo.minimum": _extremum(Code.MIN),
    "stablehlo.multiply": _binary(Code.MUL, Code.AND),
    "stablehlo.negate": _negate,
    "stablehlo.not": _unary(Code.NOT),
    "stablehlo.or": _binary(Code.OR),
    "stablehlo.popcnt": _population,
    "stablehlo.power": _binary(Code.POW),
    "stablehlo.reduce_precision": lambda b, facts, x: reduce_precision(b, facts.word, x[0]),
    "stablehlo.remainder": _remainder,
    "stablehlo.round_nearest_afz": _round_away,
    "stablehlo.round_nearest_even": _unary(Code.RINT),
    "stablehlo.rsqrt": _unary(Code.RSQRT),
    "stablehlo.select": _select,
    "stablehlo.shift_left": _shift("left"),
    "stablehlo.shift_right_arithmetic": _shift("arithmetic"),
    "stablehlo.shift_right_logical": _shift("logical"),
    "stablehlo.sign": _sign,
    "stablehlo.sine": _unary(Code.SIN),
    "stablehlo.sqrt": _unary(Code.SQRT),
    "stablehlo.subtract": _binary(Code.SUB, Code.XOR),
    "stablehlo.tan": _unary(Code.TAN),
    "stablehlo.tanh": _unary(Code.TANH),
    "stablehlo.xor": _binary(Code.XOR),
    "chlo.acos": _unary(Code.ACOS),
    "chlo.asin": _unary(Code.ASIN),
    "chlo.atan": _unary(Code.ATAN),
    "chlo.cosh": _unary(Code.COSH),
    "chlo.erf": _unary(Code.ERF),
    "chlo.is_inf": _is_inf,
    "chlo.is_neg_inf": _is_signed_inf(-1.0),
    "chlo.is_pos_inf": _is_signed_inf(1.0),
    "chlo.sinh": _unary(Code.SINH),
    "chlo.square": _square,
    "chlo.tan": _unary(Code.TAN),
    "mhlo.erf": _unary(Code.ERF),
}
"""Function per name of an operation."""

_FLOATS_ONLY = {
    "stablehlo.power",
    "stablehlo.round_nearest_afz",
    "stablehlo.is_finite",
}


def can_compute(name: str, sources: list[DType], result: DType) -> bool:
    """Return whether the tile IR computes an operation of these dtypes as the reference does."""
    if name not in EMITTERS:
        return False
    if name in _FLOATS_ONLY and not sources[0].is_float:
        return False
    if name == "stablehlo.bitcast_convert":
        return sources[0].bits == result.bits and I1 not in (sources[0], result)
    return True
