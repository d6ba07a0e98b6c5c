"""Equal expressions are computed once."""

from __future__ import annotations

import numpy as np
from tile_harness import Kernel
from tile_passes import operations

from emu.tile.ir import Value
from emu.tile.ops import Code
from emu.tile.passes import (
    CommonSubexpressions,
)
from emu.tile.types import F32, I1, I8, I32


def test_equal_expressions_are_computed_once() -> None:
    k = Kernel()
    b = k.builder
    x, y = k.argument(F32, 1.5), k.argument(F32, 2.5)
    k.result(b.unary(Code.EXP, b.binary(Code.ADD, x, y)))
    k.result(b.unary(Code.EXP, b.binary(Code.ADD, y, x)))
    k.result(b.binary(Code.SUB, x, y))
    k.result(b.binary(Code.SUB, y, x))
    left = operations(k, CommonSubexpressions())
    assert (left[Code.EXP], left[Code.ADD], left[Code.SUB]) == (1, 1, 2)


def test_constants_that_compare_equal_are_not_one() -> None:
    k = Kernel()
    for number in (0.0, -0.0, 0.0):
        k.result(k.number(number, F32))
    for number in (1, True):
        k.result(k.number(number))
    for number in (1, 1):
        k.result(k.number(number, I8))
    assert operations(k, CommonSubexpressions())[Code.CONSTANT] == 5


def test_expressions_are_known_in_nested_regions_and_not_outside() -> None:
    k = Kernel()
    b = k.builder
    x = k.argument(I32, 5)

    def negative() -> list[Value]:
        return [b.unary(Code.NEG, x)]

    (inside,) = b.if_(k.argument(I1, 1), k.region(negative), k.region(negative))
    k.result(inside)
    assert operations(k, CommonSubexpressions())[Code.NEG] == 2
    k = Kernel()
    b = k.builder
    x = k.argument(I32, 5)
    k.result(negative()[0])
    (inside,) = b.if_(k.argument(I1, 1), k.region(negative), k.region(negative))
    k.result(inside)
    assert operations(k, CommonSubexpressions())[Code.NEG] == 1


def test_loads_are_not_merged() -> None:
    k = Kernel()
    b = k.builder
    x = k.pointer(np.ones(1, np.int32))
    k.result(b.load(x))
    b.store(x, k.number(2))
    k.result(b.load(x))
    assert operations(k, CommonSubexpressions())[Code.LOAD] == 2
