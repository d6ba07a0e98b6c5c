"""Hand-written programs of the tile IR: each operation at least once, over its dtypes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import numpy as np
from tile_harness import Kernel, Program, values

from emu.tile import ops
from emu.tile.ir import Value
from emu.tile.ops import Code, Rmw
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
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    DType,
    Kind,
    Pointer,
)

N = 37
"""Elements of most tiles: not a power of two, more than two vectors of most dtypes."""

INTEGERS = (I8, I16, I32, I64, U8, U16, U32, U64)
FAMILIES: dict[str, tuple[DType, ...]] = {
    "int": (*INTEGERS, I1),
    "float": (F32, F64),
    "narrow": (F16, BF16, F8E4M3FN, F8E5M2),
}
EXACT = {Code.SQRT, Code.FLOOR, Code.CEIL, Code.TRUNC, Code.RINT, Code.NEG, Code.ABS, Code.NOT}
MAKERS: list[Callable[[], Iterable[Program]]] = []


def case(make: Callable[..., Any]) -> Callable[..., Any]:
    """Register a function that builds one kernel; its name is the case's."""

    def one() -> Iterable[Program]:
        kernel = Kernel()
        grid = make(kernel)
        yield kernel.program(make.__name__, grid or (1, 1, 1))

    MAKERS.append(one)
    return make


def family(make: Callable[[], Iterable[Program]]) -> Callable[[], Iterable[Program]]:
    """Register a generator of programs."""
    MAKERS.append(make)
    return make


def nonzero(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the elements with 1 in place of 0."""
    return np.where(x == 0, np.ones((), x.dtype), x).astype(x.dtype)


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


def matrix(k: Kernel, pointer: Value, shape: tuple[int, int], strides: tuple[int, int]) -> Value:
    """Pointers to a matrix with strides."""
    b = k.builder
    rows = b.broadcast(b.reshape(b.arange(0, shape[0]), (shape[0], 1)), shape)
    columns = b.broadcast(b.reshape(b.arange(0, shape[1]), (1, shape[1])), shape)
    steps = [k.number(s, I32, shape) for s in strides]
    offset = b.binary(
        Code.ADD, b.binary(Code.MUL, rows, steps[0]), b.binary(Code.MUL, columns, steps[1])
    )
    return b.ptr_add(b.splat(pointer, shape), offset)


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


# ---- along an axis

COMBINING = {
    "sum": (Code.ADD, (I32, I64, U8, F32, F64, F16)),
    "max": (Code.MAX, (I32, U32, F32, F64, BF16)),
    "min": (Code.MIN, (I8, U64, F32, F16)),
    "xor": (Code.XOR, (I32, I1)),
    "or": (Code.OR, (I1, I64)),
    "product": (Code.MUL, (I32, U64)),
}


def exact(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    """Return numbers whose sums are exact in any order."""
    count = int(np.prod(shape))
    if not dtype.is_float:
        return values(dtype, count, seed).reshape(shape)
    numbers = np.random.default_rng(seed).integers(-4, 5, shape)
    return numbers.astype(dtype.numpy)


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
    b.assert_(b.compare(Code.EQ, x, x), "x equals itself")  # noqa: PT009
    b.assert_(k.number(1, I1), "true")  # noqa: PT009


CASES: list[Program] = [program for make in MAKERS for program in make()]
"""Every program."""
