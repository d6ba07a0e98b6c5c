"""Programs that compute: constants, shapes, arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import numpy as np
from tile_case_registry import EXACT, FAMILIES, INTEGERS, N, case, exact, family, nonzero
from tile_harness import Kernel, Program, values

from emu.tile import ops
from emu.tile.ir import Value
from emu.tile.ops import Code
from emu.tile.types import (
    BF16,
    DTYPES,
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
    U32,
    U64,
    DType,
    Pointer,
)

# ---- values from nothing


@case
def vector_add(k: Kernel) -> tuple[int, int, int]:
    b, n, block = k.builder, 1000, 128
    x, y = (k.pointer(values(F32, n, s, special=False)) for s in (1, 2))
    out = k.pointer(np.zeros(n, np.float32))
    count = k.argument(I32, n)
    start = b.binary(Code.MUL, b.program_id(0), k.number(block))
    offsets = b.binary(Code.ADD, b.splat(start, (block,)), b.arange(0, block))
    mask = b.compare(Code.LT, offsets, b.splat(count, (block,)))

    def at(pointer: Value) -> Value:
        return b.ptr_add(b.splat(pointer, (block,)), offsets)

    total = b.binary(Code.ADD, b.load(at(x), mask), b.load(at(y), mask))
    b.store(at(out), total, mask)
    return (8, 1, 1)


@case
def constants(k: Kernel) -> None:
    for dtype in DTYPES.values():
        numbers: list[float] = [0, 1]
        if dtype.is_float:
            numbers += [0.1, -1e30, float("inf"), float("nan"), 1 / 3]
        elif dtype.is_integer:
            numbers += [int(np.iinfo(dtype.numpy).min), int(np.iinfo(dtype.numpy).max)]
        for number in numbers:
            k.result(k.number(number, dtype))
            k.result(k.number(number, dtype, (5,)))


@case
def program_numbers(k: Kernel) -> tuple[int, int, int]:
    b = k.builder
    out = k.pointer(np.zeros((4, 3, 2, 6), np.int32))
    numbers = [b.program_id(a) for a in range(3)] + [b.num_programs(a) for a in range(3)]
    place = numbers[2]
    for axis in (1, 0):
        place = b.binary(Code.ADD, b.binary(Code.MUL, place, numbers[3 + axis]), numbers[axis])
    place = b.binary(Code.MUL, place, k.number(6))
    for i, number in enumerate(numbers):
        b.store(b.ptr_add(out, b.binary(Code.ADD, place, k.number(i))), number)
    return (2, 3, 4)


@case
def aranges(k: Kernel) -> None:
    for start, end in ((0, 1), (0, 8), (5, 42), (-3, 3)):
        k.result(k.builder.arange(start, end))


@case
def scalar_arguments(k: Kernel) -> None:
    numbers: dict[DType, float] = {I1: 1, F32: 1.5, F64: 0.1, I64: -(2**62), U64: 2**64 - 1}
    for dtype in (I1, *INTEGERS, F32, F64):
        number = numbers.get(dtype, -7 if dtype.is_signed else 200)
        x = k.argument(dtype, number)
        k.result(x)
        k.result(k.builder.splat(x, (3, 5)))


# ---- shape


@case
def shapes(k: Kernel) -> None:
    b = k.builder
    x = k.load(values(I32, 24).reshape(2, 3, 4))
    k.result(b.reshape(x, (4, 6)))
    k.result(b.reshape(x, (24,)))
    for order in ((0, 2, 1), (2, 1, 0), (1, 2, 0), (1, 0, 2)):
        k.result(b.permute(x, order))
    k.result(b.reshape(b.permute(x, (2, 0, 1)), (3, 8)))
    for axis in range(3):
        k.result(b.flip(x, axis))
        k.result(b.cat(x, b.flip(x, axis), axis))
    row = k.load(values(F32, 5).reshape(1, 5, 1))
    k.result(b.broadcast(row, (3, 5, 4)))
    k.result(b.broadcast(k.load(values(I8, 7).reshape(7, 1)), (7, 9)))
    k.result(b.broadcast(k.load(values(I8, 1).reshape(1, 1)), (2, 3)))


@case
def views_of_what_was_moved(k: Kernel) -> None:
    b = k.builder
    moved = b.reshape(b.arange(0, 24), (4, 6))
    k.result(b.reshape(moved, (24,)))
    k.result(b.reshape(b.permute(moved, (1, 0)), (3, 8)))
    k.result(b.reshape(b.reshape(moved, (4, 1, 6)), (2, 12)))
    x = b.reshape(k.load(values(F16, 24)), (2, 3, 4))
    k.result(b.reshape(b.permute(x, (2, 1, 0)), (2, 12)))
    joined = b.cat(x, b.flip(x, 2), 1)
    k.result(b.reshape(joined, (4, 12)))
    k.result(b.cat(b.permute(joined, (0, 2, 1)), b.reshape(joined, (2, 4, 6)), 2))
    for part in b.split(b.reshape(joined, (6, 4, 2))):
        k.result(b.reshape(part, (8, 3)))
    a = b.reshape(k.load(exact(F32, (2, 48))), (8, 12))
    wide = b.cat(a, a, 1)
    k.result(
        b.dot(b.reshape(wide, (12, 16)), b.reshape(wide, (16, 12)), k.number(0, F32, (12, 12)))
    )


@case
def joins_and_splits(k: Kernel) -> None:
    b = k.builder
    x, y = k.load(values(F16, 12, 1).reshape(3, 4)), k.load(values(F16, 12, 2).reshape(3, 4))
    joined = b.join(x, y)
    k.result(joined)
    k.result(b.reshape(joined, (3, 8)))
    first, second = b.split(b.reshape(x, (6, 2)))
    k.result(first)
    k.result(second)
    for part in b.split(b.join(k.number(3), k.number(4))):
        k.result(part)


@case
def gathers(k: Kernel) -> None:
    b = k.builder
    x = k.load(values(F32, 35).reshape(5, 7))
    for axis, shape, dtype in ((0, (3, 7), I32), (1, (5, 11), I64), (0, (9, 7), U8)):
        rng = np.random.default_rng(axis)
        index = rng.integers(0, (5, 7)[axis], shape).astype(dtype.numpy)
        k.result(b.gather(x, k.load(index), axis))
    k.result(b.gather(b.arange(10, 15), k.load(np.array([4, 0, 2], np.int32)), 0))


# ---- element by element


@family
def unary() -> Iterable[Program]:
    for code, (name, dtypes) in product(sorted(ops.UNARY), FAMILIES.items()):
        allowed = [d for d in dtypes if _unary_takes(code, d)]
        if not allowed:
            continue
        k = Kernel()
        for dtype in allowed:
            inexact = code not in EXACT
            x = values(dtype, N)
            if code in (Code.SIN, Code.COS, Code.TAN):
                x = np.clip(values(dtype, N, special=False).astype(np.float64), -99, 99)
                x = x.astype(dtype.numpy)
            k.result(k.builder.unary(code, k.load(x)), inexact=inexact)
            k.result(k.builder.unary(code, k.number(1, dtype)), inexact=inexact)
        yield k.program(f"{code.name.lower()}-{name}")


def _unary_takes(code: Code, dtype: DType) -> bool:
    if code in ops.FLOAT_UNARY:
        return dtype.is_float
    return not (dtype.is_float and code is Code.NOT) and not (dtype == I1 and code is not Code.NOT)


@family
def binary() -> Iterable[Program]:
    for code, (name, dtypes) in product(sorted(ops.BINARY), FAMILIES.items()):
        if (code in ops.BITWISE and name != "int") or (code in ops.FLOAT_BINARY and name == "int"):
            continue
        k = Kernel()
        for dtype in dtypes:
            if dtype == I1 and code in (Code.DIV, Code.REM, Code.SHL, Code.SHR, Code.MULHI):
                continue
            x, y = values(dtype, N, 1), values(dtype, N, 2)
            if code in (Code.DIV, Code.REM) and not dtype.is_float:
                y = nonzero(y)
            if code in (Code.SHL, Code.SHR):
                y = np.where(np.arange(N) % 3 > 0, (np.arange(N) % dtype.bits).astype(y.dtype), y)
            inexact = code in ops.FLOAT_BINARY
            for attributes in _attributes(code):
                value = k.builder.binary(code, k.load(x), k.load(y), **attributes)
                k.result(value, inexact=inexact)
            first, second = k.number(1, dtype), k.number(1, dtype)
            k.result(k.builder.binary(code, first, second), inexact=inexact)
        yield k.program(f"{code.name.lower()}-{name}")


def _attributes(code: Code) -> list[dict[str, bool]]:
    if code not in (Code.MIN, Code.MAX):
        return [{}]
    return [{}, {"propagate_nan": False}, {"propagate_nan": True}]


@case
def integer_division_by_zero_does_not_trap(k: Kernel) -> None:
    for dtype, code in product(INTEGERS, (Code.DIV, Code.REM)):
        x, y = k.load(values(dtype, N)), k.load(np.zeros(N, dtype.numpy))
        k.result(k.builder.binary(code, x, y), ignored=True)
        one, zero = k.argument(dtype, 1), k.argument(dtype, 0)
        k.result(k.builder.binary(code, one, zero), ignored=True)


@family
def comparisons() -> Iterable[Program]:
    for code, (name, dtypes) in product(sorted(ops.COMPARISONS), FAMILIES.items()):
        k = Kernel()
        for dtype in dtypes:
            x, y = values(dtype, N, 1), values(dtype, N, 2)
            y = np.where(np.arange(N) % 4 == 0, x, y)
            k.result(k.builder.compare(code, k.load(x), k.load(y)))
            k.result(k.builder.compare(code, k.number(0, dtype), k.number(1, dtype)))
        yield k.program(f"{code.name.lower()}-{name}")


@case
def comparisons_of_pointers(k: Kernel) -> None:
    b = k.builder
    pointer = k.pointer(values(F32, 8))
    tile = k.addresses(pointer, (8,))
    other = k.addresses(b.ptr_add(pointer, k.number(3)), (8,))
    for code in sorted(ops.COMPARISONS):
        k.result(b.compare(code, tile, b.flip(tile, 0)))
        k.result(b.compare(code, tile, other))


@family
def selects() -> Iterable[Program]:
    for name, dtypes in FAMILIES.items():
        k = Kernel()
        for dtype in dtypes:
            condition = k.load(values(I1, N))
            x, y = k.load(values(dtype, N, 1)), k.load(values(dtype, N, 2))
            k.result(k.builder.select(condition, x, y))
            truth = k.argument(I1, 1)
            k.result(k.builder.select(truth, k.number(1, dtype), k.number(0, dtype)))
        yield k.program(f"select-{name}")


@family
def fused_multiply_add() -> Iterable[Program]:
    for name in ("float", "narrow"):
        k = Kernel()
        for dtype in FAMILIES[name]:
            x, y, z = (k.load(values(dtype, N, s)) for s in (1, 2, 3))
            k.result(k.builder.fma(x, y, z))
            product_ = k.builder.binary(Code.MUL, x, y)
            k.result(k.builder.fma(x, y, k.builder.unary(Code.NEG, product_)))
        yield k.program(f"fma-{name}")


@family
def casts() -> Iterable[Program]:
    for source in DTYPES.values():
        k = Kernel()
        for target in DTYPES.values():
            if target == source:
                continue
            x = k.load(values(source, 96))
            k.result(k.builder.cast(x, target))
            k.result(k.builder.cast(k.number(1, source), target))
            if source.is_float and target.is_float and target.bits < source.bits:
                k.result(k.builder.cast(x, target, "rtz"))
        yield k.program(f"cast-{source}")


@case
def casts_that_round_once(k: Kernel) -> None:
    near = [1 + 2**-8 + 2**-40, 1 + 2**-8 - 2**-40, 1 + 2**-11 + 2**-40, 1 + 2**-11 - 2**-40]
    near += [1 + 2**-4 + 2**-40, 1 + 2**-3 - 2**-40, 2**-25 + 2**-60, 65519.999999999, 65520.0]
    x = k.load(np.array(near + [-v for v in near]))
    for dtype in (F16, BF16, F8E4M3FN, F8E5M2, F32):
        k.result(k.builder.cast(x, dtype))
        k.result(k.builder.cast(x, dtype, "rtz"))
    whole = [2**24 + 1, 2**53 + 1, 2**60 + 2**52 + 1, 2**60 + 2**52, 2**62 + 2**38 + 1, 2**63 - 1]
    y = k.load(np.array(whole + [-v for v in whole], np.int64))
    for dtype in (F16, BF16, F32, F64):
        k.result(k.builder.cast(y, dtype))
        k.result(k.builder.cast(k.builder.bitcast(y, U64), dtype))


@family
def bitcasts() -> Iterable[Program]:
    for source in DTYPES.values():
        k = Kernel()
        for target in DTYPES.values():
            if target != source and target.bits == source.bits:
                k.result(k.builder.bitcast(k.load(values(source, N, special=False)), target))
        if len(k.given):
            yield k.program(f"bitcast-{source}")


@case
def casts_of_pointers(k: Kernel) -> None:
    b = k.builder
    pointer = k.pointer(values(I32, 8))
    tile = k.addresses(pointer, (8,))
    for integer in (I64, U64):
        there = b.cast(tile, integer)
        four = k.number(4, integer, (8,))
        first = b.splat(b.cast(pointer, integer), (8,))
        k.result(b.binary(Code.DIV, b.binary(Code.SUB, there, first), four))
        k.result(b.load(b.cast(b.cast(there, Pointer(F32)), Pointer(I32))))
    k.result(b.load(b.bitcast(tile, Pointer(U32))))
