"""The dtypes that kernels know, and conversion of narrow floats to and from fp32.

Numba has no arithmetic on fp16 and knows neither bf16 nor the two fp8 formats: kernels hold them as
``uint16`` and ``uint8`` bit patterns and convert at the edge, with one rounding (to nearest, ties to
even). NaN stays NaN and keeps its sign. What is too large becomes infinity, or NaN in e4m3fn, which
has no infinity; the variants named ``saturated`` give the largest finite value instead, for an
infinity too.

All conversions are selects and arithmetic without branches or tables, so that loops over them are
vectorised.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from emu.kernels.core import dtype_table
from emu.kernels.core.annotations import Bits, Intrinsic, IrBuilder, IrValue, Real
from emu.kernels.core.jit import fixed_intrinsic, jit

# The table stands in a module without Numba; kernels take its names from here.
DType = dtype_table.DType
ALL, BY_NAME = dtype_table.ALL, dtype_table.BY_NAME
KINDS, DTYPES, FLOATS = dtype_table.KINDS, dtype_table.DTYPES, dtype_table.FLOATS
kinds_of = dtype_table.kinds_of
BFLOAT16 = dtype_table.BFLOAT16
FLOAT8_E4M3FN, FLOAT8_E5M2 = dtype_table.FLOAT8_E4M3FN, dtype_table.FLOAT8_E5M2
BOOL, I8, I16, I32, I64 = (
    dtype_table.BOOL,
    dtype_table.I8,
    dtype_table.I16,
    dtype_table.I32,
    dtype_table.I64,
)
F16, BF16, F32, F64 = dtype_table.F16, dtype_table.BF16, dtype_table.F32, dtype_table.F64
F8_E4M3FN, F8_E5M2 = dtype_table.F8_E4M3FN, dtype_table.F8_E5M2


f16_to_f32 = fixed_intrinsic(types.float32, types.uint16)(
    lambda b, v: b.fpext(b.bitcast(v, ir.HalfType()), ir.FloatType())
)
f32_to_f16 = fixed_intrinsic(types.uint16, types.float32)(
    lambda b, v: b.bitcast(b.fptrunc(v, ir.HalfType()), ir.IntType(16))
)
f32_bits = fixed_intrinsic(types.uint32, types.float32)(lambda b, v: b.bitcast(v, ir.IntType(32)))
f32_bits_signed = fixed_intrinsic(types.int32, types.float32)(
    lambda b, v: b.bitcast(v, ir.IntType(32))
)
bits_f32 = fixed_intrinsic(types.float32, types.uint32)(lambda b, v: b.bitcast(v, ir.FloatType()))

_E4M3_SCALE, _MAX_F16 = np.float32(256.0), np.float32(65504.0)
_ABS, _SIGN = np.uint32(0x7FFFFFFF), np.uint32(0x80000000)
_INFINITY, _QUIET_NAN = np.uint32(0x7F800000), np.uint32(0x7FC00000)


@jit(inline="always")
def bf16_to_f32(bits: Bits) -> Real:
    """Widen a bf16 bit pattern; exact."""
    return bits_f32(np.uint32(bits) << np.uint32(16))


@jit(inline="always")
def f32_to_bf16(value: Real) -> Bits:
    """Round an fp32 value to a bf16 bit pattern, to nearest, ties to even; NaN gives a quiet NaN."""
    bits = f32_bits(value)
    rounded = np.uint32(bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    # A select on the bit pattern rather than on `value != value`: it vectorises.
    is_nan = (bits & _ABS) > _INFINITY
    return np.uint16((bits | np.uint32(0x400000) if is_nan else rounded) >> np.uint32(16))


@jit(inline="always")
def f8_e5m2_to_f32(bits: Bits) -> Real:
    """Widen an fp8 e5m2 bit pattern, which is the upper half of an fp16 one; exact."""
    return f16_to_f32(np.uint16(np.uint16(bits) << np.uint16(8)))


@jit(inline="always")
def f8_e4m3fn_to_f32(bits: Bits) -> Real:
    """Widen an fp8 e4m3fn bit pattern; exact."""
    # Read as fp16 the same fields mean 2**-8 of the value, subnormals included.
    half = np.uint16(bits)
    half = np.uint16(((half & np.uint16(0x7F)) << np.uint16(7)) | ((half & np.uint16(0x80)) << 8))
    wide = f32_bits(f16_to_f32(half) * _E4M3_SCALE)
    is_nan = (wide & _ABS) == np.uint32(0x43F00000)  # 480, one step above the largest value
    return bits_f32((wide & _SIGN) | _QUIET_NAN if is_nan else wide)


def _rounded_to_f8(mantissa: int, bias: int, overflow: int, nan: int) -> Intrinsic:
    """Make the conversion to an fp8 pattern of that mantissa and bias; larger ones become ``overflow``.

    In LLVM's types and not in Numba's, whose sum of two ``uint32`` is a ``uint64``: the loop would hold half
    as many elements in a vector.
    """
    i32, f32 = ir.IntType(32), ir.FloatType()
    drop, rebias = 23 - mantissa, (127 - bias) << 23
    # Adding a value whose last place is the smallest subnormal rounds to a multiple of that.
    magic = (127 + 23 + 1 - bias - mantissa) << 23

    def number(value: int) -> IrValue:
        return ir.Constant(i32, value)

    @fixed_intrinsic(types.uint8, types.float32)
    def convert(builder: IrBuilder, value: IrValue) -> IrValue:
        b = builder
        bits = b.bitcast(value, i32)
        magnitude = b.and_(bits, number(0x7FFFFFFF))
        odd = b.and_(b.lshr(bits, number(drop)), number(1))
        half = b.add(magnitude, number((1 << (drop - 1)) - 1 - rebias))
        normal = b.lshr(b.add(half, odd), number(drop))
        sum_ = b.fadd(b.bitcast(magnitude, f32), b.bitcast(number(magic), f32))
        small = b.sub(b.bitcast(sum_, i32), number(magic))
        # Signed comparisons of what is never negative: AVX2 has no others.
        is_small = b.icmp_signed("<", magnitude, number((128 - bias) << 23))
        result = b.select(is_small, small, normal)
        result = b.select(b.icmp_signed("<", result, number(overflow)), result, number(overflow))
        if nan != overflow:
            is_nan = b.icmp_signed(">", magnitude, number(0x7F800000))
            result = b.select(is_nan, number(nan), result)
        sign = b.and_(b.lshr(bits, number(24)), number(0x80))
        return b.trunc(b.or_(result, sign), ir.IntType(8))

    return convert


f32_to_f8_e5m2 = _rounded_to_f8(2, 15, 0x7C, 0x7E)
"""Round an fp32 value to an fp8 e5m2 bit pattern; what is too large becomes infinity."""

f32_to_f8_e4m3fn = _rounded_to_f8(3, 7, 0x7F, 0x7F)
"""Round an fp32 value to an fp8 e4m3fn bit pattern; what is too large becomes NaN."""

f32_to_f8_e5m2_saturated = _rounded_to_f8(2, 15, 0x7B, 0x7E)
"""Round an fp32 value to an fp8 e5m2 bit pattern; beyond ±57344 it is ±57344."""

f32_to_f8_e4m3fn_saturated = _rounded_to_f8(3, 7, 0x7E, 0x7F)
"""Round an fp32 value to an fp8 e4m3fn bit pattern; beyond ±448 it is ±448."""


@jit(inline="always")
def f32_to_f16_saturated(value: Real) -> Bits:
    """Round an fp32 value to an fp16 bit pattern; beyond ±65504 it is ±65504."""
    return f32_to_f16(max(min(value, _MAX_F16), -_MAX_F16))  # this order keeps NaN


@jit(inline="always")
def f32_to_bf16_saturated(value: Real) -> Bits:
    """Round an fp32 value to a bf16 bit pattern; beyond the largest finite value it is that."""
    bits = f32_bits(value)
    magnitude = bits & _ABS
    rounded = np.uint32(magnitude + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    clipped = min(np.uint32(rounded >> np.uint32(16)), np.uint32(0x7F7F))
    result = np.uint32(0x7FC0) if magnitude > _INFINITY else clipped
    return np.uint16(result | ((bits & _SIGN) >> np.uint32(16)))


@jit(inline="always")
def f64_to_f32_odd(value: Real) -> Real:
    """Narrow an fp64 value to fp32, inexact ones to the neighbour whose last bit is 1.

    That bit remembers that something was cut off: a second rounding, to at most 22 bits of mantissa,
    gives what one rounding of the fp64 value gives. Overflow gives the largest finite value.
    """
    near = np.float32(value)
    bits = f32_bits(near)
    back = np.float64(near)
    inexact = (back != value) & (value == value)  # noqa: PLR0124 - false for NaN
    even = inexact & ((bits & np.uint32(1)) == np.uint32(0))
    step = np.uint32(0xFFFFFFFF) if abs(back) > abs(value) else np.uint32(1)
    return bits_f32(np.uint32(bits + (step if even else np.uint32(0))))
