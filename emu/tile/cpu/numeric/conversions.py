"""Conversions between elements in registers: every dtype to every other, with exactly one rounding."""

from __future__ import annotations

from llvmlite import ir

from emu.tile.cpu.numeric.vector_builder import (
    BYTE,
    DOUBLE,
    FLOAT,
    HALF,
    I16,
    I32,
    I64,
    VectorBuilder,
    intrinsic,
    lanes_of,
    number,
    register_type,
)
from emu.tile.llvm import IrType, Register
from emu.tile.types import (
    BF16,
    F8E4M3FN,
    F8E5M2,
    F16,
    F32,
    F64,
    U64,
    DType,
    Kind,
    Pointer,
    ScalarType,
)

NEAREST, TOWARD_ZERO = "rtne", "rtz"
_ODD = "odd"  # inexact results get an odd last bit: rounding once more, to fewer bits, stays one rounding


def convert(
    builder: ir.IRBuilder,
    value: Register,
    source: ScalarType,
    target: ScalarType,
    rounding: str = NEAREST,
) -> Register:
    """Emit the conversion of a value.

    Args:
        builder: Where the code goes.
        value: Register of ``source``, scalar or vector.
        source: What it holds.
        target: What the result holds.
        rounding: ``"rtne"`` or ``"rtz"``, for a float that becomes a narrower float.

    Returns:
        A register of as many lanes.
    """
    lanes = VectorBuilder(builder, lanes_of(value.type))
    if isinstance(source, Pointer):
        source = U64
    if isinstance(target, Pointer):
        target = U64
    if source == target:
        return value
    if target.kind is Kind.BOOL:
        return _to_bool(lanes, value, source)
    if target.is_float:
        if source.is_float:
            if source.bits <= target.bits:
                rounding = NEAREST
            return _float_to_float(lanes, value, source, target, rounding)
        return _integer_to_float(lanes, value, source, target)
    if source.is_float:
        return _float_to_integer(lanes, value, source, target)
    type_ = register_type(target, lanes.count)
    if source.bits == target.bits:
        return value
    if source.bits > target.bits:
        return builder.trunc(value, type_)
    return builder.sext(value, type_) if source.is_signed else builder.zext(value, type_)


def reinterpret(builder: ir.IRBuilder, value: Register, target: ScalarType) -> Register:
    """Emit the same bits as another element of the same width."""
    return builder.bitcast(value, register_type(target, lanes_of(value.type)))


def widen(lanes: VectorBuilder, value: Register, source: DType) -> Register:
    """Emit the value of any float narrower than f64 as f32; it is exact."""
    build = lanes.builder
    if source == F32:
        return value
    if source == F16:
        return build.fpext(value, lanes.type(FLOAT))
    if source == BF16:
        wide = build.zext(value, lanes.type(I32))
        return lanes.cast(build.shl(wide, lanes.i32(16)), FLOAT)
    wide = build.zext(value, lanes.type(I16))
    if source == F8E5M2:
        half = build.shl(wide, lanes.like(wide, 8))
        return build.fpext(lanes.cast(half, HALF), lanes.type(FLOAT))
    # e4m3fn: its exponent and mantissa are those of a half whose bias is 8 more; all ones is NaN
    magnitude = build.and_(wide, lanes.like(wide, 0x7F))
    sign = build.shl(build.and_(wide, lanes.like(wide, 0x80)), lanes.like(wide, 8))
    bits = build.or_(sign, build.shl(magnitude, lanes.like(wide, 7)))
    scaled = build.fpext(lanes.cast(bits, HALF), lanes.type(FLOAT))
    result = build.fmul(scaled, lanes.f32(256.0))
    nan = build.icmp_unsigned("==", magnitude, lanes.like(wide, 0x7F))
    return build.select(nan, lanes.f32(float("nan")), result)


