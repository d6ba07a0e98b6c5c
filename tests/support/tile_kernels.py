"""Kernels as one writes them in Triton, built by hand, with their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
from tile_case_registry import matrix
from tile_harness import Kernel, Program, values

from emu.tile.ir import Value
from emu.tile.ops import Code, Rmw
from emu.tile.types import BF16, F16, F32, I1, I32, DType


def block_offsets(k: Kernel, block: int) -> Value:
    b = k.builder
    start = b.binary(Code.MUL, b.program_id(0), k.number(block))
    return b.binary(Code.ADD, b.splat(start, (block,)), b.arange(0, block))


def total(k: Kernel, tile: Value, axis: int, code: Code = Code.ADD) -> Value:
    (result,) = k.builder.reduce([tile], axis, lambda a, c: [k.builder.binary(code, a, c)])
    return result


def vector_add(dtype: DType, block: int = 64, n: int = 150) -> Program:
    k = Kernel()
    b = k.builder
    x, y = (k.pointer(values(dtype, n, s, special=False), name) for s, name in ((1, "x"), (2, "y")))
    out = k.pointer(np.zeros(n, dtype.numpy), "out")
    offsets = block_offsets(k, block)
    mask = b.compare(Code.LT, offsets, b.splat(k.argument(I32, n, "n"), (block,)))
    a, c = (b.load(b.ptr_add(b.splat(p, (block,)), offsets), mask) for p in (x, y))
    b.store(b.ptr_add(b.splat(out, (block,)), offsets), b.binary(Code.ADD, a, c), mask)
    return k.program(f"vector_add-{dtype}", (-(-n // block), 1, 1))


def softmax(dtype: DType, columns: int = 45, block: int = 64, rows: int = 3) -> Program:
    """A program a row."""
    k = Kernel()
    b = k.builder
    data = values(dtype, rows * columns, special=False).astype(np.float64).clip(-20, 20)
    x = k.pointer(data.astype(dtype.numpy).reshape(rows, columns), "x")
    out = k.pointer(np.zeros((rows, columns), dtype.numpy), "out")
    k.inexact.add(len(k.given) - 1)
    start = b.binary(Code.MUL, b.program_id(0), k.argument(I32, columns, "stride"))
    lanes = b.arange(0, block)
    mask = b.compare(Code.LT, lanes, b.splat(k.argument(I32, columns, "columns"), (block,)))

    def row(pointer: Value) -> Value:
        return b.ptr_add(b.splat(b.ptr_add(pointer, start), (block,)), lanes)

    loaded = b.load(row(x), mask, k.number(float("-inf"), dtype, (block,)))
    wide = b.cast(loaded, F32)
    top = b.splat(total(k, wide, 0, Code.MAX), (block,))
    powers = b.unary(Code.EXP, b.binary(Code.SUB, wide, top))
    result = b.binary(Code.DIV, powers, b.splat(total(k, powers, 0), (block,)))
    b.store(row(out), b.cast(result, dtype), mask)
    return k.program(f"softmax-{dtype}", (rows, 1, 1))


def layer_norm(dtype: DType, columns: int = 70, block: int = 32, rows: int = 2) -> Program:
    """Loops over blocks of a row: mean, variance, then the result."""
    k = Kernel()
    b = k.builder
    x = k.pointer(np.random.default_rng(3).standard_normal((rows, columns)).astype(dtype.numpy))
    weight = k.pointer(np.linspace(0.5, 2, columns).astype(dtype.numpy))
    bias = k.pointer(np.linspace(8, 9, columns).astype(dtype.numpy))  # no cancellation
    out = k.pointer(np.zeros((rows, columns), dtype.numpy))
    k.inexact.add(len(k.given) - 1)
    count = k.argument(I32, columns)
    start = b.binary(Code.MUL, b.program_id(0), count)
    zero, step, zeros = k.number(0), k.number(block), k.number(0, F32, (block,))

    def at(offset: Value) -> tuple[Value, Value]:
        lanes = b.binary(Code.ADD, b.splat(offset, (block,)), b.arange(0, block))
        return lanes, b.compare(Code.LT, lanes, b.splat(count, (block,)))

    def load(pointer: Value, lanes: Value, mask: Value) -> Value:
        loaded = b.load(b.ptr_add(b.splat(pointer, (block,)), lanes), mask)
        return b.cast(loaded, F32)

    def summed(change: Any) -> Value:
        with b.for_(zero, count, step, [zeros]) as loop:
            lanes, mask = at(loop.index)
            value = change(load(b.ptr_add(x, start), lanes, mask), mask)
            b.yield_(b.binary(Code.ADD, loop.carried[0], value))
        return b.binary(Code.DIV, total(k, loop.results[0], 0), b.cast(count, F32))

    mean = summed(lambda value, mask: value)

    def deviation(value: Value, mask: Value) -> Value:
        centred = b.binary(Code.SUB, value, b.splat(mean, (block,)))
        centred = b.select(mask, centred, zeros)
        return b.binary(Code.MUL, centred, centred)

    variance = b.binary(Code.ADD, summed(deviation), k.number(1e-5, F32))
    scale = b.splat(b.unary(Code.RSQRT, variance), (block,))
    with b.for_(zero, count, step, []) as loop:
        lanes, mask = at(loop.index)
        value = load(b.ptr_add(x, start), lanes, mask)
        normal = b.binary(Code.MUL, b.binary(Code.SUB, value, b.splat(mean, (block,))), scale)
        result = b.binary(Code.MUL, normal, load(weight, lanes, mask))
        result = b.binary(Code.ADD, result, load(bias, lanes, mask))
        place = b.ptr_add(b.splat(b.ptr_add(out, start), (block,)), lanes)
        b.store(place, b.cast(result, dtype), mask)
        b.yield_()
    return k.program(f"layer_norm-{dtype}", (rows, 1, 1))


def matmul(dtype: DType, m: int = 20, n: int = 24, depth: int = 36) -> Program:
    """Blocks of 16 x 16, loops over k by 8; pointers are carried."""
    k = Kernel()
    b = k.builder
    bm, bn, bk = 16, 16, 8
    rng = np.random.default_rng(1)
    a, w = (
        k.pointer(rng.integers(-4, 5, shape).astype(dtype.numpy))
        for shape in ((m, depth), (depth, n))
    )
    out = k.pointer(np.zeros((m, n), np.float32))

    def block(axis: int, size: int, extent: int, shape: tuple[int, int]) -> tuple[Value, Value]:
        start = b.binary(Code.MUL, b.program_id(axis), k.number(size))
        lanes = b.binary(Code.ADD, b.splat(start, (size,)), b.arange(0, size))
        line = (size, 1) if axis == 0 else (1, size)
        lanes = b.broadcast(b.reshape(lanes, line), shape)
        return lanes, b.compare(Code.LT, lanes, k.number(extent, I32, shape))

    def depths(line: tuple[int, int], shape: tuple[int, int]) -> Value:
        return b.broadcast(b.reshape(b.arange(0, bk), line), shape)

    def times(value: Value, factor: int) -> Value:
        return b.binary(Code.MUL, value, k.number(factor, I32, value.shape))

    rows, row_inside = block(0, bm, m, (bm, bk))
    columns, column_inside = block(1, bn, n, (bk, bn))
    left_depth, right_depth = depths((1, bk), (bm, bk)), depths((bk, 1), (bk, bn))
    left = b.ptr_add(b.splat(a, (bm, bk)), b.binary(Code.ADD, times(rows, depth), left_depth))
    right = b.ptr_add(b.splat(w, (bk, bn)), b.binary(Code.ADD, times(right_depth, n), columns))
    carried = [k.number(0, F32, (bm, bn)), left, right]
    with b.for_(k.number(0), k.argument(I32, depth), k.number(bk), carried) as loop:
        acc, left, right = loop.carried

        def inside(place: Value, other: Value, index: Value = loop.index) -> Value:
            rest = b.binary(Code.SUB, k.number(depth), index)
            return b.binary(Code.AND, other, b.compare(Code.LT, place, b.splat(rest, place.shape)))

        x = b.load(left, inside(left_depth, row_inside))
        y = b.load(right, inside(right_depth, column_inside))
        b.yield_(
            b.dot(x, y, acc),
            b.ptr_add(left, k.number(bk, I32, (bm, bk))),
            b.ptr_add(right, k.number(bk * n, I32, (bk, bn))),
        )
    row, row_mask = block(0, bm, m, (bm, bn))
    column, column_mask = block(1, bn, n, (bm, bn))
    place = b.ptr_add(b.splat(out, (bm, bn)), b.binary(Code.ADD, times(row, n), column))
    b.store(place, loop.results[0], b.binary(Code.AND, row_mask, column_mask))
    return k.program(f"matmul-{dtype}", (-(-m // bm), -(-n // bn), 1))


def column_sums() -> Program:
    """Programs add their rows to one result atomically, and the last says how many there were."""
    k = Kernel()
    b = k.builder
    x = k.pointer(np.arange(6 * 24).reshape(6, 24).astype(np.float32))
    out, count = k.pointer(np.zeros(24, np.float32)), k.pointer(np.zeros(1, np.int32))
    last = k.pointer(np.zeros(1, np.int32))
    start = b.binary(Code.MUL, b.program_id(0), k.number(48))
    part = total(k, b.load(matrix(k, b.ptr_add(x, start), (2, 24), (24, 1))), 0)
    mask = b.compare(Code.NE, b.arange(0, 24), k.number(5, I32, (24,)))
    b.atomic_rmw(Rmw.ADD, k.addresses(out, (24,)), part, mask)
    before = b.atomic_rmw(Rmw.ADD, count, k.number(1))
    done = b.compare(Code.EQ, before, b.binary(Code.SUB, b.num_programs(0), k.number(1)))
    b.if_(done, k.region(lambda: [b.store(last, before)][:0]), k.region(list))
    return k.program("column_sums", (3, 1, 1))


def lock() -> Program:
    """Each program takes a lock, adds to a number without atomics, and gives the lock back."""
    k = Kernel()
    b = k.builder
    taken, number = k.pointer(np.zeros(1, np.int32)), k.pointer(np.zeros(8, np.int32))

    def before() -> list[Value]:
        old = b.atomic_cas(taken, k.number(0), k.number(1))
        return [b.compare(Code.NE, old, k.number(0))]

    b.while_([], k.region(before), k.region(list))
    place = k.addresses(number, (8,))
    b.store(place, b.binary(Code.ADD, b.load(place), b.arange(0, 8)))
    b.barrier()
    b.atomic_rmw(Rmw.EXCHANGE, taken, k.number(0))
    return k.program("lock", (4, 1, 1))


def sort() -> Program:
    """A bitonic sort by reshapes, joins and splits, as Triton's standard library writes it."""
    k = Kernel()
    b = k.builder
    n = 16
    x = k.load(np.random.default_rng(0).permutation(n).astype(np.int32))
    lanes = b.arange(0, n)
    for stage in (2, 4, 8, 16):
        distance = stage // 2
        while distance:
            halves = b.permute(b.reshape(x, (n // (2 * distance), 2, distance)), (0, 2, 1))
            low, high = b.split(halves)
            other = b.reshape(b.permute(b.join(high, low), (0, 2, 1)), (n,))
            up = b.compare(
                Code.EQ,
                b.binary(Code.AND, lanes, k.number(stage, I32, (n,))),
                k.number(0, I32, (n,)),
            )
            lower = b.compare(
                Code.EQ,
                b.binary(Code.AND, lanes, k.number(distance, I32, (n,))),
                k.number(0, I32, (n,)),
            )
            smaller = b.compare(Code.EQ, up, lower)
            x = b.select(smaller, b.binary(Code.MIN, x, other), b.binary(Code.MAX, x, other))
            distance //= 2
    k.result(x)
    return k.program("sort")


def large_tiles() -> Program:
    """Tiles that do not fit into shared memory together."""
    k = Kernel()
    b = k.builder
    data = np.arange(96 * 96).reshape(96, 96).astype(np.float32)
    x, y = k.load(data), k.load(data[::-1].copy())
    k.result(b.binary(Code.ADD, b.permute(x, (1, 0)), b.permute(y, (1, 0))))
    k.result(total(k, x, 1))
    flat, mask = b.cast(x, I32), b.compare(Code.LT, x, y)
    k.result(b.histogram(b.reshape(flat, (96 * 96,)), 13000, b.reshape(mask, (96 * 96,))))
    return k.program("large_tiles")


def checked(numbers: list[int], message: str) -> Program:
    """An assertion about each element, then a store."""
    k = Kernel()
    b = k.builder
    x = k.load(np.array(numbers, np.int32))
    b.assert_(b.compare(Code.GE, x, k.number(0, I32, x.shape)), message)  # noqa: PT009 - the builder's
    k.result(x)
    return k.program("checked")


KERNELS: dict[str, Program] = {
    p.name: p
    for p in (
        *(vector_add(d) for d in (F32, F16, BF16, I32, I1)),
        softmax(F32),
        softmax(F16),
        layer_norm(F32),
        layer_norm(BF16),
        matmul(F32),
        matmul(F16),
        column_sums(),
        lock(),
        sort(),
        large_tiles(),
    )
}
"""All of them by name."""
