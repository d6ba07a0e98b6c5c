"""Bits and exponents of floats, and the helpers that functions of ``libdevice`` share."""

from __future__ import annotations

from emu.tile.ops import Code
from emu.triton.language import conversion, mathematics
from emu.triton.language.arithmetic import clamp, maximum, minimum, not_equal, where
from emu.triton.language.context import builder
from emu.triton.language.conversion import bitcast_to, cast_to
from emu.triton.language.shapes import broadcast_tensors
from emu.triton.language.types import float32, float64, get_int_dtype, int32, int64
from emu.triton.language.values import TensorLike, tensor

INFINITY = float("inf")
NAN = float("nan")


def apply(code: Code, *operands: tensor) -> tensor:
    """Emit an operation of the tile IR on operands of one type."""
    emit, first = builder(), operands[0]
    if code is Code.FMA:
        handle = emit.fma(*(o.handle for o in operands))
    elif len(operands) == 2:
        handle = emit.binary(code, first.handle, operands[1].handle)
    else:
        handle = emit.unary(code, first.handle)
    return tensor(handle, first.type)


def like(x: tensor, value: float) -> tensor:
    """Return a number in the dtype and shape of a tensor."""
    return broadcast_tensors(conversion.constant(value, x.dtype), x)[0]


def fma(a: tensor, b: TensorLike, c: TensorLike) -> tensor:
    """Return ``a * b + c`` with one rounding; numbers take the dtype of ``a``."""
    operands = [v if isinstance(v, tensor) else like(a, float(v)) for v in (b, c)]  # type: ignore[arg-type]  # no constexpr comes here
    return apply(Code.FMA, a, *operands)


def widened(x: tensor) -> tensor:
    """Return a float as fp64."""
    return cast_to(x, float64)


def unsigned(x: tensor) -> tensor:
    """Return the bits as an unsigned integer."""
    return bitcast_to(x, get_int_dtype(x.dtype.primitive_bitwidth, False))


def signed(x: tensor) -> tensor:
    """Return the bits as a signed integer."""
    return bitcast_to(x, get_int_dtype(x.dtype.primitive_bitwidth, True))


def is_nan(x: tensor) -> tensor:
    """Return whether elements are NaN."""
    return not_equal(x, x)


def is_infinite(x: tensor) -> tensor:
    """Return whether elements are infinite."""
    return mathematics.abs(x) == INFINITY


def is_finite(x: tensor) -> tensor:
    """Return whether elements are finite."""
    return mathematics.abs(x) < INFINITY


def sign_bit(x: tensor) -> tensor:
    """Return the sign bits, 0 or 1."""
    return unsigned(x) >> (x.dtype.primitive_bitwidth - 1)


def copysign(x: tensor, y: tensor) -> tensor:
    """Return the first with the sign of the second."""
    top = 1 << (x.dtype.primitive_bitwidth - 1)
    bits = (unsigned(x) & (top - 1)) | (unsigned(y) & top)
    return bitcast_to(bits, x.dtype)


def round_away(x: tensor) -> tensor:
    """Round to the nearest integer, ties away from zero."""
    whole = mathematics.unary(Code.TRUNC, x)
    away = whole + copysign(like(x, 1.0), x)
    # The sign comes from the operand: what is less than a half gives a zero of its sign.
    return copysign(where(mathematics.abs(x - whole) >= 0.5, away, whole), x)


def nextafter(x: tensor, y: tensor) -> tensor:
    """Return the next number toward the second."""
    # Floats of one sign are ordered as their bits are; the step from zero is the smallest subnormal.
    bits = unsigned(x)
    top = 1 << (x.dtype.primitive_bitwidth - 1)
    grows = (x < y) == (x > 0)
    stepped = where(grows, bits + 1, bits - 1)
    stepped = where(x == 0, (unsigned(y) & top) | 1, stepped)
    moved = where(x == y, y, bitcast_to(stepped, x.dtype))
    return where(is_nan(x) | is_nan(y), x + y, moved)


def power_of_two(exponent: tensor) -> tensor:
    """Return ``2 ** exponent`` in fp64, of integers from -1022 to 1023."""
    return bitcast_to((cast_to(exponent, int64) + 1023) << 52, float64)


def exponent_of(x: tensor) -> tensor:
    """Return the exponents of fp64 as int64, subnormal numbers included: ``floor(log2(abs(x)))``.

    It has no meaning for zeros, infinities and NaN.
    """
    size = mathematics.abs(x)
    small = size < 2.0**-1022
    scaled = where(small, size * 2.0**54, size)
    found = (signed(scaled) >> 52) - 1023
    return where(small, found - 54, found)


def scaled_by(x: tensor, exponent: tensor) -> tensor:
    """Return ``x * 2 ** exponent``, rounded once; fp32 or fp64."""
    if x.dtype == float32:
        # Exact in fp64, so that the conversion rounds once.
        factor = power_of_two(clamp(cast_to(exponent, int64), -400, 400))
        return cast_to(widened(x) * factor, float32)
    rest = clamp(cast_to(exponent, int64), -4000, 4000)
    value = x
    for _ in range(2):
        high, low = rest > 1023, rest < -1022
        # Down by 2**-969 only, which keeps 53 bits above the subnormal numbers: the last step alone rounds.
        value = where(high, value * 2.0**1023, where(low, value * 2.0**-969, value))
        rest = where(high, rest - 1023, where(low, rest + 969, rest))
    return value * power_of_two(clamp(rest, -1022, 1023))


def ilogb(x: tensor) -> tensor:
    """Return the exponents as int32: of 0 and NaN the smallest integer, of infinities the largest."""
    value = widened(x)
    found = cast_to(exponent_of(value), int32)
    lowest, highest = int32.get_int_min_value(), int32.get_int_max_value()
    found = where(is_infinite(value), highest, found)
    return where((value == 0) | is_nan(value), lowest, found)


def logb(x: tensor) -> tensor:
    """Return the exponents as floats: of 0 minus infinity, of infinities infinity."""
    value = widened(x)
    found = cast_to(exponent_of(value), float64)
    found = where(value == 0, -INFINITY, found)
    found = where(is_finite(value), found, value * value)
    return cast_to(found, x.dtype)


def larger_smaller(x: tensor, y: tensor) -> tuple[tensor, tensor]:
    """Return the larger and the smaller of two numbers."""
    return maximum(x, y), minimum(x, y)