def narrow(
    lanes: VectorBuilder, value: Register, target: DType, rounding: str = NEAREST
) -> Register:
    """Emit f32 as any float narrower than f64, rounded once."""
    if target == F32:
        return value
    if target == F16:
        return _truncate(lanes, value, HALF, I16, rounding)
    if target == BF16:
        return _to_bfloat(lanes, value, rounding)
    return _to_byte(lanes, value, target, rounding)


def narrow_exact(lanes: VectorBuilder, value: Register, target: DType) -> Register:
    """Emit f32 as a narrower float that is known to have its value (or to be NaN)."""
    if target == BF16:
        build = lanes.builder
        bits = build.lshr(lanes.cast(value, I32), lanes.i32(16))
        return build.trunc(bits, lanes.type(I16))
    return narrow(lanes, value, target)


def _to_bool(lanes: VectorBuilder, value: Register, source: DType) -> Register:
    build = lanes.builder
    if not source.is_float:
        return build.icmp_unsigned("!=", value, lanes.like(value, 0))
    if source.is_narrow and source != F16:  # bits beside the sign
        magnitude = build.and_(value, lanes.like(value, (1 << (source.bits - 1)) - 1))
        return build.icmp_unsigned("!=", magnitude, lanes.like(value, 0))
    return build.fcmp_unordered("!=", value, lanes.like(value, 0.0))


def _float_to_integer(
    lanes: VectorBuilder, value: Register, source: DType, target: DType
) -> Register:
    """Clamped, because LLVM's saturating conversion of vectors goes through every lane on its own."""
    build = lanes.builder
    if source != F64:
        value = widen(lanes, value, source)
    digits = 53 if source == F64 else 24
    bits = target.bits - target.is_signed
    low = -(2.0**bits) if target.is_signed else 0.0
    exact = bits <= digits
    high = 2.0**bits - (1.0 if exact else 2.0 ** (bits - digits))
    defined = build.fcmp_ordered("ord", value, value)
    inside = lanes.clamp(build.select(defined, value, lanes.like(value, 0.0)), low, high)
    type_ = register_type(target, lanes.count)
    if target.bits < 32:
        return build.trunc(build.fptosi(inside, lanes.type(I32)), type_)
    result = (build.fptosi if target.is_signed else build.fptoui)(inside, type_)
    if exact:
        return result
    above = build.fcmp_ordered(">=", value, lanes.like(value, 2.0**bits))
    return build.select(above, lanes.like(result, (1 << bits) - 1), result)


def _integer_to_float(
    lanes: VectorBuilder, value: Register, source: DType, target: DType
) -> Register:
    build = lanes.builder
    convert_ = build.sitofp if source.is_signed else build.uitofp
    if target in (F32, F64):
        return convert_(value, register_type(target, lanes.count))
    if source.bits <= 16:
        return narrow(lanes, convert_(value, lanes.type(FLOAT)), target)
    if source.bits == 32:
        return _double_to(lanes, convert_(value, lanes.type(DOUBLE)), target, NEAREST)
    # 64 bits: those that do not fit into a double are far below the last bit of any narrow dtype. They
    # become one bit that only says whether there are any; what fits exactly is left alone.
    rest = build.and_(value, lanes.i64(0xFFFF))
    rest = build.zext(build.icmp_unsigned("!=", rest, lanes.i64(0)), lanes.type(I64))
    shift = build.ashr if source.is_signed else build.lshr
    top = build.or_(shift(value, lanes.i64(16)), rest)
    large = build.fmul(convert_(top, lanes.type(DOUBLE)), lanes.f64(65536.0))
    offset = 1 << 40 if source.is_signed else 0
    biased = build.add(value, lanes.i64(offset))
    fits = build.icmp_unsigned("<", biased, lanes.i64(offset + (1 << 40)))
    exact = build.select(fits, convert_(value, lanes.type(DOUBLE)), large)
    return _double_to(lanes, exact, target, NEAREST)


def _float_to_float(
    lanes: VectorBuilder, value: Register, source: DType, target: DType, rounding: str
) -> Register:
    if source == F64:
        return _double_to(lanes, value, target, rounding)
    wide = widen(lanes, value, source)
    if target == F64:
        return lanes.builder.fpext(wide, lanes.type(DOUBLE))
    return narrow(lanes, wide, target, rounding)


