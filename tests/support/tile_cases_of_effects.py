"""Programs that act: memory, atomics, control."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from tile_case_registry import N, case, family, matrix
from tile_harness import Kernel, Program, values

from emu.tile.ir import Value
from emu.tile.ops import Code, Rmw
from emu.tile.types import (
    BF16,
    DTYPES,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    U8,
    U32,
    U64,
    Pointer,
)

# ---- memory


@family
def copies() -> Iterable[Program]:
    for dtype in DTYPES.values():
        k, b = Kernel(), None
        b = k.builder
        x = k.pointer(values(dtype, N))
        k.result(k.read(x, (N,)))
        k.result(b.load(x))
        mask = k.load(values(I1, N))
        tile = k.addresses(x, (N,))
        k.result(b.load(tile, mask))
        k.result(b.load(tile, mask, k.load(values(dtype, N, 3))))
        b.store(k.addresses(k.pointer(values(dtype, N, 4)), (N,)), k.read(x, (N,)), mask)
        false = k.argument(I1, 0)
        k.result(b.load(x, false))
        k.result(b.load(x, false, k.number(1, dtype)))
        b.store(x, k.number(0, dtype), false)
        yield k.program(f"copy-{dtype}")


@case
def strided_and_transposed(k: Kernel) -> None:
    b = k.builder
    x = k.pointer(values(F32, 400, special=False))
    for strides in ((20, 1), (1, 20), (7, 3), (0, 1), (5, 0), (40, 2)):
        k.result(b.load(matrix(k, x, (9, 11), strides)))
    out = k.pointer(np.zeros(400, np.float32))
    b.store(matrix(k, out, (9, 11), (1, 20)), b.load(matrix(k, x, (9, 11), (20, 1))))
    loaded = b.load(matrix(k, x, (8, 4), (4, 1)))
    k.result(b.permute(loaded, (1, 0)))
    reverse = k.pointer(np.zeros(400, np.float32))
    b.store(
        matrix(k, b.ptr_add(reverse, k.number(300)), (9, 11), (-20, -1)),
        b.load(matrix(k, b.ptr_add(x, k.number(200)), (9, 11), (-11, 1))),
    )


@case
def whole_tiles_are_loaded_before_they_are_stored(k: Kernel) -> None:
    b = k.builder
    shifted = k.pointer(values(I32, 65))
    x = k.read(shifted, (64,))
    b.store(k.addresses(b.ptr_add(shifted, k.number(1)), (64,)), x)
    reversed_ = k.pointer(values(I32, 64))
    y = k.read(reversed_, (64,))
    b.store(b.flip(k.addresses(reversed_, (64,)), 0), y)
    k.result(k.read(reversed_, (64,)))
    turned = k.pointer(values(F32, 64))
    b.store(matrix(k, turned, (8, 8), (1, 8)), b.load(matrix(k, turned, (8, 8), (8, 1))))
    again = k.pointer(values(I32, 64))
    before = k.read(again, (64,))
    k.write(again, k.number(5, I32, (64,)))
    k.result(before)
    k.result(k.read(again, (64,)))


@case
def masks_that_are_stored_later(k: Kernel) -> None:
    b, n = k.builder, 16
    x = k.pointer(values(F16, 64))
    mask = b.load(k.addresses(k.pointer(np.arange(n) % 3 > 0), (n,)))
    backwards = b.binary(Code.SUB, k.number(20, I32, (n,)), b.arange(0, n))
    moved = b.load(b.ptr_add(b.splat(x, (n,)), backwards), mask)
    b.store(b.ptr_add(b.splat(x, (n,)), b.arange(2, 2 + n)), moved, mask)
    k.result(k.number(3, F16))
    k.result(mask)


@case
def addresses_from_bits_of_floats(k: Kernel) -> None:
    b, shape = k.builder, (2, 3, 33)
    x = k.pointer(values(U8, 600))
    number = b.splat(b.cast(k.argument(F32, 0.37369194626808167), F16), shape)
    zero = k.number(0, F16, shape)
    total = b.binary(Code.ADD, number, zero)
    bits = b.bitcast(b.select(b.compare(Code.EQ, total, total), total, zero), I16)
    index = b.binary(Code.REM, b.cast(bits, U32), k.number(600, U32, shape))
    loaded = b.load(b.ptr_add(b.splat(x, shape), index))
    k.result(bits)
    k.result(loaded)


@case
def scattered(k: Kernel) -> None:
    b = k.builder
    rng = np.random.default_rng(5)
    x = k.pointer(values(BF16, 100))
    for dtype in (I32, I64, U8, I16):
        index = k.load(rng.integers(0, 100, 41).astype(dtype.numpy))
        place = b.ptr_add(b.splat(x, (41,)), index)
        mask = k.load(values(I1, 41, dtype.bits))
        k.result(b.load(place, mask))
        out = k.pointer(np.zeros(100, np.int32))
        b.store(b.ptr_add(b.splat(out, (41,)), index), b.arange(0, 41), mask)
    wild = k.load(np.where(values(I1, 41), 3, 2**40))
    legal = b.compare(Code.LT, wild, k.number(100, I64, (41,)))
    k.result(b.load(b.ptr_add(b.splat(x, (41,)), wild), legal))


@case
def offsets_of_long_computation(k: Kernel) -> None:
    b = k.builder
    index = k.load(values(I32, N))
    for n in range(40):  # each value is used twice: 2 ** 40 ways lead to the first
        shifted = b.binary(Code.SHR, index, k.number(n % 3 + 1, I32, (N,)))
        index = b.binary(Code.XOR, b.binary(Code.MUL, index, k.number(5, I32, (N,))), shifted)
    index = b.binary(Code.AND, index, k.number(63, I32, (N,)))
    x = k.pointer(values(F32, 64))
    k.result(b.load(b.ptr_add(b.splat(x, (N,)), index)))


@case
def negative_and_narrow_offsets(k: Kernel) -> None:
    b = k.builder
    x = b.ptr_add(k.pointer(values(F32, 600)), k.number(300))
    for dtype in (I8, U8, I16, I64):
        index = values(dtype, N)
        index = (index.astype(np.int64) % 256).astype(dtype.numpy)
        k.result(b.load(b.ptr_add(b.splat(x, (N,)), k.load(index))))


@case
def pointers_in_memory(k: Kernel) -> None:
    b = k.builder
    x, y = k.pointer(values(F32, 6, 1)), k.pointer(values(F32, 6, 2))
    table = np.zeros(2, np.uint64)
    slot = b.cast(k.pointer(table), Pointer(Pointer(F32)))
    k.ignored.add(len(k.given) - 1)
    b.store(slot, x)
    b.store(b.ptr_add(slot, k.number(1)), y)
    pointers = b.load(k.addresses(slot, (2,)))
    k.result(b.load(b.ptr_add(pointers, k.number(3, I32, (2,)))))
    k.result(k.read(b.load(b.ptr_add(slot, k.number(1))), (6,)))


@family
def atomics() -> Iterable[Program]:
    for kind in Rmw:
        k, b = Kernel(), None
        b = k.builder
        for dtype in (I32, U32, I64, U64, F32, F64, F16, BF16):
            logical = kind in (Rmw.AND, Rmw.OR, Rmw.XOR)
            if dtype.is_float and (logical or (kind is not Rmw.ADD and dtype.bits < 32)):
                continue
            x = values(dtype, 8, 1, special=False)
            y = values(dtype, 20, 2, special=False)
            if dtype.is_float:
                rng = np.random.default_rng(1)
                x, y = (rng.integers(-8, 9, n).astype(dtype.numpy) for n in (8, 20))
            index = k.load(np.random.default_rng(3).integers(0, 8, 20).astype(np.int32))
            place = b.ptr_add(b.splat(k.pointer(x), (20,)), index)
            k.result(b.atomic_rmw(kind, place, k.load(y)))
            k.result(b.atomic_rmw(kind, place, k.load(y), k.load(values(I1, 20))))
            k.result(b.atomic_rmw(kind, k.pointer(x), k.number(1, dtype)))
        yield k.program(f"atomic-{kind.value}")


@case
def compare_and_swap(k: Kernel) -> None:
    b = k.builder
    for dtype in (I32, U32, I64, U64, F32, F64):
        x = np.arange(8).astype(dtype.numpy)
        place = k.addresses(k.pointer(x), (8,))
        expected = k.load(np.array([0, 5, 2, 5, 4, 5, 6, 5]).astype(dtype.numpy))
        k.result(b.atomic_cas(place, expected, k.number(9, dtype, (8,))))
        one = b.atomic_cas(k.pointer(x), k.number(0, dtype), k.number(3, dtype))
        k.result(one)


@case
def atomics_between_programs(k: Kernel) -> tuple[int, int, int]:
    b = k.builder
    total, counts = k.pointer(np.zeros(1, np.int32)), k.pointer(np.zeros(16, np.float32))
    b.atomic_rmw(Rmw.ADD, total, b.program_id(0))
    b.atomic_rmw(Rmw.ADD, k.addresses(counts, (16,)), k.number(1, F32, (16,)))
    return (50, 1, 1)


# ---- control


@case
def loops(k: Kernel) -> None:
    b = k.builder
    x = k.load(values(I32, N))
    bounds = [(0, 5, 1), (3, 20, 4), (10, 0, -3), (5, 5, 1), (6, 5, 1), (-4, 5, 2)]
    for start, end, step in bounds:
        limit = k.argument(I32, end)
        carried = [k.number(100), x]
        with b.for_(k.number(start), limit, k.number(step), carried) as loop:
            total = b.binary(Code.ADD, loop.carried[0], loop.index)
            rows = b.binary(Code.XOR, loop.carried[1], b.splat(loop.index, (N,)))
            rows = b.binary(Code.MUL, rows, k.number(3, I32, (N,)))
            b.yield_(total, rows)
        for result in loop.results:
            k.result(result)


@case
def loops_over_other_dtypes(k: Kernel) -> None:
    b = k.builder
    for dtype in (I64, U32, I8, U8, U64):
        start, end, step = (k.argument(dtype, v) for v in (1, 100, 7))
        with b.for_(start, end, step, [k.number(0, dtype)]) as loop:
            b.yield_(b.binary(Code.ADD, loop.carried[0], loop.index))
        k.result(loop.results[0])


@case
def nested_loops(k: Kernel) -> None:
    b = k.builder
    x = k.pointer(values(I32, 60))
    out = k.pointer(np.zeros(60, np.int32))
    zero, one = k.number(0), k.number(1)
    with b.for_(zero, k.argument(I32, 3), one, [zero]) as outer:
        with b.for_(zero, k.argument(I32, 4), one, [outer.carried[0]]) as inner:
            row = b.binary(Code.MUL, outer.index, k.number(20))
            place = b.binary(Code.ADD, row, b.binary(Code.MUL, inner.index, k.number(5)))
            tile = k.read(b.ptr_add(x, place), (5,))
            k.write(b.ptr_add(out, place), b.binary(Code.ADD, tile, b.splat(place, (5,))))
            b.yield_(b.binary(Code.ADD, inner.carried[0], place))
        b.yield_(b.binary(Code.MUL, inner.results[0], k.number(3)))
    k.result(outer.results[0])


@case
def loops_with_swapped_carried_values(k: Kernel) -> None:
    b = k.builder
    x, y = k.load(values(F32, N, 1)), k.load(values(F32, N, 2))
    with b.for_(k.number(0), k.argument(I32, 3), k.number(1), [x, y, x]) as loop:
        b.yield_(loop.carried[1], loop.carried[0], y)
    for result in loop.results:
        k.result(result)


@case
def loops_with_carried_pointers(k: Kernel) -> None:
    b = k.builder
    x = k.pointer(values(F32, 64, special=False))
    tile = k.addresses(x, (8,))
    start = [tile, x, k.number(0, F32, (8,))]
    with b.for_(k.number(0), k.argument(I32, 7), k.number(1), start) as loop:
        pointers, pointer, total = loop.carried
        total = b.binary(Code.MAX, total, b.load(pointers))
        total = b.binary(Code.MIN, total, b.splat(b.load(pointer), (8,)))
        step = k.number(8)
        b.yield_(b.ptr_add(pointers, b.splat(step, (8,))), b.ptr_add(pointer, step), total)
    k.result(loop.results[2])


@case
def stores_in_loops_are_seen_by_later_loads(k: Kernel) -> None:
    b = k.builder
    x = k.pointer(values(I32, 40))
    with b.for_(k.number(0), k.argument(I32, 9), k.number(1), []) as loop:
        here = b.ptr_add(x, b.binary(Code.MUL, loop.index, k.number(4)))
        there = b.ptr_add(here, k.number(4))
        total = b.binary(Code.ADD, k.read(here, (4,)), k.read(there, (4,)))
        k.write(there, total)
        b.yield_()


@case
def whiles(k: Kernel) -> None:
    b = k.builder
    for start in (27, 1):
        number = k.argument(I32, start)

        def before(x: Value, steps: Value, tile: Value) -> list[Value]:
            return [b.compare(Code.NE, x, k.number(1)), x, steps, tile]

        def after(x: Value, steps: Value, tile: Value) -> list[Value]:
            odd = b.compare(Code.NE, b.binary(Code.AND, x, k.number(1)), k.number(0))
            up = b.binary(Code.ADD, b.binary(Code.MUL, x, k.number(3)), k.number(1))
            down = b.binary(Code.SHR, x, k.number(1))
            tile = b.binary(Code.ADD, tile, b.splat(x, (N,)))
            return [b.select(odd, up, down), b.binary(Code.ADD, steps, k.number(1)), tile]

        carried = [number, k.number(0), k.load(values(I32, N))]
        types = [v.type for v in carried]
        for result in b.while_(carried, k.region(before, *types), k.region(after, *types)):
            k.result(result)


@case
def ifs(k: Kernel) -> None:
    b = k.builder
    x = k.load(values(F32, N))
    for truth in (0, 1):
        condition = k.argument(I1, truth)
        out = k.pointer(np.zeros(N, np.float32))

        def then(out: Value = out) -> list[Value]:
            k.write(out, x)
            return [b.unary(Code.NEG, x), k.number(1), out]

        def other(out: Value = out) -> list[Value]:
            return [x, k.number(2), b.ptr_add(out, k.number(1))]

        tile, number, pointer = b.if_(condition, k.region(then), k.region(other))
        k.result(tile)
        k.result(number)
        k.result(b.load(pointer))
        b.if_(
            condition,
            k.region(lambda out=out: [b.store(out, k.number(7, F32))][:0]),
            k.region(list),
        )


@case
def ifs_in_loops(k: Kernel) -> None:
    b = k.builder
    x = k.load(values(I32, N))
    with b.for_(k.number(0), k.argument(I32, 6), k.number(1), [x]) as loop:
        (tile,) = loop.carried
        even = b.compare(Code.EQ, b.binary(Code.AND, loop.index, k.number(1)), k.number(0))
        then = k.region(lambda: [b.binary(Code.ADD, tile, b.splat(loop.index, (N,)))])
        results = b.if_(even, then, k.region(lambda: [b.binary(Code.MUL, tile, tile)]))
        b.yield_(*results)
    k.result(loop.results[0])


@case
def calls(k: Kernel) -> None:
    b = k.builder
    x = k.load(values(F32, N))

    def twice(a: Value, c: Value) -> list[Value]:
        return [b.binary(Code.ADD, a, a), b.binary(Code.SUB, c, k.number(1))]

    double = k.function("double", twice, x.type, I32)

    def quadruple(a: Value) -> list[Value]:
        return [b.call(double, [b.call(double, [a, k.number(3)])[0], k.number(4)])[0]]

    four = k.function("four", quadruple, x.type)
    for result in (*b.call(double, [x, k.argument(I32, 5)]), *b.call(four, [x])):
        k.result(result)
    store = k.function("put", lambda p: [k.write(p, k.number(3, I32, (4,)))][:0], Pointer(I32))
    b.call(store, [k.pointer(np.zeros(4, np.int32))])
