"""Values of arithmetic, comparisons, bits and choices, against NumPy's formulas."""

from __future__ import annotations

import operator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from language_harness import DTYPES, Pointer, Scalar, emit, evaluate, value

import emu.triton.language as tl

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["fp16", "bf16", "fp32", "fp64"]
SIZE = 64


def sample(name: str, seed: int, low: int = -100) -> Any:
    """Numbers of a dtype, some of them its extremes; floats with few digits."""
    rng = np.random.default_rng(seed)
    dtype = DTYPES[name]
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        some = rng.integers(limits.min, limits.max, SIZE, dtype, endpoint=True)
        some[:4] = limits.min, limits.max, 0, 1
        return some
    if dtype.kind == "b":
        return rng.integers(0, 2, SIZE).astype(bool)
    return (rng.integers(low, 100, SIZE) / 8).astype(dtype)


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.mul])
def test_integers_wrap(name: str, operation: Any) -> None:
    a, b = sample(name, 0), sample(name, 1)
    with np.errstate(over="ignore"):
        wanted = operation(a, b)
    np.testing.assert_array_equal(evaluate(operation, a, b), wanted)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.mul])
def test_floats_round_to_their_dtype(name: str, operation: Any) -> None:
    a, b = sample(name, 0), sample(name, 1)
    wide = np.float64 if name == "fp64" else np.float32
    wanted = operation(a.astype(wide), b.astype(wide)).astype(a.dtype)
    got = evaluate(operation, a, b)
    assert got.dtype == a.dtype
    np.testing.assert_array_equal(got, wanted)


def test_int1_arithmetic_wraps_in_one_bit() -> None:
    a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    np.testing.assert_array_equal(evaluate(operator.add, a, b), a ^ b)
    np.testing.assert_array_equal(evaluate(operator.sub, a, b), a ^ b)
    np.testing.assert_array_equal(evaluate(operator.mul, a, b), a & b)
    np.testing.assert_array_equal(evaluate(operator.neg, a), a)
    np.testing.assert_array_equal(evaluate(operator.invert, a), ~a)
    np.testing.assert_array_equal(evaluate(operator.lshift, a, b), a & ~b)
    np.testing.assert_array_equal(evaluate(operator.rshift, a, b), a & ~b)
    np.testing.assert_array_equal(evaluate(operator.lt, a, b), ~a & b)


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_division_is_that_of_c(name: str) -> None:
    a, b = sample(name, 2), sample(name, 3)
    b[b == 0] = 3
    a[0], b[0] = 100, 7
    exact = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    quotients = [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in exact]
    bits = DTYPES[name].itemsize * 8
    wrapped = np.array([q % 2**bits for q in quotients], f"u{bits // 8}").view(a.dtype)
    np.testing.assert_array_equal(evaluate(operator.floordiv, a, b), wrapped)
    rest = np.array([x - q * y for (x, y), q in zip(exact, quotients, strict=True)], a.dtype)
    np.testing.assert_array_equal(evaluate(operator.mod, a, b), rest)
    ratio = a.astype(np.float32) / b.astype(np.float32)
    np.testing.assert_array_equal(evaluate(operator.truediv, a, b), ratio)


