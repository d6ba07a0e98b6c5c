"""Quantisation of dense values by one divisor, in groups: the same bits as by a division.

Written as vectors of LLVM, because its vectoriser makes twice as many instructions of the loop: it sees neither that
the conversion to an integer rounds, nor that packing to bytes saturates.

* x86 converts NaN, and what is beyond 32 bits, to the least integer, and packs that to -32768 and then -128. A group
  in which a word became -32768 is done again with care (:func:`_bounded`): it has a NaN, an infinity or a value
  far beyond the others, whose remainder need not be finite.
* With care, a value is held between the two that give -128 and 127 *before* it is divided. NaN passes that; the last
  byte of the integer that it becomes is the 0 that is wanted. Other CPUs do all groups so.
"""

from __future__ import annotations

import functools

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from emu.kernels.core.annotations import Intrinsic, IrBuilder, IrType, IrValue, Real
from emu.kernels.core.dtypes import BF16, F16, F32, f32_bits_signed
from emu.kernels.core.jit import fixed_intrinsic, jit
from emu.kernels.elementwise.one_divisor import is_moderate, reciprocal
from emu.kernels.gemm.microkernel import LAYOUT, broadcast

_MAGIC = (
    1.5 * 2**23
)  # added to a value of at most 2**22, it leaves the nearest integer in the sum's last bits
_I8, _I16, _I32, _I64 = (ir.IntType(width) for width in (8, 16, 32, 64))
_F32 = ir.FloatType()
_LANES = LAYOUT.vector_bytes // 4
_SATURATES = LAYOUT.fused and _LANES > 4
"""The CPU has x86's conversions and packs for vectors of 256 or 512 bits."""

GROUP = 64 if _SATURATES else 32
"""Values that are quantised at a time."""

_CONVERT = {16: "llvm.x86.avx512.mask.cvtps2dq.512", 8: "llvm.x86.avx.cvt.ps2dq.256"}
_PACK_TWICE = {
    16: ("llvm.x86.avx512.packssdw.512", "llvm.x86.avx512.packsswb.512"),
    8: ("llvm.x86.avx2.packssdw", "llvm.x86.avx2.packsswb"),
}

Divisor = tuple[Real, Real, Real, Real, Real, Real]
"""Divisor, zero point, both parts of the divisor's reciprocal, least and largest value that need be divided."""


def _call(builder: IrBuilder, name: str, result: IrType, *arguments: IrValue) -> IrValue:
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), list(arguments))


def _fma(builder: IrBuilder, a: IrValue, b: IrValue, c: IrValue) -> IrValue:
    return _call(builder, f"llvm.fma.v{_LANES}f32", a.type, a, b, c)


def _splat(value: float, kind: IrType, lanes: int = _LANES) -> IrValue:
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


def _convert(builder: IrBuilder, values: IrValue) -> IrValue:
    """Convert to the nearest integers as x86 does."""
    rest = []
    if _LANES == 16:
        rest = [_splat(0, _I32), ir.Constant(_I16, -1), ir.Constant(_I32, 4)]
    return _call(builder, _CONVERT[_LANES], ir.VectorType(_I32, _LANES), values, *rest)


def _to_integers(builder: IrBuilder, values: IrValue) -> IrValue:
    """Round values in -128..127 to integers; of NaN the last byte is 0."""
    if _SATURATES:
        return _convert(builder, values)
    total = builder.fadd(values, _splat(_MAGIC, _F32))
    number = builder.fcmp_ordered("ord", values, values)
    bits = builder.bitcast(total, ir.VectorType(_I32, _LANES))
    return builder.select(number, bits, _splat(0, _I32))


def _picks(places: list[int]) -> IrValue:
    return ir.Constant(ir.VectorType(_I32, len(places)), [ir.Constant(_I32, n) for n in places])


def _quotients(
    builder: IrBuilder, values: list[IrValue], by: list[IrValue], short: bool = False
) -> list[IrValue]:
    """Divide vectors, as ``one_divisor.quotient`` says; step by step, so that none waits for itself.

    Args:
        builder: Builder.
        values: What is divided.
        by: The fields of a ``Divisor``, each in all lanes.
        short: The lower part of the reciprocal is 0.
    """
    divisor, _, high, low = by[:4]
    q = [builder.fmul(x, high if short else low) for x in values]
    if not short:
        q = [_fma(builder, x, high, part) for x, part in zip(values, q, strict=True)]
    rest = [_fma(builder, builder.fneg(a), divisor, x) for x, a in zip(values, q, strict=True)]
    return [_fma(builder, r, high, a) for r, a in zip(rest, q, strict=True)]


