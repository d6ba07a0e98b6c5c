"""Quantisation of dense values that have a scale each: the same bits as by dividing one by one.

Where all scales of a stretch are moderate (:mod:`emu.kernels.elementwise.one_divisor`), their reciprocals are
tabulated once and used for every row. The loop is written as vectors (:mod:`emu.kernels.elementwise.vectors`) and stops
at a group with a strange value, which the caller does with care.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from emu.kernels.core.address import as_pointer, emit_prefetch
from emu.kernels.core.annotations import Intrinsic, IrBuilder, IrValue
from emu.kernels.core.dtypes import BF16, F16, F32
from emu.kernels.core.jit import carray, fixed_intrinsic, jit
from emu.kernels.elementwise.one_divisor import is_moderate, reciprocal
from emu.kernels.elementwise.vectors import (
    GROUP,
    I32,
    I64,
    LANES,
    SATURATES,
    is_strange,
    load_values,
    quotients,
    saturated,
)

Tables = tuple[int, int, int, int]
"""Addresses of scales, zero points, and both parts of the scales' reciprocals; fp32."""


PAST_ALIGN = 16
"""By what a target must be divisible to be stored past the caches; LLVM stores parts of that size."""


_AHEAD = 4096
"""Bytes that prefetches run ahead of the loads: a page, whose lookup is slow too."""


@jit()
def tabulate(divides: bool, scale: int, zero: int, high: int, low: int, n: int) -> bool:
    """Return whether values may be quantised by :func:`quantize_channels`; write what it needs.

    Args:
        divides: Values are divided by their scales; else multiplied, which needs no reciprocals.
        scale: Address of the scales.
        zero: Address of the zero points.
        high: Where the reciprocals go.
        low: Where their lower parts go.
        n: How many there are.
    """
    if not SATURATES:
        return False
    if not divides:
        return True
    scales, zeros = (
        carray(as_pointer(scale), (n,), np.float32),
        carray(as_pointer(zero), (n,), np.float32),
    )
    highs, lows = (
        carray(as_pointer(high), (n,), np.float32),
        carray(as_pointer(low), (n,), np.float32),
    )
    for i in range(n):
        if not is_moderate(scales[i], zeros[i]):
            return False
    for i in range(n):
        highs[i], lows[i] = reciprocal(scales[i])
    return True


def _store(builder: IrBuilder, results: list[IrValue], target: IrValue, past: IrValue) -> None:
    def emit(align: int, metadata: IrValue | None) -> None:
        for i, result in enumerate(results):
            at = builder.add(target, ir.Constant(I64, i * result.type.count))
            store = builder.store(result, builder.inttoptr(at, result.type.as_pointer()))
            store.align = align
            if metadata is not None:
                store.set_metadata("nontemporal", metadata)

    with builder.if_else(past) as (beyond, plain):
        with beyond:
            emit(PAST_ALIGN, builder.module.add_metadata([ir.Constant(I32, 1)]))
        with plain:
            emit(1, None)


def _loop(kind: int, divides: bool) -> Intrinsic:
    """Make ``quantize(target, source, groups, tables, past)``; see :func:`quantize_channels`."""
    size = 4 if kind == F32 else 2

    @fixed_intrinsic(types.int64, *[types.int64] * 3, types.UniTuple(types.int64, 4), types.boolean)
    def quantize(
        builder: IrBuilder,
        target: IrValue,
        source: IrValue,
        groups: IrValue,
        tables: IrValue,
        past: IrValue,
    ) -> IrValue:
        if not SATURATES:  # never called: there are no tables
            return ir.Constant(I64, 0)
        entry = builder.block
        head, body, next_, done = (
            builder.append_basic_block(name) for name in ("head", "body", "next", "done")
        )
        scales, zeros, highs, lows = (builder.extract_value(tables, i) for i in range(4))
        builder.branch(head)
        builder.position_at_end(head)
        group = builder.phi(I64)
        group.add_incoming(ir.Constant(I64, 0), entry)
        builder.cbranch(builder.icmp_signed("<", group, groups), body, done)

        builder.position_at_end(body)
        place = builder.mul(group, ir.Constant(I64, GROUP))

        def read(base: IrValue, element: int, nbytes: int, first: int) -> list[IrValue]:
            at = builder.add(base, builder.mul(place, ir.Constant(I64, nbytes)))
            offsets = [ir.Constant(I64, nbytes * (first + i * LANES)) for i in range(4)]
            return [load_values(builder, element, builder.add(at, offset)) for offset in offsets]

        least, results = [], []
        later = builder.add(source, builder.mul(place, ir.Constant(I64, size)))
        for line in range(0, GROUP * size, 64):
            at = builder.add(later, ir.Constant(I64, _AHEAD + line))
            emit_prefetch(builder, at, False)
        for first in range(0, GROUP, 4 * LANES):
            values = read(source, kind, size, first)
            by = read(scales, F32, 4, first)
            if divides:
                parts = zip(read(highs, F32, 4, first), read(lows, F32, 4, first), strict=True)
                totals = quotients(builder, values, by, list(parts))
            else:
                totals = [builder.fmul(x, scale) for x, scale in zip(values, by, strict=True)]
            totals = [
                builder.fadd(total, zero)
                for total, zero in zip(totals, read(zeros, F32, 4, first), strict=True)
            ]
            result, words = saturated(builder, totals)
            results.append(result)
            least.append(words)
        _store(builder, results, builder.add(target, place), past)
        builder.cbranch(is_strange(builder, least), done, next_)

        builder.position_at_end(next_)
        group.add_incoming(builder.add(group, ir.Constant(I64, 1)), next_)
        builder.branch(head)
        builder.position_at_end(done)
        return group

    return quantize


_f32, _f16, _bf16 = (_loop(kind, divides=True) for kind in (F32, F16, BF16))
_f32_times, _f16_times, _bf16_times = (_loop(kind, divides=False) for kind in (F32, F16, BF16))


@jit()
def quantize_channels(
    divides: bool, kind: int, target: int, source: int, groups: int, tables: Tables, past: bool
) -> int:
    """Quantise groups of ``GROUP`` dense values, each with a scale and a zero point of its own.

    Args:
        divides: As :func:`tabulate` was given it.
        kind: Kind of the source: F32, F16 or BF16.
        target: Where the int8 results go; it does not overlap the source.
        source: Address of the values.
        groups: Number of groups.
        tables: What :func:`tabulate` was given, for as many values.
        past: Store past the caches; the target must be divisible by ``PAST_ALIGN``.

    Returns:
        The number of groups that are done; the next one must be done by other means.
    """
    done: int
    if divides:
        if kind == F32:
            done = _f32(target, source, groups, tables, past)
        elif kind == BF16:
            done = _bf16(target, source, groups, tables, past)
        else:
            done = _f16(target, source, groups, tables, past)
    elif kind == F32:
        done = _f32_times(target, source, groups, tables, past)
    elif kind == BF16:
        done = _bf16_times(target, source, groups, tables, past)
    else:
        done = _f16_times(target, source, groups, tables, past)
    return done


__all__ = ["PAST_ALIGN", "Tables", "quantize_channels", "tabulate"]
