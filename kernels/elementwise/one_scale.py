"""Quantisation of dense values by one divisor: 32 elements a round, the same bits as by a division.

Written as vectors of LLVM, because its vectoriser makes twice as many instructions of the loop: for AVX2 it sees
neither that the conversion to an integer rounds, nor that what is packed to bytes is small already.

* A value is held between the two that give -128 and 127 *before* it is divided, so that nothing beyond is to be
  thought of later: an infinity has a remainder then, and no integer is too large for its byte.
* NaN passes that. x86 converts it to the integer 0x80000000, whose last byte is the 0 that it should become.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from emu.kernels.core.address import as_pointer
from emu.kernels.core.annotations import Intrinsic, IrBuilder, IrType, IrValue, Real
from emu.kernels.core.dtypes import BF16, F16, F32, bf16_to_f32, f16_to_f32, f32_bits_signed
from emu.kernels.core.jit import carray, fixed_intrinsic, jit
from emu.kernels.elementwise.one_divisor import is_moderate, quotient, reciprocal
from emu.kernels.gemm.microkernel import LAYOUT, broadcast

_GROUP = 32
_MAGIC = (
    1.5 * 2**23
)  # added to a value of at most 2**22, it leaves the nearest integer in the sum's last bits
_I8, _I16, _I32, _I64 = (ir.IntType(width) for width in (8, 16, 32, 64))
_F32 = ir.FloatType()
_CONVERT = {64: "llvm.x86.avx512.mask.cvtps2dq.512", 32: "llvm.x86.avx.cvt.ps2dq.256"}
_LANES = LAYOUT.vector_bytes // 4

Divisor = tuple[Real, Real, Real, Real, Real, Real]
"""Divisor, zero point, both parts of the divisor's reciprocal, least and largest value that need be divided."""


def _call(builder: IrBuilder, name: str, result: IrType, *arguments: IrValue) -> IrValue:
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), list(arguments))


def _fma(builder: IrBuilder, a: IrValue, b: IrValue, c: IrValue) -> IrValue:
    return _call(builder, f"llvm.fma.v{_LANES}f32", a.type, a, b, c)


def _splat(value: float | int, kind: IrType, lanes: int = _LANES) -> IrValue:
    return ir.Constant(ir.VectorType(kind, lanes), [ir.Constant(kind, value)] * lanes)


def _load(builder: IrBuilder, kind: int, address: IrValue) -> IrValue:
    """Load as many values as a vector has lanes, as fp32."""
    element = _F32 if kind == F32 else _I16
    pointer = builder.inttoptr(address, ir.VectorType(element, _LANES).as_pointer())
    found = builder.load(pointer)
    found.align = 1
    wide = ir.VectorType(_F32, _LANES)
    if kind == F32:
        return found
    if kind == F16:
        return builder.fpext(builder.bitcast(found, ir.VectorType(ir.HalfType(), _LANES)), wide)
    bits = builder.shl(builder.zext(found, ir.VectorType(_I32, _LANES)), _splat(16, _I32))
    return builder.bitcast(bits, wide)


def _to_integers(builder: IrBuilder, values: IrValue) -> IrValue:
    """Round values to integers in -128..127; of NaN the last byte is 0."""
    wide = ir.VectorType(_I32, _LANES)
    width = LAYOUT.vector_bytes
    if LAYOUT.fused and width in _CONVERT:
        rest = []
        if width == 64:
            rest = [_splat(0, _I32), ir.Constant(_I16, -1), ir.Constant(_I32, 4)]
        return _call(builder, _CONVERT[width], wide, values, *rest)
    total = builder.fadd(values, _splat(_MAGIC, _F32))
    number = builder.fcmp_ordered("ord", values, values)
    return builder.select(number, builder.bitcast(total, wide), _splat(0, _I32))


def _to_bytes(builder: IrBuilder, parts: list[IrValue]) -> IrValue:
    """Pack the last bytes of vectors of 32 bits into one vector."""
    while len(parts) > 1 and not (LAYOUT.fused and _LANES == 8):
        joined = []
        for a, b in zip(parts[::2], parts[1::2], strict=True):
            picks = list(range(2 * a.type.count))
            joined.append(builder.shuffle_vector(a, b, _picks(picks)))
        parts = joined
    if len(parts) == 1:
        return builder.trunc(parts[0], ir.VectorType(_I8, _GROUP))
    low = [builder.and_(part, _splat(255, _I32)) for part in parts]
    i16s, i8s = ir.VectorType(_I16, 16), ir.VectorType(_I8, 32)
    pairs = [
        _call(builder, "llvm.x86.avx2.packusdw", i16s, a, b)
        for a, b in zip(low[::2], low[1::2], strict=True)
    ]
    packed = _call(builder, "llvm.x86.avx2.packuswb", i8s, *pairs)
    # AVX2 packs the halves of registers by themselves.
    words = builder.bitcast(packed, ir.VectorType(_I32, 8))
    words = builder.shuffle_vector(words, words, _picks([0, 4, 1, 5, 2, 6, 3, 7]))
    return builder.bitcast(words, i8s)