def _bounded(builder: IrBuilder, values: list[IrValue], by: list[IrValue]) -> IrValue:
    """Quantise a group whatever it holds."""
    _, zero, _, _, least, most = by
    # The comparisons are in this order, because so NaN stays.
    held = [builder.select(builder.fcmp_ordered(">", least, x), least, x) for x in values]
    held = [builder.select(builder.fcmp_ordered("<", most, x), most, x) for x in held]
    parts = [_to_integers(builder, builder.fadd(q, zero)) for q in _quotients(builder, held, by)]
    while len(parts) > 1:
        picks = _picks(list(range(2 * parts[0].type.count)))
        parts = [
            builder.shuffle_vector(a, b, picks)
            for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
    return builder.trunc(parts[0], ir.VectorType(_I8, GROUP))


def _saturated(builder: IrBuilder, totals: list[IrValue]) -> tuple[IrValue, IrValue]:
    """Round and pack four vectors; return the bytes, and the lesser of each two of the words that they came from."""
    to_words, to_bytes = _PACK_TWICE[_LANES]
    i16s, i8s = ir.VectorType(_I16, 2 * _LANES), ir.VectorType(_I8, 4 * _LANES)
    a, b, c, d = (_convert(builder, total) for total in totals)
    low, high = _call(builder, to_words, i16s, a, b), _call(builder, to_words, i16s, c, d)
    packed = _call(builder, to_bytes, i8s, low, high)
    # The packs treat each 128 bits by themselves.
    order = [4 * lane + part for part in range(4) for lane in range(_LANES // 4)]
    words = builder.bitcast(packed, ir.VectorType(_I32, _LANES))
    words = builder.shuffle_vector(words, words, _picks(order))
    return builder.bitcast(words, i8s), _lesser(builder, low, high)


def _lesser(builder: IrBuilder, a: IrValue, b: IrValue) -> IrValue:
    return builder.select(builder.icmp_signed("<", a, b), a, b)


def _is_strange(builder: IrBuilder, least: list[IrValue]) -> IrValue:
    """Return whether a word is -32768."""
    lesser = functools.reduce(functools.partial(_lesser, builder), least)
    found = builder.icmp_signed("==", lesser, _splat(-32768, _I16, 2 * _LANES))
    any_ = builder.bitcast(found, ir.IntType(2 * _LANES))
    return builder.icmp_unsigned("!=", any_, ir.Constant(any_.type, 0))


def _loop(kind: int, inside: bool, short: bool = False) -> Intrinsic:
    """Make ``quantize(target, source, groups, by)``; see :func:`quantize_groups` and :func:`_quotients`."""
    size = 4 if kind == F32 else 2

    @fixed_intrinsic(types.void, *[types.int64] * 3, types.UniTuple(types.float32, 6))
    def quantize(
        builder: IrBuilder, target: IrValue, source: IrValue, groups: IrValue, by: IrValue
    ) -> None:
        vector = ir.VectorType(_F32, _LANES)
        numbers = [broadcast(builder, builder.extract_value(by, i), vector) for i in range(6)]
        with cgutils.for_range(builder, groups, intp=_I64) as loop:
            place = builder.mul(loop.index, ir.Constant(_I64, GROUP))
            at = builder.add(source, builder.mul(place, ir.Constant(_I64, size)))
            to = builder.add(target, place)

            def read(first: int, end: int) -> list[IrValue]:
                places = [ir.Constant(_I64, i * size) for i in range(first, end, _LANES)]
                return [_load(builder, kind, builder.add(at, offset)) for offset in places]

            def write(result: IrValue, first: int) -> None:
                pointer = builder.add(to, ir.Constant(_I64, first))
                pointer = builder.inttoptr(pointer, result.type.as_pointer())
                builder.store(result, pointer).align = 1

            least = []
            for first in range(0, GROUP if _SATURATES else 0, 4 * _LANES):
                totals = _quotients(builder, read(first, first + 4 * _LANES), numbers, short)
                if not inside:
                    totals = [builder.fadd(total, numbers[1]) for total in totals]
                result, words = _saturated(builder, totals)
                write(result, first)
                least.append(words)
            if not _SATURATES:
                write(_bounded(builder, read(0, GROUP), numbers), 0)
            elif not inside:
                with builder.if_then(_is_strange(builder, least), likely=False):
                    # Read again: kept until here, the values would take registers from the loop.
                    write(_bounded(builder, read(0, GROUP), numbers), 0)

    return quantize


_f32, _f16, _bf16 = (_loop(kind, inside=False) for kind in (F32, F16, BF16))
_f32_inside, _f16_inside, _bf16_inside = (_loop(kind, inside=True) for kind in (F32, F16, BF16))
_f32_short, _f32_inside_short = (_loop(F32, inside, short=True) for inside in (False, True))


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
    """Return whether values may be quantised by :func:`quantize_groups`, and what that needs."""
    most = np.float32((np.float32(127.0) - zero) * divisor)
    least = np.float32((np.float32(-128.0) - zero) * divisor)
    high, low = reciprocal(divisor)
    fits = is_moderate(divisor, zero)
    # Whatever is beyond a value that becomes 127 becomes 127 too.
    fits = fits and _rounded(np.float32(most / divisor + zero)) == 127
    fits = fits and _rounded(np.float32(least / divisor + zero)) == -128
    return fits, (divisor, zero, high, low, min(least, most), max(least, most))


@jit()
def quantize_groups(
    kind: int, inside: bool, target: int, source: int, groups: int, by: Divisor
) -> None:
    """Quantise groups of ``GROUP`` dense values, all by one divisor and zero point.

    Args:
        kind: Kind of the source: F32, F16 or BF16.
        inside: The zero point is 0, and no quotient is NaN or beyond 127.
        target: Where the int8 results go; it does not overlap the source.
        source: Address of the values.
        groups: Number of groups.
        by: What :func:`divisor_for` returned.
    """
    if kind == F32 and by[3] == 0:
        if inside:
            _f32_inside_short(target, source, groups, by)
        else:
            _f32_short(target, source, groups, by)
    elif kind == F32:
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


__all__ = ["GROUP", "Divisor", "divisor_for", "quantize_groups"]
