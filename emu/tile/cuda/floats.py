"""LLVM IR for floats: exact rounding to narrower formats, patterns, conversions to integers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from llvmlite import ir

from emu.kernels.core import dtype_table
from emu.tile.llvm import IrType, Register
from emu.tile.types import DTYPES, DType

_I8, _I16, _I32, _I64 = (ir.IntType(width) for width in (8, 16, 32, 64))
_F16, _F32, _F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()


class Format(NamedTuple):
    """A format narrower than 32 bits.

    Attributes:
        mantissa: Stored bits of the mantissa.
        exponent: Of the smallest normal number.
        largest: The largest number.
        beyond: What rounding gives above it: infinity or NaN.
    """

    mantissa: int
    exponent: int
    largest: float
    beyond: float


def _format(dtype: DType) -> Format:
    entry = dtype_table.BY_NAME[dtype.numpy.name]
    with np.errstate(all="ignore"):
        beyond = float(np.float32("inf").astype(dtype.numpy))
    # Without an infinity, the greatest exponent is one of numbers, and all ones in the mantissa is NaN.
    exponent, lost = (entry.bias, 1) if np.isinf(beyond) else (entry.bias + 1, 2)
    largest = (2.0 - lost * 2.0**-entry.mantissa) * 2.0**exponent
    return Format(entry.mantissa, 1 - entry.bias, largest, beyond)


FORMATS = {d.name: _format(d) for d in DTYPES.values() if d.is_narrow}
"""The narrow formats by the name of their dtype."""


class Floats:
    """Builder of code on floats held in registers of 32 or 64 bits."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.kind = _F64 if bits == 64 else _F32
        self.word = _I64 if bits == 64 else _I32
        self.sign = 1 << (bits - 1)

    def absolute(self, b: ir.IRBuilder, x: Register) -> Register:
        """Clear the sign."""
        return b.bitcast(b.and_(b.bitcast(x, self.word), self.word(self.sign - 1)), self.kind)

    def negate(self, b: ir.IRBuilder, x: Register) -> Register:
        """Flip the sign."""
        return b.bitcast(b.xor(b.bitcast(x, self.word), self.word(self.sign)), self.kind)

    def with_sign(self, b: ir.IRBuilder, magnitude: Register, like: Register) -> Register:
        """Give a number that is not negative the sign of another."""
        sign = b.and_(b.bitcast(like, self.word), self.word(self.sign))
        return b.bitcast(b.or_(b.bitcast(magnitude, self.word), sign), self.kind)

    def extreme(self, b: ir.IRBuilder, relation: str, x: Register, y: Register) -> Register:
        """Emit the smaller (``<``) or larger (``>``) of two; NaN where one is NaN."""
        chosen = b.select(b.fcmp_ordered(relation, x, y), x, y)
        return b.select(b.fcmp_unordered("uno", x, x), x, chosen)

    def extreme_number(self, b: ir.IRBuilder, relation: str, x: Register, y: Register) -> Register:
        """Emit the smaller or larger of two; the number where one is NaN."""
        first = b.or_(b.fcmp_ordered(relation, x, y), b.fcmp_unordered("uno", y, y))
        return b.select(first, x, y)

    def to_integer(self, b: ir.IRBuilder, x: Register, kind: IrType, signed: bool) -> Register:
        """Convert toward zero; give the nearest integer of the dtype where it does not fit, 0 for NaN."""
        width = kind.width
        low, high = (
            (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
        )
        above = b.fcmp_ordered(">=", x, self.kind(float(high + 1)))
        below = b.fcmp_ordered("<=", x, self.kind(float(low)))
        inside = b.and_(b.fcmp_ordered("ord", x, x), b.not_(b.or_(above, below)))
        safe = b.select(inside, x, self.kind(0.0))
        value = (b.fptosi if signed else b.fptoui)(safe, kind)
        return b.select(above, kind(high), b.select(below, kind(low), value))

    def to_odd(self, b: ir.IRBuilder, x: Register) -> Register:
        """Narrow fp64 to fp32 rounding to odd, so that a second rounding is exact."""
        near = b.fptrunc(x, _F32)
        back = b.fpext(near, _F64)
        bits = b.bitcast(near, _I32)
        # One pattern toward zero where the nearest lies beyond.
        beyond = b.fcmp_ordered(">", self.absolute(b, back), self.absolute(b, x))
        low = b.select(beyond, b.sub(bits, _I32(1)), bits)
        inexact = b.fcmp_ordered("!=", back, x)
        return b.bitcast(b.select(inexact, b.or_(low, _I32(1)), low), _F32)

    # ---- narrower formats, of a value in fp32

    def rounded(self, b: ir.IRBuilder, name: str, x: Register) -> Register:
        """Round to the nearest number of a format, ties to even."""
        if name == "f16":
            return b.fpext(b.fptrunc(x, _F16), _F32)
        form = FORMATS[name]
        bits = b.bitcast(x, _I32)
        shift = 23 - form.mantissa
        last = b.and_(b.lshr(bits, _I32(shift)), _I32(1))
        up = b.add(bits, b.add(last, _I32((1 << (shift - 1)) - 1)))
        normal = b.bitcast(b.and_(up, _I32(-(1 << shift))), _F32)
        magnitude = self.absolute(b, x)
        if form.exponent > -126:
            # Adding this number leaves no bits below the smallest number of the format.
            magic = _F32(1.5 * 2.0 ** (23 + form.exponent - form.mantissa))
            small = self.with_sign(b, b.fsub(b.fadd(magnitude, magic), magic), x)
            tiny = b.fcmp_ordered("<", magnitude, _F32(2.0**form.exponent))
            normal = b.select(tiny, small, normal)
        over = b.fcmp_ordered(">", self.absolute(b, normal), _F32(form.largest))
        normal = b.select(over, self.with_sign(b, _F32(form.beyond), x), normal)
        return b.select(b.fcmp_unordered("uno", x, x), x, normal)

    def truncated(self, b: ir.IRBuilder, name: str, x: Register) -> Register:
        """Round to the next number of a format toward zero; finite numbers stay finite."""
        form = FORMATS[name]
        bits = b.bitcast(x, _I32)
        normal = b.bitcast(b.and_(bits, _I32(-(1 << (23 - form.mantissa)))), _F32)
        magnitude = self.absolute(b, x)
        if form.exponent > -126:
            tiny = b.fcmp_ordered("<", magnitude, _F32(2.0**form.exponent))
            scale = 2.0 ** (form.mantissa - form.exponent)
            inside = b.select(tiny, magnitude, _F32(0.0))
            whole = b.sitofp(b.fptosi(b.fmul(inside, _F32(scale)), _I32), _F32)
            small = self.with_sign(b, b.fmul(whole, _F32(1 / scale)), x)
            normal = b.select(tiny, small, normal)
        over = b.fcmp_ordered(">", self.absolute(b, normal), _F32(form.largest))
        normal = b.select(over, self.with_sign(b, _F32(form.largest), x), normal)
        endless = b.fcmp_ordered("==", magnitude, _F32(float("inf")))
        normal = b.select(endless, self.with_sign(b, _F32(form.beyond), x), normal)
        return b.select(b.fcmp_unordered("uno", x, x), x, normal)

    def pattern(self, b: ir.IRBuilder, name: str, x: Register) -> Register:
        """Emit the bits of a number that the format can represent."""
        if name in ("f32", "f64"):
            return b.bitcast(x, self.word)
        if name == "bf16":
            # A NaN whose payload lies in the lower bits alone must stay one.
            high = b.trunc(b.lshr(b.bitcast(x, _I32), _I32(16)), _I16)
            return b.select(b.fcmp_unordered("uno", x, x), b.or_(high, _I16(0x40)), high)
        if name in ("f16", "f8e5m2"):
            half = b.bitcast(b.fptrunc(x, _F16), _I16)
            return half if name == "f16" else b.trunc(b.lshr(half, _I16(8)), _I8)
        scaled = b.bitcast(b.fmul(self.absolute(b, x), _F32(2.0**-120)), _I32)
        low = b.trunc(b.lshr(scaled, _I32(20)), _I8)
        low = b.select(b.fcmp_unordered("uno", x, x), _I8(0x7F), low)
        sign = b.trunc(b.lshr(b.bitcast(x, _I32), _I32(24)), _I8)
        return b.or_(b.and_(low, _I8(0x7F)), b.and_(sign, _I8(-128)))

    def value(self, b: ir.IRBuilder, name: str, bits: Register) -> Register:
        """Emit the number of a bit pattern, exactly."""
        if name in ("f32", "f64"):
            return b.bitcast(bits, self.kind)
        if name == "bf16":
            return b.bitcast(b.shl(b.zext(bits, _I32), _I32(16)), _F32)
        if name == "f16":
            return b.fpext(b.bitcast(bits, _F16), _F32)
        if name == "f8e5m2":
            half = b.shl(b.zext(bits, _I16), _I16(8))
            return b.fpext(b.bitcast(half, _F16), _F32)
        wide = b.zext(bits, _I32)
        low = b.and_(wide, _I32(0x7F))
        magnitude = b.fmul(b.bitcast(b.shl(low, _I32(20)), _F32), _F32(2.0**120))
        nan = b.icmp_unsigned("==", low, _I32(0x7F))
        magnitude = b.select(nan, _F32(float("nan")), magnitude)
        sign = b.shl(b.and_(wide, _I32(0x80)), _I32(24))
        return b.bitcast(b.or_(b.bitcast(magnitude, _I32), sign), _F32)
