"""What the nodes of PyPTO's recipes mean, in the tile IR."""

from __future__ import annotations

from emu.tile.fusion.emitters import Emit, Facts
from emu.tile.ir import Builder, Value
from emu.tile.ops import Code
from emu.tile.types import I1


def _binary(code: Code) -> Emit:
    return lambda b, facts, x: b.binary(code, x[0], x[1])


def _unary(code: Code) -> Emit:
    return lambda b, facts, x: b.unary(code, x[0])


def _compare(code: Code) -> Emit:
    return lambda b, facts, x: b.compare(code, x[0], x[1])


def _extremum(code: Code) -> Emit:
    def emit(b: Builder, facts: Facts, x: list[Value]) -> Value:
        if x[0].dtype.is_float:
            return b.binary(code, x[0], x[1], propagate_nan=True)
        return b.binary(code, x[0], x[1])

    return emit


def _negate(b: Builder, facts: Facts, x: list[Value]) -> Value:
    if facts.dtype.is_float:
        return b.unary(Code.NEG, x[0])
    return b.binary(Code.SUB, b.constant(0, x[0].type), x[0])


def _rsqrt(b: Builder, facts: Facts, x: list[Value]) -> Value:
    return b.binary(Code.DIV, b.constant(1.0, x[0].type), b.unary(Code.SQRT, x[0]))


def _cast(b: Builder, facts: Facts, x: list[Value]) -> Value:
    """Convert; floats become integers by truncation, saturate, and NaN becomes 0."""
    (value,) = x
    target = facts.dtype
    if target == I1:
        zero = b.constant(0.0 if value.dtype.is_float else 0, value.type)
        return b.compare(Code.NE, value, zero)
    if not value.dtype.is_float or target.is_float:
        return b.cast(value, target)
    low, high = target.limits
    # The largest integer may be no float: what reaches the number above it, which is one, saturates.
    above = b.compare(Code.GE, value, b.constant(float(high + 1), value.type))
    below = b.compare(Code.LE, value, b.constant(float(low), value.type))
    is_nan = b.compare(Code.NE, value, value)
    outside = b.binary(Code.OR, above, b.binary(Code.OR, below, is_nan))
    safe = b.select(outside, b.constant(0.0, value.type), value)
    found = b.cast(b.unary(Code.TRUNC, safe), target)
    found = b.select(above, b.constant(high, found.type), found)
    return b.select(below, b.constant(low, found.type), found)


def _select(b: Builder, facts: Facts, x: list[Value]) -> Value:
    return b.select(x[0], x[1], x[2])


def _shift(code: Code) -> Emit:
    """Shift; a count below 0, or of all bits or more, leaves 0, or the sign."""

    def emit(b: Builder, facts: Facts, x: list[Value]) -> Value:
        value, count = x
        dtype = value.dtype
        outside = b.compare(Code.GE, count, b.constant(dtype.bits, count.type))
        if dtype.limits[0] < 0:
            below = b.compare(Code.LT, count, b.constant(0, count.type))
            outside = b.binary(Code.OR, outside, below)
        keeps_sign = code is Code.SHR and dtype.limits[0] < 0
        instead = b.constant(dtype.bits - 1 if keeps_sign else 0, count.type)
        found = b.binary(code, value, b.select(outside, instead, count))
        if keeps_sign:
            return found
        return b.select(outside, b.constant(0, found.type), found)

    return emit


EMITTERS: dict[str, Emit] = {
    "pypto.abs": _unary(Code.ABS),
    "pypto.and": _binary(Code.AND),
    "pypto.left_shift": _shift(Code.SHL),
    "pypto.not": _unary(Code.NOT),
    "pypto.or": _binary(Code.OR),
    "pypto.right_shift": _shift(Code.SHR),
    "pypto.xor": _binary(Code.XOR),
    "pypto.add": _binary(Code.ADD),
    "pypto.cast": _cast,
    "pypto.div": _binary(Code.DIV),
    "pypto.eq": _compare(Code.EQ),
    "pypto.exp": _unary(Code.EXP),
    "pypto.ge": _compare(Code.GE),
    "pypto.gt": _compare(Code.GT),
    "pypto.le": _compare(Code.LE),
    "pypto.log": _unary(Code.LOG),
    "pypto.lt": _compare(Code.LT),
    "pypto.maximum": _extremum(Code.MAX),
    "pypto.minimum": _extremum(Code.MIN),
    "pypto.mul": _binary(Code.MUL),
    "pypto.ne": _compare(Code.NE),
    "pypto.neg": _negate,
    "pypto.rsqrt": _rsqrt,
    "pypto.sigmoid": _unary(Code.SIGMOID),
    "pypto.sqrt": _unary(Code.SQRT),
    "pypto.sub": _binary(Code.SUB),
    "pypto.ceil": _unary(Code.CEIL),
    "pypto.cos": _unary(Code.COS),
    "pypto.erf": _unary(Code.ERF),
    "pypto.expm1": _unary(Code.EXPM1),
    "pypto.floor": _unary(Code.FLOOR),
    "pypto.log1p": _unary(Code.LOG1P),
    "pypto.round": _unary(Code.RINT),
    "pypto.sin": _unary(Code.SIN),
    "pypto.tanh": _unary(Code.TANH),
    "pypto.trunc": _unary(Code.TRUNC),
    "pypto.where": _select,
}
"""Function per kind of node."""
