"""What operations give where that is more than NumPy says: rounding, wrapping, saturation, NaN, order."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_harness import Kernel

from emu.tile import reference
from emu.tile.ir import Location, Module, Value
from emu.tile.ops import Code, Rmw
from emu.tile.reference import ExecutionError
from emu.tile.reference.rounding import fma, to_float
from emu.tile.types import (
    BF16,
    DTYPES,
    F8E4M3FN,
    F8E5M2,
    F16,
    F32,
    F64,
    FROM_NUMPY,
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


def evaluate(build: Callable[..., Value], *inputs: tuple[Sequence[float], DType]) -> list[Any]:
    """Run an operation on tiles of numbers and return the elements of its result."""
    k = Kernel()
    tiles = []
    for numbers, dtype in inputs:
        exact = np.array(list(numbers), object if dtype.is_integer else np.float64)
        tiles.append(k.load(exact.astype(dtype.numpy)))
    k.result(build(k.builder, *tiles))
    result = k.program("p").run_reference()[-1]
    assert result is not None
    if FROM_NUMPY[result.dtype].is_float:
        return result.astype(np.float64).tolist()
    return result.tolist()


def same(got: Sequence[float], wanted: Sequence[float]) -> None:
    """Compare numbers exactly, with the sign of zeros; NaN equals NaN."""
    assert list(map(repr, map(float, got))) == list(map(repr, map(float, wanted)))


def binary(
    code: Code, a: Sequence[float], b: Sequence[float], dtype: DType, **more: Any
) -> list[Any]:
    return evaluate(lambda f, x, y: f.binary(code, x, y, **more), (a, dtype), (b, dtype))


# ---- integers


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


# ---- conversions


def cast(
    numbers: Sequence[float], source: DType, target: DType, rounding: str = "rtne"
) -> list[Any]:
    return evaluate(lambda f, x: f.cast(x, target, rounding), (numbers, source))


@pytest.mark.parametrize("dtype", [I8, I16, I32, I64, U8, U16, U32, U64], ids=str)
def test_floats_become_integers_towards_zero_and_saturate(dtype: DType) -> None:
    low, top = int(np.iinfo(dtype.numpy).min), int(np.iinfo(dtype.numpy).max)
    numbers = [2.9, 0.999, NAN, INF, -INF, 1e30, -1e30]
    assert cast(numbers, F64, dtype) == [2, 0, 0, top, low, top, low]
    assert cast(numbers, F32, dtype) == [2, 0, 0, top, low, top, low]
    assert cast([-1.5, -0.5], F64, dtype) == [-1 if dtype.is_signed else 0, 0]
    edge = float(2 ** (dtype.bits - dtype.is_signed))
    below = math.nextafter(edge, 0) if dtype.bits == 64 else edge - 0.5
    assert cast([edge, below], F64, dtype) == [top, int(below)]


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


def nearest(exact: Fraction, dtype: DType) -> float:
    """Round a number to the nearest of all values of a narrow dtype, ties to the even bits."""
    count = 2**dtype.bits // 2
    bits = np.arange(count).astype(f"u{dtype.bytes}")
    magnitudes = bits.view(dtype.numpy).astype(np.float64)
    finite = [Fraction(float(m)) for m in magnitudes if np.isfinite(m)]
    step = finite[-1] - finite[-2]
    found = min(
        (*finite, finite[-1] + step),
        key=lambda m: (abs(m - abs(exact)), (finite.index(m) if m in finite else len(finite)) % 2),
    )
    if found > finite[-1]:
        beyond = NAN if dtype == F8E4M3FN else INF
        return math.copysign(beyond, exact) if beyond == INF else NAN
    return math.copysign(float(found), exact)


@settings(max_examples=200, deadline=None)
@given(st.floats(-600, 600), st.sampled_from([F8E4M3FN, F8E5M2]), st.sampled_from([F64, F32, F16]))
def test_floats_are_rounded_to_the_nearest_fp8(x: float, target: DType, source: DType) -> None:
    with np.errstate(all="ignore"):
        (given_,) = np.array([x]).astype(source.numpy).astype(np.float64).tolist()
    wanted = nearest(Fraction(given_), target)
    (got,) = cast([given_], source, target)
    assert math.isnan(got) if math.isnan(wanted) else got == wanted


@pytest.mark.parametrize("dtype", [F16, BF16, F8E4M3FN, F8E5M2], ids=str)
def test_floats_are_rounded_once(dtype: DType) -> None:
    """The neighbour of a tie is no tie, though it is one when it is rounded to f32 first."""
    half = float(ml_dtypes.finfo(dtype.numpy).eps) / 2
    eps, tiny = 2 * half, 2.0**-40
    numbers = [1 + half, 1 + half + tiny, 1 + half - tiny, 1 + eps + half, 1 + eps + half - tiny]
    wanted = [1, 1 + eps, 1, 1 + 2 * eps, 1 + eps]
    same(cast(numbers, F64, dtype), wanted)
    same(cast([-n for n in numbers], F64, dtype), [-n for n in wanted])
    same(cast(numbers, F64, dtype, "rtz"), [1, 1, 1, 1 + eps, 1 + eps])


def test_what_is_too_large_for_a_narrow_float() -> None:
    same(cast([65519, 65520, -1e9, INF, NAN], F32, F16), [65504, INF, -INF, INF, NAN])
    same(cast([464, 465, -1e9, INF, NAN], F32, F8E4M3FN), [448, NAN, NAN, NAN, NAN])
    same(cast([61439, 61440, -1e9, INF, NAN], F32, F8E5M2), [57344, INF, -INF, INF, NAN])
    same(cast([1e39, -1e39, 3.39e38], F64, BF16), [INF, -INF, 255 * 2.0**120])


def test_rounding_towards_zero_never_overflows() -> None:
    same(cast([1e9, -1e9, INF, NAN], F32, F16, "rtz"), [65504, -65504, INF, NAN])
    same(cast([1e9, -460], F32, F8E4M3FN, "rtz"), [448, -448])
    same(cast([1e39, -1e-60], F64, F32, "rtz"), [float(np.finfo(np.float32).max), -0.0])
    same(cast([1 + 2**-24, 1 + 2**-23 - 2**-40], F64, F32, "rtz"), [1, 1])


def test_large_integers_are_rounded_once() -> None:
    tie = 2**60 + 2**52  # half of what bf16 resolves there
    same(cast([tie, tie + 1, -tie - 1], I64, BF16), [2.0**60, 2.0**60 + 2**53, -(2.0**60) - 2**53])
    same(cast([2**24 + 1, 2**53 + 1], I64, F32), [2.0**24, 2.0**53])
    same(cast([2**53 + 1, 2**53 + 3], I64, F64), [2.0**53, 2.0**53 + 4])
    same(cast([2**64 - 1], U64, F32), [2.0**64])
    same(cast([65519, 65520], I32, F16), [65504, INF])


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([F16, BF16, F8E5M2]))
def test_integers_are_rounded_to_the_nearest_float(x: int, dtype: DType) -> None:
    (got,) = cast([x], I64, dtype)
    down, up = (
        np.nextafter(np.array([got]).astype(dtype.numpy), np.array(d).astype(dtype.numpy))[0]
        for d in (-INF, INF)
    )
    if not np.isfinite(got):
        assert abs(x) >= float(ml_dtypes.finfo(dtype.numpy).max)
        return
    error = abs(Fraction(got) - x)
    for other in (down, up):
        if np.isfinite(float(other)):
            assert error <= abs(Fraction(float(other)) - x)


def test_bits_are_kept() -> None:
    bits = evaluate(lambda f, x: f.bitcast(x, I32), ([1.0, -0.0, INF], F32))
    assert bits == [0x3F800000, -(2**31), 0x7F800000]
    same(evaluate(lambda f, x: f.bitcast(x, BF16), ([0x3F80, 0xC000], U16)), [1, -2])


# ---- floats


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


def lane(x: float, dtype: type[np.floating[Any]]) -> Any:
    return np.array([x], dtype)


floats32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=300)
@given(floats32, floats32, floats32)
def test_multiply_add_of_f32_rounds_once(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    with np.errstate(all="ignore"):
        (got,) = fma(lane(a, np.float32), lane(b, np.float32), lane(c, np.float32))
        around = [got, np.nextafter(got, np.float32(-INF)), np.nextafter(got, np.float32(INF))]
    if not np.isfinite(got):
        assert abs(exact) >= float(np.finfo(np.float32).max)
        return
    errors = [abs(Fraction(float(x)) - exact) for x in around if np.isfinite(x)]
    assert errors[0] == min(errors)
    if errors.count(errors[0]) == 2:
        assert int(got.view(np.uint32)) % 2 == 0


@settings(max_examples=200)
@given(*[st.floats() for _ in range(3)])
def test_multiply_add_of_f64_is_that_of_the_c_library(a: float, b: float, c: float) -> None:
    library = ctypes.CDLL(None)
    library.fma.restype = ctypes.c_double
    wanted = library.fma(*(ctypes.c_double(x) for x in (a, b, c)))
    with np.errstate(all="ignore"):
        (got,) = fma(lane(a, np.float64), lane(b, np.float64), lane(c, np.float64))
    same([got], [wanted])


def test_infinity_stays_what_it_is_beside_a_product_that_overflows() -> None:
    for dtype in (F32, F64):
        large = float(np.finfo(dtype.numpy).max)
        got = evaluate(
            lambda f, *xs: f.fma(*xs),
            ([large] * 2, dtype),
            ([-large, large], dtype),
            ([INF, -INF], dtype),
        )
        same(got, [INF, -INF])


def test_products_of_matrices_are_chains_of_multiply_add() -> None:
    k = Kernel()
    a = np.array([[1 + 2**-12, 1]], np.float32)
    b = np.array([[1 + 2**-12], [-1 - 2**-11]], np.float32)
    k.result(k.builder.dot(k.load(a), k.load(b), k.number(0, F32, (1, 1))))
    same(
        k.program("p").run_reference()[-1].ravel(), [0.0]
    )  # the first product is rounded, 2**-24 lost
    k = Kernel()
    a, b = a[:, ::-1].copy(), b[::-1].copy()
    k.result(k.builder.dot(k.load(a), k.load(b), k.number(0, F32, (1, 1))))
    same(k.program("p").run_reference()[-1].ravel(), [2**-24])


def test_products_with_f16_totals_are_rounded_at_the_end() -> None:
    k = Kernel()
    a = np.ones((1, 5), np.float16)
    b = np.array([[2048], [1], [1], [1], [1]], np.float16)
    k.result(k.builder.dot(k.load(a), k.load(b), k.number(0, F16, (1, 1))))
    same(k.program("p").run_reference()[-1].astype(float).ravel(), [2052])


def test_constants_are_rounded_to_their_dtype() -> None:
    k = Kernel()
    for dtype in (F16, BF16, F8E4M3FN, F32):
        k.result(k.number(1 / 3, dtype))
    got = [float(r[0]) for r in k.program("p").run_reference()]
    same(got, [float(to_float(np.array(1 / 3), d)) for d in (F16, BF16, F8E4M3FN, F32)])
    same(got, [0.333251953125, 0.333984375, 0.34375, 0.3333333432674408])


# ---- memory, order, errors


def test_masked_lanes_touch_no_memory() -> None:
    k = Kernel()
    b = k.builder
    wild = b.cast(
        k.load(np.array([8, 2**62, 2**63 - 1], np.int64)), k.pointer(np.ones(1, np.float32)).type
    )
    k.result(b.load(wild, k.number(0, I1, (3,)), k.number(7, F32, (3,))))
    k.result(b.load(wild, k.number(0, I1, (3,))))
    b.store(wild, k.number(7, F32, (3,)), k.number(0, I1, (3,)))
    *_, other, zero = k.program("p").run_reference()
    same(other, [7, 7, 7])
    same(zero, [0, 0, 0])


def test_the_last_lane_is_kept_and_atomics_see_those_before() -> None:
    k = Kernel()
    b = k.builder
    kept, counted = np.zeros(2, np.int32), np.zeros(2, np.int32)
    index = k.load(np.array([0, 0, 1, 0], np.int32))
    b.store(b.ptr_add(b.splat(k.pointer(kept), (4,)), index), b.arange(5, 9))
    places = b.ptr_add(b.splat(k.pointer(counted), (4,)), index)
    k.result(b.atomic_rmw(Rmw.ADD, places, b.arange(1, 5)))
    _, first, second, old = k.program("p").run_reference()
    assert first.tolist() == [8, 7]
    assert second.tolist() == [7, 3]
    assert old.tolist() == [0, 1, 0, 3]


def test_floats_are_compared_and_swapped_by_their_bits() -> None:
    k = Kernel()
    x = np.array([0.0, -0.0, NAN], np.float32)
    k.builder.atomic_cas(
        k.addresses(k.pointer(x), (3,)),
        k.load(np.array([-0.0, -0.0, NAN], np.float32)),
        k.number(1, F32, (3,)),
    )
    same(k.program("p").run_reference()[0], [0.0, 1.0, 1.0])


def test_scans_combine_what_was_before_with_what_comes() -> None:
    k = Kernel()
    b = k.builder
    x = k.load(np.array([1, 2, 3, 4], np.int32))
    for reverse in (False, True):
        second = b.scan([x], 0, lambda a, c: [c], reverse)
        first = b.scan([x], 0, lambda a, c: [a], reverse)
        k.result(second[0])
        k.result(first[0])
    got = [r.tolist() for r in k.program("p").run_reference()[1:]]
    assert got == [[1, 2, 3, 4], [1, 1, 1, 1], [1, 2, 3, 4], [4, 4, 4, 4]]


def test_programs_run_with_x_fastest() -> None:
    k = Kernel()
    b = k.builder
    place = b.atomic_rmw(Rmw.ADD, k.pointer(np.zeros(1, np.int32)), k.number(1))
    out = k.pointer(np.zeros(12, np.int32))
    digits = k.number(0)
    for axis in (2, 1, 0):
        digits = b.binary(Code.ADD, b.binary(Code.MUL, digits, k.number(10)), b.program_id(axis))
    b.store(b.ptr_add(out, place), digits)
    got = k.program("p", (3, 2, 2)).run_reference()[-1]
    assert got.tolist() == [0, 1, 2, 10, 11, 12, 100, 101, 102, 110, 111, 112]


def failing(
    build: Callable[[Kernel], object], grid: tuple[int, int, int] = (1, 1, 1)
) -> ExecutionError:
    k = Kernel()
    k.builder.location = Location("kernel.py", 4, 9)
    build(k)
    with pytest.raises(ExecutionError) as error:
        k.program("p", grid).run_reference()
    return error.value


def test_assertions_say_program_and_place() -> None:
    def build(k: Kernel) -> None:
        b = k.builder
        below = b.compare(Code.LT, b.program_id(0), k.number(2))
        b.assert_(below, "too far")  # noqa: PT009 - the builder's

    error = failing(build, (4, 1, 1))
    assert error.program == (2, 0, 0)
    assert error.location == Location("kernel.py", 4, 9)
    assert str(error) == "kernel.py:4:9: assertion failed: too far (program (2, 0, 0))"


def test_bad_indices_addresses_and_steps_are_errors() -> None:
    def gather(k: Kernel) -> None:
        k.result(k.builder.gather(k.builder.arange(0, 4), k.number(4, I32, (2,)), 0))

    def null(k: Kernel) -> None:
        pointer = k.pointer(np.ones(1, np.float32))
        k.builder.load(k.builder.cast(k.number(0, I64), pointer.type))

    def loop(k: Kernel) -> None:
        zero = k.number(0)
        with k.builder.for_(zero, k.number(3), zero, []):
            k.builder.yield_()

    assert "an index of gather must be 0 to 3, but got 4" in str(failing(gather))
    assert "a pointer must not be null" in str(failing(null))
    assert "the step of a loop must not be 0" in str(failing(loop))


def test_printing_names_program_and_element() -> None:
    k = Kernel()
    b = k.builder
    b.print_("x:", [b.arange(5, 7)])
    b.print_("both", [b.program_id(0), k.number(1.5, F32)])
    b.print_("bits", [k.number(-1, I8), k.number(1, F32)], hex_=True)
    b.print_("here", [])
    lines: list[str] = []
    module = k.program("p").module
    reference.run(module, [], (1, 1, 1), write=lines.append)
    assert lines == [
        "pid (0, 0, 0) idx (0) x: 5\n",
        "pid (0, 0, 0) idx (1) x: 6\n",
        "pid (0, 0, 0) both (operand 0) 0\n",
        "pid (0, 0, 0) both (operand 1) 1.500000\n",
        "pid (0, 0, 0) bits (operand 0) 0xff\n",
        "pid (0, 0, 0) bits (operand 1) 0x3f800000\n",
        "pid (0, 0, 0) here\n",
    ]


def test_arguments_are_checked() -> None:
    k = Kernel()
    k.argument(I32, 0)
    k.argument(U8, 0)
    module: Module = k.program("p").module
    for arguments, message in [
        ((1,), "arguments must be 2 numbers, but got 1"),
        ((2**31, 1), "an argument of type i32 must be -2147483648 to 2147483647"),
        ((0, -1), "an argument of type u8 must be 0 to 255, but got -1"),
    ]:
        with pytest.raises(ValueError, match=message):
            reference.run(module, arguments)


def test_loops_near_the_limit_of_their_dtype_end() -> None:
    k = Kernel()
    bounds = [k.number(n, I8) for n in (100, 127, 20)]
    with k.builder.for_(*bounds, [k.number(0)]) as loop:
        k.builder.yield_(k.builder.binary(Code.ADD, loop.carried[0], k.number(1)))
    k.result(loop.results[0])
    assert k.program("p").run_reference()[-1].tolist() == [2]


def test_every_dtype_is_loaded_and_stored_bit_by_bit() -> None:
    for dtype in DTYPES.values():
        if dtype == I1:
            continue
        bits = np.arange(256 * dtype.bytes, dtype=np.uint8)
        k = Kernel()
        k.result(k.load(bits.view(dtype.numpy)))
        assert k.program("p").run_reference()[-1].tobytes() == bits.tobytes()
