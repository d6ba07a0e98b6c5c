"""Registry of hand-written programs of the tile IR, and what they are made with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
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
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    DType,
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


def exact(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    """Return numbers whose sums are exact in any order."""
    count = int(np.prod(shape))
    if not dtype.is_float:
        return values(dtype, count, seed).reshape(shape)
    numbers = np.random.default_rng(seed).integers(-4, 5, shape)
    return numbers.astype(dtype.numpy)


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
