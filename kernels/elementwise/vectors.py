"""Vectors of quantisation, as LLVM: values loaded as fp32, sums rounded to integers, and integers packed to bytes.

LLVM's vectoriser makes twice as many instructions of such loops: it sees neither that the conversion to an integer rounds,
nor that packing to bytes saturates.

x86 converts NaN, and what is beyond 32 bits, to the least integer, and packs that to -32768 and then -128. A group in which a
word became -32768 (:func:`is_strange`) has a NaN, an infinity or a value far beyond the others, and is done again with care.
"""

from __future__ import annotations

import functools

from llvmlite import ir
from numba.core import cgutils

from emu.kernels.core.annotations import IrBuilder, IrType, IrValue
from emu.kernels.core.dtypes import F16, F32
from emu.kernels.gemm.microkernel import LAYOUT

MAGIC = 1.5 * 2**23
"""Added to a value of at most 2**22, it leaves the nearest integer in the sum's last bits."""

I8, I16, I32, I64 = (ir.IntType(width) for width in (8, 16, 32, 64))
FLOAT = ir.FloatType()
LANES = LAYOUT.vector_bytes // 4
SATURATES = LAYOUT.fused and LANES > 4
"""The CPU has x86's conversions and packs for vectors of 256 or 512 bits."""

GROUP = 64 if SATURATES else 32
"""Values that are quantised at a time."""

_CONVERT = {16: "llvm.x86.avx512.mask.cvtps2dq.512", 8: "llvm.x86.avx.cvt.ps2dq.256"}
_PACK_TWICE = {
    16: ("llvm.x86.avx512.packssdw.512", "llvm.x86.avx512.packsswb.512"),
    8: ("llvm.x86.avx2.packssdw", "llvm.x86.avx2.packsswb"),
}


def _call(builder: IrBuilder, name: str, result: IrType, *arguments: IrValue) -> IrValue:
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), list(arguments))


def fma(builder: IrBuilder, a: IrValue, b: IrValue, c: IrValue) -> IrValue:
    """Return ``a * b + c`` of vectors of ``LANES`` fp32, rounded once."""
    return _call(builder, f"llvm.fma.v{LANES}f32", a.type, a, b, c)


def splat(value: float, kind: IrType, lanes: int = LANES) -> IrValue:
    """Return a constant vector of equal elements."""
    return ir.Constant(ir.VectorType(kind, lanes), [ir.Constant(kind, value)] * lanes)


def load_values(builder: IrBuilder, kind: int, address: IrValue) -> IrValue:
    """Load as many values as a vector has lanes, as fp32."""
    element = FLOAT if kind == F32 else I16
    pointer = builder.inttoptr(address, ir.VectorType(element, LANES).as_pointer())
    found = builder.load(pointer)
    found.align = 1
    wide = ir.VectorType(FLOAT, LANES)
    if kind == F32:
        return found
    if kind == F16:
        return builder.fpext(builder.bitcast(found, ir.VectorType(ir.HalfType(), LANES)), wide)
    bits = builder.shl(builder.zext(found, ir.VectorType(I32, LANES)), splat(16, I32))
    return builder.bitcast(bits, wide)


def _convert(builder: IrBuilder, values: IrValue) -> IrValue:
    """Convert to the nearest integers as x86 does."""
    rest = []
    if LANES == 16:
        rest = [splat(0, I32), ir.Constant(I16, -1), ir.Constant(I32, 4)]
    return _call(builder, _CONVERT[LANES], ir.VectorType(I32, LANES), values, *rest)


def to_integers(builder: IrBuilder, values: IrValue) -> IrValue:
    """Round values in -128..127 to integers; of NaN the last byte is 0."""
    if SATURATES:
        return _convert(builder, values)
    total = builder.fadd(values, splat(MAGIC, FLOAT))
    number = builder.fcmp_ordered("ord", values, values)
    bits = builder.bitcast(total, ir.VectorType(I32, LANES))
    return builder.select(number, bits, splat(0, I32))


def _picks(places: list[int]) -> IrValue:
    return ir.Constant(ir.VectorType(I32, len(places)), [ir.Constant(I32, n) for n in places])


def saturated(builder: IrBuilder, totals: list[IrValue]) -> tuple[IrValue, IrValue]:
    """Round and pack four vectors; return the bytes, and the lesser of each two of the words that they came from."""
    to_words, to_bytes = _PACK_TWICE[LANES]
    i16s, i8s = ir.VectorType(I16, 2 * LANES), ir.VectorType(I8, 4 * LANES)
    a, b, c, d = (_convert(builder, total) for total in totals)
    low, high = _call(builder, to_words, i16s, a, b), _call(builder, to_words, i16s, c, d)
    packed = _call(builder, to_bytes, i8s, low, high)
    # The packs treat each 128 bits by themselves.
    order = [4 * lane + part for part in range(4) for lane in range(LANES // 4)]
    words = builder.bitcast(packed, ir.VectorType(I32, LANES))
    words = builder.shuffle_vector(words, words, _picks(order))
    return builder.bitcast(words, i8s), _lesser(builder, low, high)


def _lesser(builder: IrBuilder, a: IrValue, b: IrValue) -> IrValue:
    return builder.select(builder.icmp_signed("<", a, b), a, b)


def is_strange(builder: IrBuilder, least: list[IrValue]) -> IrValue:
    """Return whether a word is -32768."""
    lesser = functools.reduce(functools.partial(_lesser, builder), least)
    found = builder.icmp_signed("==", lesser, splat(-32768, I16, 2 * LANES))
    any_ = builder.bitcast(found, ir.IntType(2 * LANES))
    return builder.icmp_unsigned("!=", any_, ir.Constant(any_.type, 0))


def joined(builder: IrBuilder, parts: list[IrValue]) -> IrValue:
    """Return vectors behind each other as one; a power of two of them."""
    while len(parts) > 1:
        picks = _picks(list(range(2 * parts[0].type.count)))
        parts = [
            builder.shuffle_vector(a, b, picks)
            for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
    return parts[0]


def quotients(
    builder: IrBuilder,
    values: list[IrValue],
    divisors: list[IrValue],
    reciprocals: list[tuple[IrValue, IrValue | None]],
) -> list[IrValue]:
    """Divide vectors, as ``one_divisor.quotient`` says; step by step, so that none waits for itself.

    Args:
        builder: Builder.
        values: What is divided.
        divisors: By what; one for each.
        reciprocals: Both parts of theirs. None: the lower part is 0.
    """
    q = []
    for x, (high, low) in zip(values, reciprocals, strict=True):
        q.append(builder.fmul(x, high if low is None else low))
    q = [
        a if low is None else fma(builder, x, high, a)
        for x, a, (high, low) in zip(values, q, reciprocals, strict=True)
    ]
    rest = [
        fma(builder, builder.fneg(a), divisor, x)
        for x, a, divisor in zip(values, q, divisors, strict=True)
    ]
    return [fma(builder, r, high, a) for r, a, (high, _) in zip(rest, q, reciprocals, strict=True)]