def _double_to(lanes: VectorBuilder, value: Register, target: DType, rounding: str) -> Register:
    if target == F32:
        return _truncate(lanes, value, FLOAT, I32, rounding)
    first = TOWARD_ZERO if rounding == TOWARD_ZERO else _ODD
    return narrow(lanes, _truncate(lanes, value, FLOAT, I32, first), target, rounding)


def _truncate(
    lanes: VectorBuilder, value: Register, scalar: IrType, bits_of: IrType, rounding: str
) -> Register:
    """``fptrunc``, which rounds to nearest, corrected by a unit in the last place for other roundings."""
    build = lanes.builder
    result = build.fptrunc(value, lanes.type(scalar))
    if rounding == NEAREST:
        return result
    back = build.fpext(result, value.type)
    away = build.fcmp_ordered(">", lanes.abs(back), lanes.abs(value))
    bits = lanes.cast(result, bits_of)
    bits = build.add(bits, build.sext(away, bits.type))
    if rounding == _ODD:
        inexact = build.fcmp_ordered("!=", back, value)
        bits = build.or_(bits, build.zext(inexact, bits.type))
    return lanes.cast(bits, scalar)


def _nearest_even(lanes: VectorBuilder, bits: Register, dropped: int) -> Register:
    """Drop the last bits of the pattern of a float: ties to even, and a carry moves up the exponent."""
    build = lanes.builder
    shift = lanes.like(bits, dropped)
    last = build.and_(build.lshr(bits, shift), lanes.like(bits, 1))
    rounded = build.add(build.add(bits, lanes.like(bits, (1 << (dropped - 1)) - 1)), last)
    return build.lshr(rounded, shift)


def _to_bfloat(lanes: VectorBuilder, value: Register, rounding: str) -> Register:
    build = lanes.builder
    bits = lanes.cast(value, I32)
    if rounding == TOWARD_ZERO:
        top = build.lshr(bits, lanes.i32(16))
    else:
        top = _nearest_even(lanes, bits, 16)
    quiet = build.or_(build.lshr(bits, lanes.i32(16)), lanes.i32(0x40))
    top = build.select(build.fcmp_unordered("uno", value, value), quiet, top)
    return build.trunc(top, lanes.type(I16))


def _to_byte(lanes: VectorBuilder, value: Register, target: DType, rounding: str) -> Register:
    """To fp8: the magnitude passes through a half of the same (or a scaled) exponent, rounded to odd."""
    build = lanes.builder
    pattern = build.lshr(lanes.cast(value, I32), lanes.i32(24))
    sign = build.and_(build.trunc(pattern, lanes.type(I16)), number(lanes.type(I16), 0x80))
    magnitude = lanes.abs(value)
    if target == F8E4M3FN:
        magnitude = build.fmul(magnitude, lanes.f32(2.0**-8))
    first = TOWARD_ZERO if rounding == TOWARD_ZERO else _ODD
    bits = lanes.cast(_truncate(lanes, magnitude, HALF, I16, first), I16)
    bits = intrinsic(
        build, "umin", (bits, lanes.like(bits, 0x7E00))
    )  # one NaN, that survives a carry
    dropped = 7 if target == F8E4M3FN else 8
    if rounding == TOWARD_ZERO:
        small = build.lshr(bits, lanes.like(bits, dropped))
    else:
        small = _nearest_even(lanes, bits, dropped)
    if target == F8E4M3FN:  # no infinity: what is too large is NaN, toward zero the largest
        largest = 0x7E if rounding == TOWARD_ZERO else 0x7F
        small = intrinsic(build, "umin", (small, lanes.like(small, largest)))
        finite = build.icmp_unsigned("<", bits, lanes.like(bits, 0x7C00))
        small = build.select(finite, small, lanes.like(small, 0x7F))
    return build.trunc(build.or_(small, sign), lanes.type(BYTE))
