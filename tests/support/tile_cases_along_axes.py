"""Programs that work along an axis: reductions, scans, histograms, products."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import product

import numpy as np
from tile_case_registry import N, case, exact, family, matrix
from tile_harness import Kernel, Program, values

from emu.tile.ir import Value
from emu.tile.ops import Code
from emu.tile.types import (
    BF16,
    F8E4M3FN,
    F8E5M2,
    F16,
    F32,
    F64,
    I1,
    I8,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Kind,
)

# ---- along an axis

COMBINING = {
    "sum": (Code.ADD, (I32, I64, U8, F32, F64, F16)),
    "max": (Code.MAX, (I32, U32, F32, F64, BF16)),
    "min": (Code.MIN, (I8, U64, F32, F16)),
    "xor": (Code.XOR, (I32, I1)),
    "or": (Code.OR, (I1, I64)),
    "product": (Code.MUL, (I32, U64)),
}


def along(k: Kernel, code: Code) -> Callable[..., list[Value]]:
    return lambda a, c: [k.builder.binary(code, a, c)]


@family
def reductions() -> Iterable[Program]:
    for name, (code, dtypes) in COMBINING.items():
        k = Kernel()
        for dtype in dtypes:
            for shape in ((N,), (1,), (64,), (5, 7), (2, 3, 5), (200,)):
                x = k.load(exact(dtype, shape, len(shape)))
                for axis in range(len(shape)):
                    k.result(k.builder.reduce([x], axis, along(k, code))[0])
        yield k.program(f"reduce-{name}")


@case
def reductions_of_large_matrices(k: Kernel) -> None:
    x = k.load(exact(F32, (48, 100)))
    for axis in (0, 1):
        k.result(k.builder.reduce([x], axis, along(k, Code.ADD))[0])
        k.result(k.builder.reduce([x], axis, along(k, Code.MAX))[0])


@case
def sums_of_any_floats(k: Kernel) -> None:
    for dtype in (F32, F64):
        x = k.load(np.random.default_rng(2).random((7, 300)).astype(dtype.numpy))
        for axis in (0, 1):
            k.result(k.builder.reduce([x], axis, along(k, Code.ADD))[0], inexact=True)


def larger(k: Kernel) -> Callable[..., list[Value]]:
    """Combine for argmax: of equal values the smaller index."""
    b = k.builder

    def combine(a: Value, i: Value, c: Value, j: Value) -> list[Value]:
        tie = b.binary(Code.AND, b.compare(Code.EQ, a, c), b.compare(Code.LT, i, j))
        first = b.binary(Code.OR, b.compare(Code.GT, a, c), tie)
        return [b.select(first, a, c), b.select(first, i, j)]

    return combine


@case
def arguments_of_maxima(k: Kernel) -> None:
    b = k.builder
    for dtype, shape in product((I32, F32, BF16), ((N,), (6, 9), (3, 4, 5))):
        x = k.load(exact(dtype, shape))
        for axis, extent in enumerate(shape):
            line = tuple(extent if a == axis else 1 for a in range(len(shape)))
            index = b.broadcast(b.reshape(b.arange(0, extent), line), shape)
            for result in b.reduce([x, index], axis, larger(k)):
                k.result(result)


@case
def reductions_with_control_flow(k: Kernel) -> None:
    b = k.builder

    def combine(a: Value, c: Value) -> list[Value]:
        then = k.region(lambda: [a])
        return list(b.if_(b.compare(Code.GT, a, c), then, k.region(lambda: [c])))

    x = k.load(values(I32, 30).reshape(5, 6))
    for axis in (0, 1):
        k.result(b.reduce([x], axis, combine)[0])
        k.result(b.scan([x], axis, combine)[0])


@family
def scans() -> Iterable[Program]:
    for name, (code, dtypes) in COMBINING.items():
        k = Kernel()
        for dtype, reverse in product(dtypes, (False, True)):
            for shape in ((N,), (1,), (64,), (5, 7), (2, 3, 5)):
                x = k.load(exact(dtype, shape, len(shape)))
                for axis in range(len(shape)):
                    k.result(k.builder.scan([x], axis, along(k, code), reverse)[0])
        yield k.program(f"scan-{name}")


@case
def scans_of_what_is_the_same_along_another_axis(k: Kernel) -> None:
    b = k.builder
    x = k.load(values(I32, 16 * 32).reshape(16, 32))
    rows = b.broadcast(b.reshape(b.arange(0, 16), (16, 1)), (16, 32))
    columns = b.broadcast(b.reshape(b.arange(0, 32), (1, 32)), (16, 32))
    for axis, at in ((0, rows), (0, columns), (1, rows), (1, columns)):
        for reverse in (False, True):
            for result in b.scan([x, at], axis, larger(k), reverse=reverse):
                k.result(result)


@case
def scans_of_affine_maps(k: Kernel) -> None:
    b = k.builder

    def combine(a: Value, x: Value, c: Value, y: Value) -> list[Value]:
        """First ``a t + x``, then ``c t + y``: associative, not commutative."""
        both = b.binary(Code.MUL, a, c)
        return [both, b.binary(Code.ADD, b.binary(Code.MUL, x, c), y)]

    for shape, reverse in product(((N,), (4, 6)), (False, True)):
        count = int(np.prod(shape))
        x, y = (k.load(values(I32, count, s).reshape(shape)) for s in (1, 2))
        for axis in range(len(shape)):
            for result in b.scan([x, y], axis, combine, reverse):
                k.result(result)


@case
def histograms(k: Kernel) -> None:
    for dtype, bins in ((I32, 8), (I64, 5), (U8, 16)):
        x = k.load((np.arange(100) * 7 % (bins + 3)).astype(dtype.numpy))
        k.result(k.builder.histogram(x, bins))
        k.result(k.builder.histogram(x, bins, k.load(values(I1, 100))))


@family
def sorts() -> Iterable[Program]:
    for dtype in (U8, U16, U32, U64):
        k = Kernel()
        for shape in ((1,), (5,), (300,), (3, 64), (2, 3, 7), (4, 1)):
            x = values(dtype, math.prod(shape), 5).reshape(shape)
            k.result(k.builder.sort(k.load(x)))
            k.result(k.builder.sort(k.load(x // dtype.numpy.type(1 << (dtype.bits - 2)))))
        wide = values(dtype, 24, 6).reshape(4, 6)
        k.result(k.builder.sort(k.builder.permute(k.load(wide), (1, 0))))
        k.result(k.builder.sort(k.builder.flip(k.load(wide), 1)))
        k.result(k.builder.sort(k.builder.broadcast(k.load(wide[:, :1]), (4, 6))))
        k.result(k.builder.sort(k.builder.unary(Code.NOT, k.load(wide))))
        yield k.program(f"sort-{dtype}")


# ---- products, order


@family
def products() -> Iterable[Program]:
    floats = [(F32, F32), (F16, F32), (BF16, F32), (F8E4M3FN, F32), (F8E5M2, F32), (F16, F16)]
    kinds = [*floats, (F32, F64), (F64, F64), (I8, I32), (U8, I32)]
    for source, target in kinds:
        k = Kernel()
        for m, n, depth in ((16, 16, 16), (1, 1, 1), (5, 9, 7), (32, 8, 24), (3, 64, 2)):
            a = values(source, m * depth, 1, special=False).reshape(m, depth)
            c = values(source, depth * n, 2, special=False).reshape(depth, n)
            start = values(target, m * n, 3, special=False).reshape(m, n)
            if source.kind is Kind.FLOAT:
                a, c, start = (
                    np.clip(v.astype(np.float64), -9, 9).astype(v.dtype) for v in (a, c, start)
                )
            k.result(k.builder.dot(k.load(a), k.load(c), k.load(start)))
            k.result(k.builder.dot(k.load(a), k.load(c), k.number(0, target, (m, n))))
        yield k.program(f"dot-{source}-{target}")


@case
def products_of_transposed_and_batched(k: Kernel) -> None:
    b = k.builder
    a = k.load(values(F32, 60, 1, special=False).reshape(5, 12))
    a = b.select(
        b.compare(Code.LT, b.unary(Code.ABS, a), k.number(99, F32, (5, 12))),
        a,
        k.number(1, F32, (5, 12)),
    )
    k.result(b.dot(a, b.permute(a, (1, 0)), k.number(0, F32, (5, 5))))
    batch = k.load(np.arange(48).reshape(3, 4, 4).astype(np.float32))
    k.result(b.dot(batch, b.permute(batch, (0, 2, 1)), batch))


@case
def products_in_a_loop(k: Kernel) -> None:
    b = k.builder
    rng = np.random.default_rng(0)
    x = k.pointer(rng.standard_normal((16, 40)).astype(np.float32))
    y = k.pointer(rng.standard_normal((40, 8)).astype(np.float32))
    zero = k.number(0, F32, (16, 8))
    with b.for_(k.number(0), k.argument(I32, 40), k.number(8), [zero]) as loop:
        left = b.load(matrix(k, b.ptr_add(x, loop.index), (16, 8), (40, 1)))
        row = b.binary(Code.MUL, loop.index, k.number(8))
        right = b.load(matrix(k, b.ptr_add(y, row), (8, 8), (8, 1)))
        b.yield_(b.dot(left, right, loop.carried[0]))
    k.result(loop.results[0])


@case
def order(k: Kernel) -> None:
    b = k.builder
    x = k.load(values(I32, N))
    token = b.join_tokens(x, k.number(1))
    b.barrier()
    k.result(b.after(x, token))
    b.assert_(b.compare(Code.EQ, x, x), "x equals itself")  # noqa: PT009 - the builder's
    b.assert_(k.number(1, I1), "true")  # noqa: PT009 - the builder's