def _picks(places: list[int]) -> IrValue:
    return ir.Constant(ir.VectorType(_I32, len(places)), [ir.Constant(_I32, n) for n in places])


def _quantized(builder: IrBuilder, x: IrValue, by: list[IrValue], bounded: bool) -> IrValue:
    """Divide a vector, add the zero point and round, as ``one_divisor.quotient`` says."""
    divisor, zero, high, low, least, most = by
    if bounded:  # in this order, NaN stays
        x = builder.select(builder.fcmp_ordered(">", least, x), least, x)
        x = builder.select(builder.fcmp_ordered("<", most, x), most, x)
    q = _fma(builder, x, high, builder.fmul(x, low))
    rest = _fma(builder, builder.fneg(q), divisor, x)
    q = _fma(builder, rest, high, q)
    return _to_integers(builder, builder.fadd(q, zero) if bounded else q)


def _loop(kind: int, bounded: bool) -> Intrinsic:
    """Make ``quantize(target, source, groups, by)``; unbounded, there is no zero point, and nothing beyond 127."""
    size = 4 if kind == F32 else 2

    @fixed_intrinsic(types.void, *[types.int64] * 3, types.UniTuple(types.float32, 6))
    def quantize(
        builder: IrBuilder, target: IrValue, source: IrValue, groups: IrValue, by: IrValue
    ) -> None:
        vector = ir.VectorType(_F32, _LANES)
        numbers = [broadcast(builder, builder.extract_value(by, i), vector) for i in range(6)]
        with cgutils.for_range(builder, groups, intp=_I64) as loop:
            place = builder.mul(loop.index, ir.Constant(_I64, _GROUP))
            at = builder.add(source, builder.mul(place, ir.Constant(_I64, size)))
            parts = []
            for first in range(0, _GROUP, _LANES):
                x = _load(builder, kind, builder.add(at, ir.Constant(_I64, first * size)))
                parts.append(_quantized(builder, x, numbers, bounded))
            result = _to_bytes(builder, parts)
            to = builder.inttoptr(builder.add(target, place), result.type.as_pointer())
            builder.store(result, to).align = 1

    return quantize


_f32, _f16, _bf16 = (_loop(kind, bounded=True) for kind in (F32, F16, BF16))
_f32_inside, _f16_inside, _bf16_inside = (_loop(kind, bounded=False) for kind in (F32, F16, BF16))


@jit(inline="always")
def _rounded(total: Real) -> int:
    """Return the int8 that a quotient plus zero point becomes."""
    if not total == total:  # noqa: PLR0124, SIM201 - false for NaN
        return 0
    inside = max(min(total, np.float32(1024.0)), np.float32(-1024.0))
    bits = f32_bits_signed(np.float32(inside + np.float32(_MAGIC))) - np.int32(0x4B400000)
    return max(min(int(bits), 127), -128)


@jit()
def divisor_for(divisor: Real, zero: Real) -> tuple[bool, Divisor]:
    """Return whether values may be quantised by :func:`quantize_by_one`, and what that needs."""
    most = np.float32((np.float32(127.0) - zero) * divisor)
    least = np.float32((np.float32(-128.0) - zero) * divisor)
    high, low = reciprocal(divisor)
    fits = is_moderate(divisor, zero)
    # Whatever is beyond a value that becomes 127 becomes 127 too.
    fits = fits and _rounded(np.float32(most / divisor + zero)) == 127
    fits = fits and _rounded(np.float32(least / divisor + zero)) == -128
    return fits, (divisor, zero, high, low, min(least, most), max(least, most))


@jit(inline="always")
def _one(x: Real, by: Divisor) -> np.int8:
    inside = max(min(x, by[5]), by[4])
    total = np.float32(quotient(inside, by[0], by[2], by[3]) + by[1])
    return np.int8(_rounded(total) if x == x else 0)  # noqa: PLR0124 - false for NaN


@jit()
def quantize_by_one(kind: int, inside: bool, target: int, source: int, n: int, by: Divisor) -> None:
    """Quantise ``n`` dense values, all by one divisor and zero point.

    Args:
        kind: Kind of the source: F32, F16 or BF16.
        inside: The zero point is 0, and no quotient is NaN or beyond 127.
        target: Where the int8 results go.
        source: Address of the values.
        n: Number of values.
        by: What :func:`divisor_for` returned.
    """
    groups = n // _GROUP
    if kind == F32:
        if inside:
            _f32_inside(target, source, groups, by)
        else:
            _f32(target, source, groups, by)
    elif kind == BF16:
        if inside:
            _bf16_inside(target, source, groups, by)
        else:
            _bf16(target, source, groups, by)
    elif inside:
        _f16_inside(target, source, groups, by)
    else:
        _f16(target, source, groups, by)
    d = carray(as_pointer(target), (n,), np.int8)
    s16 = carray(as_pointer(source), (n,), np.uint16)
    s32 = carray(as_pointer(source), (n,), np.float32)
    for i in range(groups * _GROUP, n):
        if kind == F32:
            x = s32[i]
        else:
            x = bf16_to_f32(s16[i]) if kind == BF16 else f16_to_f32(s16[i])
        d[i] = _one(x, by)


__all__ = ["Divisor", "divisor_for", "quantize_by_one"]
