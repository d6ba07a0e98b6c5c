"""Reductions along an axis and along all, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from language_harness import DTYPES, emit, evaluate, value

import emu.triton.language as tl

RNG = np.random.default_rng(0)
X = RNG.integers(-20, 20, (2, 8, 4)).astype(np.int32)
AXES = [None, 0, 1, 2, -1]


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("keep", [False, True])
def test_reductions_along_axes(axis: Any, keep: bool) -> None:
    cases: list[tuple[Any, Any]] = [
        (tl.sum, np.sum),
        (tl.max, np.max),
        (tl.min, np.min),
        (tl.xor_sum, np.bitwise_xor.reduce),
        (tl.reduce_or, np.bitwise_or.reduce),
    ]
    for function, wanted in cases:
        got = evaluate(lambda x, f=function: f(x, axis, keep_dims=keep), X)
        np.testing.assert_array_equal(got, wanted(X, axis=axis, keepdims=keep))
        assert got.shape == np.sum(X, axis=axis, keepdims=keep).shape


SUMS = {"int1": "uint32", "int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}


@pytest.mark.parametrize("name", list(DTYPES))
def test_narrow_integers_add_up_in_32_bits_and_others_in_their_dtype(name: str) -> None:
    x = (np.arange(8) % 2).astype(DTYPES[name])
    for function in (tl.sum, tl.cumsum, tl.cumprod):
        got = evaluate(lambda t, f=function: f(t, 0), x)
        assert got.dtype == DTYPES[SUMS.get(name, name)]
    assert float(evaluate(lambda t: tl.sum(t), x)) == 4


def test_sums_wrap_and_take_a_dtype() -> None:
    x = np.full(8, 2**31 - 1, np.int32)
    assert evaluate(lambda t: t.sum(), x) == -8
    assert evaluate(lambda t: tl.sum(t, dtype=tl.int64), x) == 8 * (2**31 - 1)
    halves = np.full(2048, 2.0, np.float16)
    assert evaluate(lambda t: tl.sum(t, 0, dtype=tl.float32), halves) == 4096
    got = evaluate(lambda t: tl.cumsum(t, 0, dtype=tl.float64), np.ones(4, np.float32))
    assert got.dtype == np.float64


@pytest.mark.parametrize(
    ("name", "wide"),
    [
        *[
            ("fp16", "fp32"),
            ("bf16", "fp32"),
            ("int8", "int32"),
            ("uint16", "int32"),
            ("int1", "int32"),
        ],
        *[("fp32", "fp32"), ("fp64", "fp64"), ("uint32", "uint32"), ("int64", "int64")],
    ],
)
def test_the_dtype_of_an_extreme(name: str, wide: str) -> None:
    x = np.array([0, 1, 1, 0], DTYPES[name])
    for function in (tl.max, tl.min):
        assert evaluate(lambda t, f=function: f(t, 0), x).dtype == DTYPES[wide]
        kept, _ = evaluate(lambda t, f=function: f(t, 0, return_indices=True), x)
        assert kept.dtype == DTYPES[name]


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("keep", [False, True])
def test_places_of_extremes_are_the_first(axis: int, keep: bool) -> None:
    x = X % 4
    for function, wanted in ((tl.argmax, np.argmax), (tl.argmin, np.argmin)):
        got = evaluate(lambda t, f=function: f(t, axis, keep_dims=keep), x)
        assert got.dtype == np.int32
        np.testing.assert_array_equal(got, wanted(x, axis, keepdims=keep))
    values, places = evaluate(lambda t: tl.max(t, axis, return_indices=True, keep_dims=keep), x)
    np.testing.assert_array_equal(values, x.max(axis, keepdims=keep))
    np.testing.assert_array_equal(places, x.argmax(axis, keepdims=keep))


def test_ties_may_be_broken_at_will() -> None:
    x = np.array([3, 7, 1, 7], np.float32)
    place = evaluate(lambda t: tl.argmax(t, 0, tie_break_left=False), x)
    assert x[place] == 7
    value_, place = evaluate(
        lambda t: t.min(0, return_indices=True, return_indices_tie_break_left=False), x
    )
    assert (value_, place) == (1, 2)


def test_nan_is_left_out_of_extremes() -> None:
    x = np.array([np.nan, 3, -2, np.nan], np.float32)
    assert evaluate(lambda t: t.max(), x) == 3
    assert evaluate(lambda t: t.min(), x) == -2
    assert np.isnan(evaluate(lambda t: t.max(), np.full(4, np.nan, np.float32)))
    for order in (x, x[::-1].copy(), np.roll(x, 1), np.roll(x, 2)):
        for left in (True, False):
            place = evaluate(lambda t, b=left: tl.argmax(t, 0, tie_break_left=b), order)
            assert order[place] == 3
            place = evaluate(lambda t, b=left: tl.argmin(t, 0, tie_break_left=b), order)
            assert order[place] == -2


def product(a: Any, b: Any) -> Any:
    return a * b


def welford(mean1: Any, weight1: Any, mean2: Any, weight2: Any) -> Any:
    weight = weight1 + weight2
    return mean1 + (mean2 - mean1) * (weight2 / weight), weight


@pytest.mark.parametrize("axis", AXES)
def test_own_combine_functions(axis: Any) -> None:
    x = RNG.choice([1, -1, 2], (2, 4, 2)).astype(np.int64)
    got = evaluate(lambda t: tl.reduce(t, axis, product), x)
    np.testing.assert_array_equal(got, np.prod(x, axis))


def test_several_tensors_are_reduced_together() -> None:
    x = RNG.integers(0, 64, (4, 8)).astype(np.float32)

    def run(t: Any) -> Any:
        mean, weight = tl.reduce((t, t * 0 + 1), 1, welford)
        kept = tl.reduce(tl.tuple([t, tl.full(t.shape, 1.0, tl.float32)]), 1, welford, True)
        return mean, weight, kept[0]

    mean, weight, kept = evaluate(run, x)
    np.testing.assert_allclose(mean, x.mean(1), rtol=1e-6)
    np.testing.assert_array_equal(weight, np.full(4, 8))
    np.testing.assert_array_equal(kept, mean[:, None])


def test_pythons_max_and_the_languages_own_functions_combine() -> None:
    for function in (max, tl.maximum):
        got = evaluate(lambda t, f=function: tl.reduce(t, 0, f), np.array([3, 9, 1, 2], np.int32))
        assert got == 9
    assert evaluate(lambda t: tl.reduce(t, 0, min), np.array([3, 9, 1, 2], np.int32)) == 1


def test_combine_functions_are_called_through_the_context() -> None:
    calls = []

    def call(function: Any, arguments: Any) -> Any:
        calls.append((function, [str(a) for a in arguments]))
        return function(*arguments)

    emit(lambda x: tl.reduce(x, 0, product), value("fp32", (4,)), call=call)
    emit(lambda x: tl.associative_scan(x, 0, product), value("fp16", (4,)), call=call)
    assert calls == [(product, ["fp32[]", "fp32[]"]), (product, ["fp16[]", "fp16[]"])]


def test_bad_reductions_are_named() -> None:
    x = value("fp32", (4, 8))
    cases: list[tuple[type[Exception], str, Any]] = [
        (ValueError, r"invalid axis 2: axis must be in \[-2, 2\)", lambda: tl.sum(x, 2)),
        (TypeError, "axis must be an int", lambda: tl.sum(x, value("int32"))),
        (ValueError, "tensors of one shape", lambda: tl.reduce((x, value("fp32")), 0, welford)),
        (TypeError, "must give fp32, but gives int1", lambda: tl.reduce(x, 0, lambda a, b: a < b)),
        (TypeError, "xor_sum needs integers, but got fp32", lambda: tl.xor_sum(x)),
        (TypeError, "reduce_or needs integers", lambda: tl.reduce_or(x, 0)),
        (ValueError, "axis must be given where indices", lambda: tl.max(x, return_indices=True)),
        (ValueError, r"invalid axis 5: axis must be in \[-2, 2\)", lambda: tl.cumsum(x, 5)),
    ]
    for error, said, function in cases:
        with pytest.raises(error, match=said):
            emit(function)
