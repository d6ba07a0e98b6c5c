"""Conversions of dense fp32 to 16 bits and back, 64 elements at a time, written as vectors.

A loop over such elements is bound by memory, and still took 1.4 times as long as this where LLVM's vectoriser wrote it.
Vectors have 8 elements, 256 bits of fp32, on every CPU: more in a register is no faster, and stores of 512 bits are
slower on Zen 4.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils

from emu.kernels.core.annotations import Intrinsic, IrBuilder, IrType, IrValue
from emu.kernels.core.dtypes import BF16, F16
from emu.kernels.core.jit import fixed_intrinsic, jit

GROUP = 64
"""Elements that are converted at a time."""

_LANES = 8
_I16, _I32, _I64 = (ir.IntType(width) for width in (16, 32, 64))
_SHORTS, _WORDS = ir.VectorType(_I16, _LANES), ir.VectorType(_I32, _LANES)
_HALVES, _FLOATS = ir.VectorType(ir.HalfType(), _LANES), ir.VectorType(ir.FloatType(), _LANES)


def _splat(value: int) -> IrValue:
    return ir.Constant(_WORDS, [ir.Constant(_I32, value)] * _LANES)


def _widened(builder: IrBuilder, kind: int, value: IrValue) -> IrValue:
    if kind == F16:
        return builder.fpext(value, _FLOATS)
    return builder.shl(builder.zext(value, _WORDS), _splat(16))


def _narrowed(builder: IrBuilder, kind: int, value: IrValue) -> IrValue:
    if kind == F16:
        return builder.fptrunc(value, _HALVES)
    # As dtypes.f32_to_bf16.
    b = builder
    odd = b.and_(b.lshr(value, _splat(16)), _splat(1))
    rounded = b.add(b.add(value, _splat(0x7FFF)), odd)
    number = b.bitcast(value, _FLOATS)
    is_nan = b.fcmp_unordered("uno", number, number)
    result = b.select(is_nan, b.or_(value, _splat(0x400000)), rounded)
    return b.trunc(b.lshr(result, _splat(16)), _SHORTS)


def _loop(kind: int, widen: bool) -> Intrinsic:
    """Make ``convert(target, source, groups)``."""
    narrow, wide = (_HALVES, _FLOATS) if kind == F16 else (_SHORTS, _WORDS)
    from_, to = ((2, narrow), (4, wide)) if widen else ((4, wide), (2, narrow))
    change = _widened if widen else _narrowed

    @fixed_intrinsic(types.void, types.int64, types.int64, types.int64)
    def convert(builder: IrBuilder, target: IrValue, source: IrValue, groups: IrValue) -> None:
        def places(base: IrValue, index: IrValue, side: tuple[int, IrType]) -> list[IrValue]:
            size, vector = side
            start = builder.add(base, builder.mul(index, ir.Constant(_I64, GROUP * size)))
            return [
                builder.inttoptr(
                    builder.add(start, ir.Constant(_I64, first * size)), vector.as_pointer()
                )
                for first in range(0, GROUP, _LANES)
            ]

        with cgutils.for_range(builder, groups, intp=_I64) as loop:
            values = []
            for pointer in places(source, loop.index, from_):
                value = builder.load(pointer)
                value.align = 1
                values.append(change(builder, kind, value))
            for pointer, value in zip(places(target, loop.index, to), values, strict=True):
                builder.store(value, pointer).align = 1

    return convert


_widen_f16, _widen_bf16 = _loop(F16, widen=True), _loop(BF16, widen=True)
_narrow_f16, _narrow_bf16 = _loop(F16, widen=False), _loop(BF16, widen=False)


@jit(inline="always")
def widen_groups(kind: int, target: int, source: int, groups: int) -> None:
    """Convert groups of ``GROUP`` fp16 or bf16 elements to fp32."""
    if kind == F16:
        _widen_f16(target, source, groups)
    else:
        _widen_bf16(target, source, groups)


@jit(inline="always")
def narrow_groups(kind: int, target: int, source: int, groups: int) -> None:
    """Round groups of ``GROUP`` fp32 elements to fp16 or bf16."""
    if kind == F16:
        _narrow_f16(target, source, groups)
    else:
        _narrow_bf16(target, source, groups)


__all__ = ["GROUP", "narrow_groups", "widen_groups"]