def test_a_negative_number_divides_toward_zero_too() -> None:
    a = np.array([-7, 7, -8, 8], np.int32)
    np.testing.assert_array_equal(evaluate(lambda x: x // 2, a), [-3, 3, -4, 4])
    np.testing.assert_array_equal(evaluate(lambda x: x % 3, a), [-1, 1, -2, 2])
    np.testing.assert_array_equal(evaluate(lambda x: -7 // x, a), [1, -1, 0, 0])


def test_constexprs_divide_as_python_does() -> None:
    result, _ = emit(lambda: tl.constexpr(-7) // 2)
    assert result.value == -4
    assert (tl.constexpr(-7) % 3).value == 2


@pytest.mark.parametrize("name", FLOATS)
def test_remainders_of_floats_have_the_sign_of_the_dividend(name: str) -> None:
    a, b = sample(name, 4), sample(name, 5, 1)
    b[b == 0] = 1
    wide = np.float64 if name == "fp64" else np.float32
    got = evaluate(operator.mod, a, b)
    assert got.dtype == wide
    np.testing.assert_array_equal(got, np.fmod(a.astype(wide), b.astype(wide)))
    np.testing.assert_array_equal(evaluate(operator.truediv, a, b), a.astype(wide) / b.astype(wide))


@pytest.mark.parametrize("name", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("operation", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_comparisons(name: str, operation: str) -> None:
    a, b = sample(name, 6), sample(name, 7)
    b[:20] = a[:20]
    compare = getattr(operator, operation)
    np.testing.assert_array_equal(evaluate(compare, a, b), compare(a, b))


def test_nan_is_unequal_to_all_and_not_less_or_more() -> None:
    a = np.array([np.nan, 1, np.nan, 2], np.float32)
    b = np.array([np.nan, np.nan, 1, 2], np.float32)
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        compare = getattr(operator, name)
        np.testing.assert_array_equal(evaluate(compare, a, b), compare(a, b))


@pytest.mark.parametrize("name", INTEGERS)
def test_bits(name: str) -> None:
    a, b = sample(name, 8), sample(name, 9)
    for operation in (operator.and_, operator.or_, operator.xor):
        np.testing.assert_array_equal(evaluate(operation, a, b), operation(a, b))
    np.testing.assert_array_equal(evaluate(operator.invert, a), ~a)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(evaluate(operator.neg, a), -a)
    by = (np.arange(SIZE) % (a.itemsize * 8)).astype(a.dtype)
    np.testing.assert_array_equal(evaluate(operator.lshift, a, by), a << by)
    np.testing.assert_array_equal(evaluate(operator.rshift, a, by), a >> by)


def test_the_left_operand_says_whether_sign_bits_are_shifted_in() -> None:
    a, by = np.array([-8, -16], np.int32), np.array([1, 2], np.uint32)
    shifted = evaluate(operator.rshift, a, by)
    assert shifted.dtype == np.uint32  # the common dtype
    np.testing.assert_array_equal(shifted.view(np.int32), [-4, -4])
    a8, by32 = np.array([0x80, 0xFF], np.uint8), np.array([1, 2], np.int32)
    np.testing.assert_array_equal(evaluate(operator.rshift, a8, by32), [0x40, 0x3F])


def test_numbers_on_the_left() -> None:
    x = np.array([1, 2, 4, 8], np.int32)
    for operation in (
        *(operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod),
        *(operator.and_, operator.or_, operator.xor, operator.lshift, operator.lt, operator.ge),
    ):
        for wrap in (int, tl.constexpr):
            got = evaluate(lambda t, o=operation, w=wrap: o(w(13), t), x)
            np.testing.assert_array_equal(got, operation(13, x))
    np.testing.assert_array_equal(evaluate(lambda t: 1024 >> t, x), 1024 >> x)
    np.testing.assert_array_equal(evaluate(lambda t: 1 / t, x), np.float32(1) / x)


def test_scalars_and_shapes_broadcast() -> None:
    a = np.arange(4, dtype=np.float32).reshape(4, 1)
    b = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(evaluate(operator.add, a, b), a + b)
    np.testing.assert_array_equal(evaluate(operator.mul, Scalar(3, "int32"), b), 3 * b)
    assert evaluate(operator.add, Scalar(3, "int32"), 4) == 7


def test_shapes_that_do_not_fit_are_named() -> None:
    with pytest.raises(
        ValueError, match=r"cannot add fp32\[64\] and int32\[32\]: cannot broadcast"
    ):
        emit(operator.add, value("fp32", (64,)), value("int32", (32,)))


def test_minimum_and_maximum_treat_nan_as_asked() -> None:
    a = np.array([1, np.nan, 3, np.nan], np.float32)
    b = np.array([2, 2, np.nan, np.nan], np.float32)
    np.testing.assert_array_equal(evaluate(tl.minimum, a, b), np.fmin(a, b))
    np.testing.assert_array_equal(evaluate(tl.maximum, a, b), np.fmax(a, b))
    every = tl.PropagateNan.ALL
    got = evaluate(lambda x, y: tl.minimum(x, y, propagate_nan=every), a, b)
    np.testing.assert_array_equal(got, np.minimum(a, b))
    got = evaluate(lambda x, y: tl.maximum(x, y, propagate_nan=every), a, b)
    np.testing.assert_array_equal(got, np.maximum(a, b))
    with pytest.raises(ValueError, match="propagate_nan must be"):
        emit(lambda x: tl.maximum(x, x, propagate_nan=7), value("fp32"))


@pytest.mark.parametrize("name", INTEGERS)
def test_minimum_and_maximum_of_integers(name: str) -> None:
    a, b = sample(name, 10), sample(name, 11)
    np.testing.assert_array_equal(evaluate(tl.minimum, a, b), np.minimum(a, b))
    np.testing.assert_array_equal(evaluate(tl.maximum, a, b), np.maximum(a, b))


def test_clamp() -> None:
    x = np.array([-3, -1, 0.5, np.nan, 9, 2, 1, 0], np.float32)
    got = evaluate(lambda t: tl.clamp(t, -1.0, 2.0), x)
    np.testing.assert_array_equal(got, [-1, -1, 0.5, -1, 2, 2, 1, 0])
    got = evaluate(lambda t: tl.clamp(t, -1.0, 2.0, propagate_nan=tl.PropagateNan.ALL), x)
    np.testing.assert_array_equal(got, [-1, -1, 0.5, np.nan, 2, 2, 1, 0])
    i = np.array([-3, 3, 99, 7], np.int32)
    np.testing.assert_array_equal(evaluate(lambda t: tl.clamp(t, 0, 7), i), [0, 3, 7, 7])


def test_where_promotes_and_broadcasts() -> None:
    c = np.array([[True], [False]])
    x, y = np.arange(4, dtype=np.float16), Scalar(-1, "int32")
    got = evaluate(tl.where, c, x, y)
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, [[0, 1, 2, 3], [-1, -1, -1, -1]])
    np.testing.assert_array_equal(evaluate(lambda m: tl.where(m, 1, 2.5), c), [[1], [2.5]])


def test_where_takes_numbers_as_conditions() -> None:
    with pytest.warns(UserWarning, match="compare it with 0"):
        got = evaluate(lambda m: tl.where(m, 1, 2), np.array([0, 3, -1, 0], np.int32))
    np.testing.assert_array_equal(got, [2, 1, 1, 2])


def test_fma_rounds_once() -> None:
    a = np.array([1 + 2**-12, 1], np.float32)
    got = evaluate(lambda x: tl.fma(x, x, -1.0), a)
    wanted = (a.astype(np.float64) ** 2 - 1).astype(np.float32)
    np.testing.assert_array_equal(got, wanted)
    assert got[0] != a[0] * a[0] - np.float32(1)


def test_logical_operators_take_conditions() -> None:
    a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    np.testing.assert_array_equal(evaluate(lambda x, y: x.logical_and(y), a, b), a & b)
    np.testing.assert_array_equal(evaluate(lambda x, y: x.logical_or(y), a, b), a | b)
    np.testing.assert_array_equal(evaluate(lambda x: x.__not__(), a), ~a)
    with pytest.raises(TypeError, match="conditions of int1, but got int32"):
        emit(lambda x: x.logical_and(True), value("int32"))


def test_a_tensor_is_no_python_condition() -> None:
    with pytest.raises(TypeError, match="known at compile time"):
        bool(value("int1"))


def test_division_functions() -> None:
    a, b = sample("fp32", 12), sample("fp32", 13, 1)
    b[b == 0] = 2
    np.testing.assert_array_equal(evaluate(tl.div_rn, a, b), a / b)
    np.testing.assert_array_equal(evaluate(tl.fdiv, a, b), a / b)
    got = evaluate(tl.fdiv, a.astype(np.float16), b.astype(np.float16))
    np.testing.assert_array_equal(got, a / b)
    with pytest.raises(TypeError, match="fdiv needs floating-point"):
        emit(tl.fdiv, value("int32"), 3)
    with pytest.raises(ValueError, match="must not both be true"):
        emit(lambda x: tl.fdiv(x, x, ieee_rounding=True, approx=True), value("fp32"))


def test_pointers_move_and_compare() -> None:
    x = np.arange(16, dtype=np.float32)

    def moved(p: Any, far: Any, near: Any) -> Any:
        loads = tl.load(p + far), tl.load(3 + p), tl.load(p + 9 - 2), tl.load(p + near)
        return *loads, tl.load(p + (p == 0 + p)), p + 1 == p + near, p + 4 > p

    got = evaluate(moved, Pointer(x), Scalar(5, "int64"), Scalar(12, "uint8"))
    np.testing.assert_array_equal(got, [5, 3, 7, 12, 1, False, True])


def test_pointer_arithmetic_that_means_nothing_is_refused() -> None:
    p, q = value("*fp32"), value("*int32")
    for function, said in (
        (lambda: p + p, "cannot add two pointers"),
        (lambda: p + 1.5, "an offset must be an integer"),
        (lambda: p * 2, "cannot multiply"),
        (lambda: p - p, "cannot subtract"),
        (lambda: 1 - p, "cannot subtract"),
        (lambda: p == q, "cannot compare"),
        (lambda: -p, "cannot negate"),
        (lambda: ~value("fp32"), "cannot invert"),
    ):
        with pytest.raises(TypeError, match=said):
            emit(function)


def test_bfloat16_constants_are_rounded_once() -> None:
    # Through fp32 this would become a tie, and then round to even: down.
    number = 1 + 2**-8 + 2**-40
    got = evaluate(lambda x: x + number, np.zeros(1, ml_dtypes.bfloat16))
    assert float(got[0]) == 1 + 2**-7
