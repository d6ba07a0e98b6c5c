"""Constants are folded where every machine gives the same bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tile_harness import Kernel, values
from tile_passes import operations

from emu.tile.ir import Value
from emu.tile.ops import Code
from emu.tile.passes import (
    DEFAULT,
    DeadCode,
    FoldConstants,
    simplify,
)
from emu.tile.types import F16, F32, F64, I1, I8, I32, U8, U64, DType
from emu.tile.verify import verify


def folded(build: Callable[[Kernel], Value]) -> object:
    """Return the number to which what is stored was folded."""
    k = Kernel()
    k.result(build(k))
    module = simplify(k.program("p").module, (FoldConstants(), DeadCode()))
    verify(module)
    (store,) = (o for o in module.kernel.body.operations if o.code is Code.STORE)
    owner = store.operands[1].owner
    assert owner is not None
    assert owner.code is Code.CONSTANT
    return owner.attributes["value"]


def test_constants_are_computed_in_their_dtype() -> None:
    def binary(code: Code, a: float, b: float, dtype: DType) -> object:
        return folded(lambda k: k.builder.binary(code, k.number(a, dtype), k.number(b, dtype)))

    assert binary(Code.ADD, 120, 10, I8) == -126
    assert binary(Code.MUL, 2**63, 2, U64) == 0
    assert binary(Code.DIV, -7, 2, I32) == -3
    assert binary(Code.SHL, 1, 40, I32) == 0
    assert binary(Code.ADD, 2048, 1, F16) == 2048.0
    assert binary(Code.DIV, 1, 3, F32) == float(np.float32(1) / np.float32(3))
    assert folded(lambda k: k.builder.cast(k.number(300, I32), U8)) == 44
    assert folded(lambda k: k.builder.compare(Code.LT, k.number(1), k.number(2))) is True
    assert folded(lambda k: k.builder.splat(k.builder.unary(Code.NEG, k.number(3)), (4, 5))) == -3


def test_what_may_differ_between_machines_is_not_folded() -> None:
    k = Kernel()
    b = k.builder
    k.result(b.unary(Code.EXP, k.number(1, F32)))
    k.result(b.binary(Code.SUB, k.number(float("inf"), F64), k.number(float("inf"), F64)))
    left = operations(k, *DEFAULT)
    assert (left[Code.EXP], left[Code.SUB]) == (1, 1)


@pytest.mark.parametrize("dtype", [I32, U8, I1, F32], ids=str)
def test_neutral_elements_are_left_out_of_integers_alone(dtype: DType) -> None:
    k = Kernel()
    b = k.builder
    x = k.load(values(dtype, 8))
    zero, one = k.number(0, dtype, (8,)), k.number(1, dtype, (8,))
    for code, other in ((Code.ADD, zero), (Code.SUB, zero), (Code.MUL, one)):
        k.result(b.binary(code, x, other))
    k.result(b.binary(Code.ADD, zero, x))
    left = operations(k, *DEFAULT)
    kept = left[Code.ADD] + left[Code.SUB] + left[Code.MUL]
    assert kept == (3 if dtype.is_float else 0)  # zero + x is x + zero


def test_masks_that_are_always_true_vanish() -> None:
    k = Kernel()
    b = k.builder
    mask = b.compare(Code.LT, b.arange(0, 8), b.splat(k.argument(I32, 5), (8,)))
    k.result(b.binary(Code.AND, mask, b.splat(k.number(1, I1), (8,))))
    k.result(b.binary(Code.OR, b.splat(k.number(0, I1), (8,)), mask))
    left = operations(k, *DEFAULT)
    assert (left[Code.AND], left[Code.OR]) == (0, 0)


def test_branches_and_loops_that_are_decided_vanish() -> None:
    k = Kernel()
    b = k.builder
    x = k.argument(I32, 4)
    never = b.compare(Code.GT, k.number(1), k.number(2))
    then, other = k.region(lambda: [b.unary(Code.NEG, x)]), k.region(lambda: [b.unary(Code.NOT, x)])
    (result,) = b.if_(never, then, other)
    with b.for_(k.number(3), k.number(3), k.number(1), [result]) as loop:
        b.yield_(b.unary(Code.ABS, loop.carried[0]))
    k.result(loop.results[0])
    b.assert_(k.number(1, I1), "holds")  # noqa: PT009 - the builder's
    left = operations(k, FoldConstants())
    gone = (Code.IF, Code.NEG, Code.FOR, Code.ABS, Code.ASSERT)
    assert [left[code] for code in gone] == [0] * 5
    assert left[Code.NOT] == 1
