"""Floats of 8 and 4 bits that the tile IR has no dtype for: their codes are bytes, converted by arithmetic on bits.

A code is a sign, an exponent and a mantissa, from the top. Its value is decoded to fp32, which holds each exactly, and
encoded from fp32 with one rounding. Everything here is operations of the tile IR, so that each back end runs it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from emu.tile import ir
from emu.tile import types as tile
from emu.tile.ops import Code
from emu.triton import formats
from emu.triton.language.context import builder

_F32_MANTISSA, _F32_BIAS, _F32_INFINITY = 23, 127, 0x7F800000


class Encoding(NamedTuple):
    """How the codes of a format are read.

    Attributes:
        bits: Width of a code, its sign included.
        mantissa: Bits of the mantissa.
        bias: Bias of the exponent.
        nan: The only code that is NaN; None for a format without NaN.
        negative_zero: Whether the code with nothing but a sign is -0.
    """

    bits: int
    mantissa: int
    bias: int
    nan: int | None
    negative_zero: bool

    @property
    def largest(self) -> int:
        """Code of the largest number."""
        return (1 << (self.bits - 1)) - 1


def _encoding(name: str, nan: int | None) -> Encoding:
    found = formats.BY_NAME[name]
    return Encoding(found.bits, found.mantissa, found.bias, nan, nan is None)


ENCODINGS: dict[str, Encoding] = {
    "fp8e4b15": _encoding("fp8e4b15", None),
    "fp8e4b8": _encoding("fp8e4b8", 0x80),
    "fp8e5b16": _encoding("fp8e5b16", 0x80),
}
"""Encodings of the dtypes whose elements are bytes in the tile IR, by Triton's short name."""

E2M1 = Encoding(4, 1, 1, None, True)
"""Four bits: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives."""


def _like(value: ir.Value, number: float) -> ir.Value:
    return builder().constant(number, value.type)


def _cast(value: ir.Value, to: tile.DType) -> ir.Value:
    return builder().cast(value, to)


def _binary(code: Code, a: ir.Value, number: ir.Value | float) -> ir.Value:
    b = number if isinstance(number, ir.Value) else _like(a, number)
    return builder().binary(code, a, b)


def _compare(code: Code, a: ir.Value, number: float) -> ir.Value:
    return builder().compare(code, a, _like(a, number))


def _select(condition: ir.Value, number: float, value: ir.Value) -> ir.Value:
    return builder().select(condition, _like(value, number), value)


def decode(codes: ir.Value, encoding: Encoding) -> ir.Value:
    """Emit the fp32 values of codes, exactly.

    Args:
        codes: Of u8; bits above those of the encoding are ignored.
        encoding: How they are read.
    """
    _, mantissa, bias, nan, _ = encoding
    emit = builder()
    wide = _cast(codes, tile.U32)
    magnitude = _binary(Code.AND, wide, encoding.largest)
    shifted = _binary(Code.SHL, magnitude, _F32_MANTISSA - mantissa)
    normal = _binary(Code.ADD, shifted, (_F32_BIAS - bias) << _F32_MANTISSA)
    # Multiplied as a float and not shifted as a subnormal of fp32, on which CPUs are slow.
    small = _binary(Code.MUL, _cast(magnitude, tile.F32), 2.0 ** (1 - bias - mantissa))
    is_small = _compare(Code.LT, magnitude, 1 << mantissa)
    value = emit.select(is_small, emit.bitcast(small, tile.U32), normal)
    sign = _binary(Code.AND, _binary(Code.SHL, wide, 32 - encoding.bits), 1 << 31)
    result = emit.bitcast(_binary(Code.OR, value, sign), tile.F32)
    if nan is None:
        return result
    return _select(_compare(Code.EQ, codes, nan), float("nan"), result)


def _to_single(value: ir.Value) -> ir.Value:
    """Emit a float as fp32 from which the code is the same as from the float itself: fp64 is rounded to odd."""
    element = tile.dtype_of(value.type)
    if element != tile.F64:
        return _cast(value, tile.F32)
    emit = builder()
    short = emit.cast(value, tile.F32, "rtz")
    inexact = emit.compare(Code.NE, emit.cast(short, tile.F64), value)
    bits = emit.bitcast(short, tile.U32)
    return emit.bitcast(_binary(Code.OR, bits, _cast(inexact, tile.U32)), tile.F32)


def encode(values: ir.Value, encoding: Encoding, rounding: str = "rtne") -> ir.Value:
    """Emit the codes of floats, each rounded once; what is too large, infinity too, becomes the largest number.

    Args:
        values: Of any float dtype of the tile IR. NaN becomes the code of NaN, or where there is none, the largest number.
        encoding: How the codes are read.
        rounding: ``"rtne"``, to nearest and of two as near to the even code, or ``"rtz"``, toward zero.
    """
    _, mantissa, bias, nan, negative_zero = encoding
    emit = builder()
    bits = emit.bitcast(_to_single(values), tile.U32)
    magnitude = _binary(Code.AND, bits, (1 << 31) - 1)
    number = emit.bitcast(magnitude, tile.F32)
    dropped = _F32_MANTISSA - mantissa
    scale = 2.0 ** (mantissa + bias - 1)
    if rounding == "rtz":
        rounded = magnitude
        scaled = _binary(Code.MUL, number, scale)
        small = _cast(_binary(Code.MIN, scaled, float(1 << mantissa)), tile.U32)
    else:
        even = _binary(Code.AND, _binary(Code.SHR, magnitude, dropped), 1)
        rounded = _binary(Code.ADD, magnitude, _binary(Code.ADD, even, (1 << (dropped - 1)) - 1))
        # Adding this number leaves no bits below the smallest number of the format.
        magic = 2.0**_F32_MANTISSA / scale
        small = emit.bitcast(_binary(Code.ADD, number, magic), tile.U32)
        small = _binary(Code.SUB, small, int(np.float32(magic).view(np.uint32)))
    normal = _binary(Code.SHR, rounded, dropped)
    normal = _binary(Code.SUB, normal, (_F32_BIAS - bias) << mantissa)
    is_small = _compare(Code.LT, magnitude, (_F32_BIAS + 1 - bias) << _F32_MANTISSA)
    code = emit.select(is_small, small, normal)
    code = _binary(Code.MIN, code, encoding.largest)
    sign = _binary(Code.SHL, _binary(Code.SHR, bits, 31), encoding.bits - 1)
    signed = _binary(Code.OR, code, sign)
    if not negative_zero:
        signed = _select(_compare(Code.EQ, code, 0), 0, signed)
    if nan is not None:
        signed = _select(_compare(Code.GT, magnitude, _F32_INFINITY), nan, signed)
    return _cast(signed, tile.U8)


def code_of(value: float, encoding: Encoding) -> int:
    """Return the code of a Python number, rounded to nearest even as :func:`encode` rounds."""
    if math.isnan(value):
        return encoding.largest if encoding.nan is None else encoding.nan
    code = encoding.largest
    if math.isfinite(value):
        exponent = max(math.frexp(value)[1], 2 - encoding.bias) if value else 2 - encoding.bias
        units = round(math.ldexp(abs(value), encoding.mantissa + 1 - exponent))  # ties to even
        code = min(code, units + ((exponent - 2 + encoding.bias) << encoding.mantissa))
    negative = math.copysign(1, value) < 0 and (encoding.negative_zero or code > 0)
    return code | (int(negative) << (encoding.bits - 1))
