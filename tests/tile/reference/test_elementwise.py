"""What element-wise operations give where that is more than NumPy says: wrapping, NaN, order, single rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tile_evaluation import cast, evaluate, same
from tile_harness import Kernel

from emu.tile.ops import Code
from emu.tile.reference.rounding import to_float
from emu.tile.types import (
    BF16,
    F8E4M3FN,
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

NAN, INF = math.nan, math.inf


def binary(
    code: Code, a: Sequence[float], b: Sequence[float], dtype: DType, **more: Any
) -> list[Any]:
    return evaluate(lambda f, x, y: f.binary(code, x, y, **more), (a, dtype), (b, dtype))


@pytest.mark.parametrize("dtype", [I8, I16, I32, I64, U8, U16, U32, U64], ids=str)
def test_integers_wrap(dtype: DType) -> None:
    top = int(np.iinfo(dtype.numpy).max)
    low = int(np.iinfo(dtype.numpy).min)
    assert binary(Code.ADD, [top], [1], dtype) == [low]
    assert binary(Code.SUB, [low], [1], dtype) == [top]
    assert binary(Code.MUL, [top], [2], dtype) == [-2 if dtype.is_signed else top - 1]
    wrapped = evaluate(lambda f, x: f.unary(Code.NEG, x), ([low, 1], dtype))
    assert wrapped == [low, -1 if dtype.is_signed else top]
    assert evaluate(lambda f, x: f.unary(Code.ABS, x), ([low, top], dtype)) == [low, top]


@pytest.mark.parametrize("dtype", [I8, I32, I64], ids=str)
def test_signed_division_is_towards_zero_and_never_traps(dtype: DType) -> None:
    low = int(np.iinfo(dtype.numpy).min)
    a, b = [7, -7, 7, -7, 5, low, -1], [2, 2, -2, -2, 0, -1, 3]
    assert binary(Code.DIV, a, b, dtype) == [3, -3, -3, 3, 0, low, 0]
    assert binary(Code.REM, a, b, dtype) == [1, -1, 1, -1, 5, 0, -1]


def test_unsigned_division_is_of_unsigned_numbers() -> None:
    top = 2**64 - 1
    assert binary(Code.DIV, [top, top, 9], [2, top, 0], U64) == [2**63 - 1, 1, 0]
    assert binary(Code.REM, [top, 9, 9], [10, 4, 0], U64) == [top % 10, 1, 9]


@pytest.mark.parametrize("dtype", [I8, I16, I32, I64], ids=str)
def test_shifts_by_the_width_or_more_shift_everything_out(dtype: DType) -> None:
    n = dtype.bits
    low = int(np.iinfo(dtype.numpy).min)
    assert binary(Code.SHL, [1, 1, 1, 1, 3], [0, n - 1, n, -1, 1], dtype) == [1, low, 0, 0, 6]
    assert binary(Code.SHR, [-8, -8, -8, 8, 8], [1, n, -1, n, 2], dtype) == [-4, -1, -1, 0, 2]


def test_shifts_of_unsigned_numbers_are_logical() -> None:
    assert binary(Code.SHR, [200, 200, 200], [1, 8, 255], U8) == [100, 0, 0]
    assert binary(Code.SHL, [200, 200, 200], [1, 8, 255], U8) == [144, 0, 0]


@given(st.data())
def test_upper_halves_of_products(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([I8, U16, I32, U32, I64, U64]))
    info = np.iinfo(dtype.numpy)
    a, b = (data.draw(st.integers(int(info.min), int(info.max))) for _ in range(2))
    assert binary(Code.MULHI, [a], [b], dtype) == [(a * b) >> dtype.bits]


def test_arithmetic_of_truth_values() -> None:
    a, b = [0, 0, 1, 1], [0, 1, 0, 1]
    for code, wanted in {
        Code.ADD: [0, 1, 1, 0],
        Code.SUB: [0, 1, 1, 0],
        Code.MUL: [0, 0, 0, 1],
        Code.MIN: [0, 0, 0, 1],
        Code.MAX: [0, 1, 1, 1],
        Code.XOR: [0, 1, 1, 0],
    }.items():
        assert binary(code, a, b, I1) == wanted
    below = evaluate(lambda f, x, y: f.compare(Code.LT, x, y), (a, I1), (b, I1))
    assert below == [False, True, False, False]
    assert evaluate(lambda f, x: f.unary(Code.NOT, x), (b, I1)) == [True, False, True, False]


def test_whatever_is_not_zero_is_true() -> None:
    assert cast([0.0, -0.0, 0.25, NAN, INF, 5e-324], F64, I1) == [
        False,
        False,
        True,
        True,
        True,
        True,
    ]
    assert cast([0, 256, -1], I32, I1) == [False, True, True]
    assert cast([0, 1], I1, I32) == [0, 1]
    same(cast([0, 1], I1, F16), [0, 1])


def test_integers_are_cut_and_extended() -> None:
    assert cast([300, -1, 128], I32, I8) == [44, -1, -128]
    assert cast([-1], I8, U32) == [2**32 - 1]
    assert cast([255], U8, I32) == [255]
    assert cast([2**63], U64, I64) == [-(2**63)]


def test_bits_are_kept() -> None:
    bits = evaluate(lambda f, x: f.bitcast(x, I32), ([1.0, -0.0, INF], F32))
    assert bits == [0x3F800000, -(2**31), 0x7F800000]
    same(evaluate(lambda f, x: f.bitcast(x, BF16), ([0x3F80, 0xC000], U16)), [1, -2])


def test_narrow_floats_are_rounded_after_each_operation() -> None:
    same(binary(Code.ADD, [2048, 1], [1, 2**-11], F16), [2048, 1])
    same(binary(Code.ADD, [256, 1], [1, 2**-8], BF16), [256, 1])
    same(binary(Code.MUL, [300, 448], [300, 1], F16), [INF, 448])
    same(binary(Code.ADD, [448, 16], [448, 1], F8E4M3FN), [NAN, 16])
    same(binary(Code.DIV, [1], [3], BF16), [0.333984375])


def test_extrema_of_nan() -> None:
    a, b = [NAN, 1, NAN, 2], [1, NAN, NAN, 3]
    for dtype in (F16, BF16, F32, F64):
        same(binary(Code.MAX, a, b, dtype), [1, 1, NAN, 3])
        same(binary(Code.MIN, a, b, dtype, propagate_nan=False), [1, 1, NAN, 2])
        same(binary(Code.MAX, a, b, dtype, propagate_nan=True), [NAN, NAN, NAN, 3])
        same(binary(Code.MIN, a, b, dtype, propagate_nan=True), [NAN, NAN, NAN, 2])


def test_comparisons_with_nan_are_false_but_for_unequal() -> None:
    for code in (Code.EQ, Code.LT, Code.LE, Code.GT, Code.GE, Code.NE):
        got = evaluate(
            lambda f, x, y, c=code: f.compare(c, x, y), ([NAN, NAN], F32), ([NAN, 1], F32)
        )
        assert got == [code is Code.NE] * 2


def test_remainders_have_the_sign_of_the_dividend() -> None:
    same(binary(Code.REM, [5.5, -5.5, 5, 1], [2, 2, -3, INF], F32), [1.5, -1.5, 2, 1])
    same(binary(Code.REM, [1, INF], [0, 1], F64), [NAN, NAN])


def test_ties_are_rounded_to_even() -> None:
    same(
        evaluate(lambda f, x: f.unary(Code.RINT, x), ([0.5, 1.5, 2.5, -0.5], F32)), [0, 2, 2, -0.0]
    )


def test_constants_are_rounded_to_their_dtype() -> None:
    k = Kernel()
    for dtype in (F16, BF16, F8E4M3FN, F32):
        k.result(k.number(1 / 3, dtype))
    got = [float(r[0]) for r in k.program("p").run_reference()]
    same(got, [float(to_float(np.array(1 / 3), d)) for d in (F16, BF16, F8E4M3FN, F32)])
    same(got, [0.333251953125, 0.333984375, 0.34375, 0.3333333432674408])
