"""Quantisation of dense values by one divisor, in groups: the same bits as by a division.

* A group with a value that :mod:`emu.kernels.elementwise.vectors` calls strange is done again with care
  (:func:`_bounded`): its remainder need not be finite.
* With care, a value is held between the two that give -128 and 127 *before* it is divided. NaN passes that; the last
  byte of the integer that it becomes is the 0 that is wanted. Other CPUs do all groups so.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from emu.kernels.core.annotations import Intrinsic, IrBuilder, IrValue, Real
from emu.kernels.core.dtypes import BF16, F16, F32, f32_bits_signed
from emu.kernels.core.jit import fixed_intrinsic, jit
from emu.kernels.elementwise.one_divisor import is_moderate, reciprocal
from emu.kernels.elementwise.vectors import (
    FLOAT,
    GROUP,
    I8,
    I64,
    LANES,
    MAGIC,
    SATURATES,
    is_strange,
    joined,
    load_values,
    quotients,
    saturated,
    to_integers,
)
from emu.kernels.gemm.microkernel import broadcast

Divisor = tuple[Real, Real, Real, Real, Real, Real]
"""Divisor, zero point, both parts of the divisor's reciprocal, least and largest value that need be divided."""


def _quotients(
    builder: IrBuilder, values: list[IrValue], by: list[IrValue], short: bool = False
) -> list[IrValue]:
    """Divide vectors by a ``Divisor``, whose fields stand in all lanes; ``short``: its reciprocal's lower part is 0."""
    divisor, _, high, low = by[:4]
    count = len(values)
    return quotients(builder, values, [divisor] * count, [(high, None if short else low)] * count)


def _bounded(builder: IrBuilder, values: list[IrValue], by: list[IrValue]) -> IrValue:
    """Quantise a group whatever it holds."""
    _, zero, _, _, least, most = by
    # The comparisons are in this order, because so NaN stays.
    held = [builder.select(builder.fcmp_ordered(">", least, x), least, x) for x in values]
    held = [builder.select(builder.fcmp_ordered("<", most, x), most, x) for x in held]
    parts = [to_integers(builder, builder.fadd(q, zero)) for q in _quotients(builder, held, by)]
    return builder.trunc(joined(builder, parts), ir.VectorType(I8, GROUP))


def _loop(kind: int, inside: bool, short: bool = False) -> Intrinsic:
    """Make ``quantize(target, source, groups, by)``; see :func:`quantize_groups` and :func:`_quotients`."""
    size = 4 if kind == F32 else 2

    @fixed_intrinsic(types.void, *[types.int64] * 3, types.UniTuple(types.float32, 6))
    def quantize(
        builder: IrBuilder, target: IrValue, source: IrValue, groups: IrValue, by: IrValue
    ) -> None:
        vector = ir.VectorType(FLOAT, LANES)
        numbers = [broadcast(builder, builder.extract_value(by, i), vector) for i in range(6)]
        with cgutils.for_range(builder, groups, intp=I64) as loop:
            place = builder.mul(loop.index, ir.Constant(I64, GROUP))
            at = builder.add(source, builder.mul(place, ir.Constant(I64, size)))
            to = builder.add(target, place)

            def read(first: int, end: int) -> list[IrValue]:
                places = [ir.Constant(I64, i * size) for i in range(first, end, LANES)]
                return [load_values(builder, kind, builder.add(at, offset)) for offset in places]

            def write(result: IrValue, first: int) -> None:
                pointer = builder.add(to, ir.Constant(I64, first))
                pointer = builder.inttoptr(pointer, result.type.as_pointer())
                builder.store(result, pointer).align = 1

            least = []
            for first in range(0, GROUP if SATURATES else 0, 4 * LANES):
                totals = _quotients(builder, read(first, first + 4 * LANES), numbers, short)
                if not inside:
                    totals = [builder.fadd(total, numbers[1]) for total in totals]
                result, words = saturated(builder, totals)
                write(result, first)
                least.append(words)
            if not SATURATES:
                write(_bounded(builder, read(0, GROUP), numbers), 0)
            elif not inside:
                with builder.if_then(is_strange(builder, least), likely=False):
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
    bits = f32_bits_signed(np.float32(inside + np.float32(MAGIC))) - np.int32(0x4B400000)
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
