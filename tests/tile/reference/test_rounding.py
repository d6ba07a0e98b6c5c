"""Conversions and multiply-add round once."""

from __future__ import annotations

import ctypes
import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_evaluation import cast, evaluate, same

from emu.tile.reference.rounding import fma
from emu.tile.types import (
    BF16,
    F8E4M3FN,
    F8E5M2,
    F16,
    F32,
    F64,
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
