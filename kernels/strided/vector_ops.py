"""Vector primitives of strided copies: loads, stores, shuffles and transposes of a few bytes.

Each is a Numba intrinsic that becomes a handful of instructions. The last argument, ``element``, is a value
whose *type* says how wide an element is (``U8`` to ``U256``); Numba compiles one version of a caller per
type. No address has to be aligned, and no byte outside the elements is read or written.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba import types

from emu.kernels.core.annotations import (
    Intrinsic,
    IrBuilder,
    IrType,
    IrValue,
    IrValues,
    NumbaType,
    Signature,
    TargetContext,
    Typed,
    TypingContext,
)
from emu.kernels.core.jit import intrinsic

VECTOR = 32
"""Bytes that :data:`fill`, :data:`reverse` and :data:`stride2` store at a time."""

U8, U16, U32, U64 = np.uint8(0), np.uint16(0), np.uint32(0), np.uint64(0)
"""Elements of 1, 2, 4 and 8 bytes."""

U128, U256 = (U64, U64), (U64, U64, U64, U64)
"""Elements of 16 and 32 bytes, for :data:`move` only."""

_I64 = ir.IntType(64)
_LANE = 16  # bytes within which x86 and Arm interleave in one instruction


def _at(builder: IrBuilder, base: IrValue, offset: IrValue | int, kind: IrType) -> IrValue:
    if isinstance(offset, int):
        offset = ir.Constant(_I64, offset)
    return builder.inttoptr(builder.add(base, offset), kind.as_pointer())


def _load(builder: IrBuilder, base: IrValue, offset: IrValue | int, kind: IrType) -> IrValue:
    part = builder.load(_at(builder, base, offset, kind))
    part.align = 1
    return part


def _store(builder: IrBuilder, part: IrValue, base: IrValue, offset: IrValue | int) -> None:
    builder.store(part, _at(builder, base, offset, part.type)).align = 1


def _shuffle(builder: IrBuilder, first: IrValue, second: IrValue, picks: list[int]) -> IrValue:
    i32 = ir.IntType(32)
    mask = ir.Constant(ir.VectorType(i32, len(picks)), [ir.Constant(i32, n) for n in picks])
    return builder.shuffle_vector(first, second, mask)


def _width(element: NumbaType) -> int:
    """Return the bytes of an element of a Numba type."""
    if isinstance(element, types.BaseTuple):
        return 8 * len(element)
    return int(element.bitwidth) // 8


def _primitive(build: Callable[[IrBuilder, IrValue, IrValue, int], None]) -> Intrinsic:
    """Make the intrinsic ``primitive(target, source, element)``; ``build`` gets the element's width."""

    @intrinsic
    def primitive(
        typingctx: TypingContext, target: NumbaType, source: NumbaType, element: NumbaType
    ) -> Typed:
        def codegen(
            context: TargetContext, builder: IrBuilder, signature: Signature, args: IrValues
        ) -> IrValue:
            build(builder, args[0], args[1], _width(element))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, element), codegen

    return primitive


@_primitive
def move(builder: IrBuilder, target: IrValue, source: IrValue, width: int) -> None:
    """Copy one element."""
    kind = ir.IntType(8 * width) if width <= 8 else ir.VectorType(_I64, width // 8)
    _store(builder, _load(builder, source, 0, kind), target, 0)


@_primitive
def fill(builder: IrBuilder, target: IrValue, source: IrValue, width: int) -> None:
    """Store a vector of copies of one element."""
    lanes = VECTOR // width
    element = ir.IntType(8 * width)
    part = builder.insert_element(
        ir.Constant(ir.VectorType(element, lanes), ir.Undefined),
        _load(builder, source, 0, element),
        ir.Constant(ir.IntType(32), 0),
    )
    _store(builder, _shuffle(builder, part, part, [0] * lanes), target, 0)


@_primitive
def reverse(builder: IrBuilder, target: IrValue, source: IrValue, width: int) -> None:
    """Store a vector of elements in reverse: ``source`` is the first, the others lie before it."""
    lanes = VECTOR // width
    part = _load(builder, source, width - VECTOR, ir.VectorType(ir.IntType(8 * width), lanes))
    _store(builder, _shuffle(builder, part, part, list(range(lanes))[::-1]), target, 0)


@_primitive
def stride2(builder: IrBuilder, target: IrValue, source: IrValue, width: int) -> None:
    """Store a vector of every second element."""
    lanes = VECTOR // width
    kind = ir.VectorType(ir.IntType(8 * width), lanes)
    low = _load(builder, source, 0, kind)
    # One element early: the last element lies at an even place, and nothing behind it may be read.
    high = _load(builder, source, VECTOR - width, kind)
    picks = [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)]
    _store(builder, _shuffle(builder, low, high, picks), target, 0)


