"""Moves of a few bytes between raw addresses: the innermost steps of strided copies.

Each is a Numba intrinsic that becomes a handful of instructions. No address has to be aligned, and
no step reads or writes a byte outside the elements that it is for.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from emu.kernels.core.jit import intrinsic

VECTOR = 32
"""Bytes that the steps of :data:`FILL`, :data:`REVERSE` and :data:`SECOND` store at a time."""

_I64 = ir.IntType(64)
_LANE = 16  # bytes within which x86 and Arm interleave in one instruction


def _at(builder: Any, base: Any, offset: Any, kind: Any) -> Any:
    if isinstance(offset, int):
        offset = ir.Constant(_I64, offset)
    return builder.inttoptr(builder.add(base, offset), kind.as_pointer())


def _load(builder: Any, base: Any, offset: Any, kind: Any) -> Any:
    part = builder.load(_at(builder, base, offset, kind))
    part.align = 1
    return part


def _store(builder: Any, part: Any, base: Any, offset: Any) -> None:
    builder.store(part, _at(builder, base, offset, part.type)).align = 1


def _shuffle(builder: Any, first: Any, second: Any, picks: list[int]) -> Any:
    i32 = ir.IntType(32)
    mask = ir.Constant(ir.VectorType(i32, len(picks)), [ir.Constant(i32, n) for n in picks])
    return builder.shuffle_vector(first, second, mask)


def _step(build: Any) -> Any:
    """Make the intrinsic ``step(target, source)``."""

    @intrinsic
    def step(typingctx: Any, target: Any, source: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            build(builder, args[0], args[1])
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), codegen

    return step


def _move(width: int) -> Any:
    kind = ir.IntType(8 * width) if width <= 8 else ir.VectorType(_I64, width // 8)
    return _step(lambda b, target, source: _store(b, _load(b, source, 0, kind), target, 0))


move_1, move_2, move_4, move_8, move_16, move_32 = (_move(w) for w in (1, 2, 4, 8, 16, 32))


def _fill(width: int) -> Any:
    lanes = VECTOR // width

    def build(builder: Any, target: Any, source: Any) -> None:
        element = ir.IntType(8 * width)
        one = ir.VectorType(element, lanes)
        part = builder.insert_element(
            ir.Constant(one, ir.Undefined),
            _load(builder, source, 0, element),
            ir.Constant(ir.IntType(32), 0),
        )
        _store(builder, _shuffle(builder, part, part, [0] * lanes), target, 0)

    return _step(build)


def _reverse(width: int) -> Any:
    """``source`` is the first element, the others lie before it."""
    lanes = VECTOR // width

    def build(builder: Any, target: Any, source: Any) -> None:
        kind = ir.VectorType(ir.IntType(8 * width), lanes)
        part = _load(builder, source, width - VECTOR, kind)
        _store(builder, _shuffle(builder, part, part, list(range(lanes))[::-1]), target, 0)

    return _step(build)


def _second(width: int) -> Any:
    """Take every second element. The last load begins early, so as to end with an element."""
    lanes = VECTOR // width

    def build(builder: Any, target: Any, source: Any) -> None:
        kind = ir.VectorType(ir.IntType(8 * width), lanes)
        low = _load(builder, source, 0, kind)
        high = _load(builder, source, VECTOR - width, kind)
        picks = [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)]
        _store(builder, _shuffle(builder, low, high, picks), target, 0)

    return _step(build)


fill_1, fill_2, fill_4, fill_8 = (_fill(w) for w in (1, 2, 4, 8))
reverse_1, reverse_2, reverse_4, reverse_8 = (_reverse(w) for w in (1, 2, 4, 8))
second_1, second_2, second_4, second_8 = (_second(w) for w in (1, 2, 4, 8))


def _transposed(builder: Any, rows: list[Any], width: int) -> list[Any]:
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


def _transpose(width: int, side: int) -> Any:
    @intrinsic
    def transpose(
        typingctx: Any, target: Any, target_stride: Any, source: Any, source_stride: Any
    ) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = ir.VectorType(ir.IntType(8 * width), side)

            def offset(stride: Any, i: int) -> Any:
                return builder.mul(stride, ir.Constant(_I64, i))

            rows = [_load(builder, args[2], offset(args[3], i), kind) for i in range(side)]
            for i, row in enumerate(_transposed(builder, rows, width)):
                _store(builder, row, args[0], offset(args[1], i))
            return context.get_dummy_value()

        return types.void(*[types.int64] * 4), codegen

    return transpose


SIDES = {1: 16, 2: 16, 4: 16, 8: 8}
"""Elements along the side of the square that a ``transpose`` step moves, by their width.

``transpose(target, target stride, source, source stride)``: row i of the source, which begins i
source strides on and lies dense, becomes column i of the target, whose rows lie dense.
"""

transpose_1, transpose_2, transpose_4, transpose_8 = (_transpose(w, n) for w, n in SIDES.items())


@intrinsic
def peek(typingctx: Any, address: Any, like: Any) -> Any:
    """Load a value of the type of ``like``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _load(builder, args[0], 0, context.get_value_type(signature.return_type))

    return like(types.int64, like), codegen


@intrinsic
def poke(typingctx: Any, address: Any, value: Any, like: Any) -> Any:
    """Store a value as the type of ``like``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _store(builder, args[1], args[0], 0)
        return context.get_dummy_value()

    return types.void(types.int64, like, like), codegen