SIDES = {1: 16, 2: 16, 4: 16, 8: 8}
"""Elements along the side of the square that :data:`transpose` moves, by their width."""


def _transposed(builder: IrBuilder, rows: list[IrValue], width: int) -> list[IrValue]:
    """Transpose a square of elements, a vector a row, by interleaving pairs of rows.

    First the small squares of one lane's width, all lanes of a vector at once; then the lanes.
    """
    side = len(rows)
    lane = min(side, _LANE // width)
    lanes = range(0, side, lane)
    half = lane // 2
    low = [p for c in lanes for i in range(half) for p in (c + i, side + c + i)]
    high = [p + half for p in low]
    for _ in range(lane.bit_length() - 1):
        passed = []
        for group in lanes:
            for i in range(group, group + half):
                passed.append(_shuffle(builder, rows[i], rows[i + half], low))
                passed.append(_shuffle(builder, rows[i], rows[i + half], high))
        rows = passed
    step = lane
    while step < side:
        for i in range(side):
            if not i & step:
                a, b = rows[i], rows[i + step]
                first = [side + c - step if c & step else c for c in range(side)]
                second = [side + c if c & step else c + step for c in range(side)]
                rows[i] = _shuffle(builder, a, b, first)
                rows[i + step] = _shuffle(builder, a, b, second)
        step *= 2
    return rows


@intrinsic
def transpose(
    typingctx: TypingContext,
    target: NumbaType,
    target_stride: NumbaType,
    source: NumbaType,
    source_stride: NumbaType,
    element: NumbaType,
) -> Typed:
    """Transpose a square of elements.

    Row i of the source begins i times its stride on, and its elements are contiguous. It becomes column i
    of the target, whose rows are contiguous, too.
    """

    def codegen(
        context: TargetContext, builder: IrBuilder, signature: Signature, args: IrValues
    ) -> IrValue:
        width = _width(element)
        side = SIDES[width]
        kind = ir.VectorType(ir.IntType(8 * width), side)

        def offset(stride: IrValue, i: int) -> IrValue:
            return builder.mul(stride, ir.Constant(_I64, i))

        rows = [_load(builder, args[2], offset(args[3], i), kind) for i in range(side)]
        for i, row in enumerate(_transposed(builder, rows, width)):
            _store(builder, row, args[0], offset(args[1], i))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4, element), codegen


@intrinsic
def width_of(typingctx: TypingContext, element: NumbaType) -> Typed:
    """Return the bytes of an element."""

    def codegen(
        context: TargetContext, builder: IrBuilder, signature: Signature, args: IrValues
    ) -> IrValue:
        return ir.Constant(_I64, _width(element))

    return types.int64(element), codegen


@intrinsic
def load(typingctx: TypingContext, address: NumbaType, element: NumbaType) -> Typed:
    """Load a value of the type of ``element``."""

    def codegen(
        context: TargetContext, builder: IrBuilder, signature: Signature, args: IrValues
    ) -> IrValue:
        return _load(builder, args[0], 0, context.get_value_type(signature.return_type))

    return element(types.int64, element), codegen


@intrinsic
def store(
    typingctx: TypingContext, address: NumbaType, value: NumbaType, element: NumbaType
) -> Typed:
    """Store a value as the type of ``element``."""

    def codegen(
        context: TargetContext, builder: IrBuilder, signature: Signature, args: IrValues
    ) -> IrValue:
        _store(builder, args[1], args[0], 0)
        return context.get_dummy_value()

    return types.void(types.int64, element, element), codegen
