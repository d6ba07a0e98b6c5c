"""Scans, sorting and histograms, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from language_harness import DTYPES, emit, evaluate, value

import emu.triton.language as tl

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(axis: int, reverse: bool) -> None:
    x = RNG.integers(-3, 4, (4, 8)).astype(np.int32)
    turned = np.flip(x, axis) if reverse else x
    for function, wanted in ((tl.cumsum, np.cumsum), (tl.cumprod, np.cumprod)):
        scanned = wanted(turned, axis, dtype=np.int32)
        got = evaluate(lambda t, f=function: f(t, axis, reverse), x)
        np.testing.assert_array_equal(got, np.flip(scanned, axis) if reverse else scanned)
    got = evaluate(lambda t: tl.associative_scan(t, axis, tl.maximum, reverse=reverse), x)
    scanned = np.maximum.accumulate(turned, axis)
    np.testing.assert_array_equal(got, np.flip(scanned, axis) if reverse else scanned)


def linear(a1: Any, b1: Any, a2: Any, b2: Any) -> Any:
    return a1 * a2, a2 * b1 + b2


def test_scans_of_several_tensors_keep_the_order() -> None:
    a, b = RNG.integers(-2, 3, 16).astype(np.int64), RNG.integers(-5, 5, 16).astype(np.int64)
    _, got = evaluate(lambda x, y: tl.associative_scan((x, y), 0, linear), a, b)
    state, wanted = 0, []
    for x, y in zip(a, b, strict=True):
        state = int(x) * state + int(y)
        wanted.append(state)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", [(1,), (2,), (64,), (4, 16), (2, 2, 8)])
@pytest.mark.parametrize("name", ["int32", "fp32", "uint8", "fp16"])
def test_sorting(shape: Any, descending: bool, name: str) -> None:
    x = RNG.integers(0, 50, shape).astype(DTYPES[name])
    wanted = np.sort(x, -1)
    wanted = wanted[..., ::-1] if descending else wanted
    got = evaluate(lambda t: tl.sort(t, descending=descending), x)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("k", [1, 2, 8, 32])
@pytest.mark.parametrize("largest", [False, True])
def test_topk(k: int, largest: bool) -> None:
    x = RNG.permutation(128).reshape(4, 32).astype(np.float32)
    wanted = np.sort(x, -1)
    wanted = wanted[:, ::-1][:, :k] if largest else wanted[:, :k]
    got = evaluate(lambda t: tl.topk(t, k, descending=largest), x)
    np.testing.assert_array_equal(got, wanted)


def test_bitonic_sequences_are_merged() -> None:
    x = np.array([1, 4, 6, 9, 8, 5, 3, 0], np.int32)
    np.testing.assert_array_equal(evaluate(tl.bitonic_merge, x), np.sort(x))
    got = evaluate(lambda t: tl.bitonic_merge(t, descending=True), x)
    np.testing.assert_array_equal(got, np.sort(x)[::-1])


def test_histograms_count_what_is_in_range() -> None:
    x = np.array([0, 3, 3, 1, 9, -1, 3, 0], np.int32)
    np.testing.assert_array_equal(evaluate(lambda t: tl.histogram(t, 4), x), [2, 1, 0, 3])
    got = evaluate(lambda t: t.histogram(4, mask=tl.arange(0, 8) < 3), x)
    np.testing.assert_array_equal(got, [1, 0, 0, 2])


def test_bad_sorts_and_histograms_are_named() -> None:
    x = value("int32", (4, 8))
    cases: list[tuple[type[Exception], str, Any]] = [
        (ValueError, "dim must be the last axis, but got 0", lambda: tl.sort(x, 0)),
        (ValueError, r"k must be a power of 2 in \[1, 8\], but got 3", lambda: tl.topk(x, 3)),
        (ValueError, r"k must be a power of 2 in \[1, 8\], but got 16", lambda: tl.topk(x, 16)),
        (ValueError, "tensor of one axis", lambda: tl.histogram(x, 4)),
        (
            ValueError,
            "only supports 32-bit integer input",
            lambda: tl.histogram(value("int64", (4,)), 4),
        ),
        (
            ValueError,
            "num_bins must be a power of 2",
            lambda: tl.histogram(value("int32", (4,)), 3),
        ),
    ]
    for error, said, function in cases:
        with pytest.raises(error, match=said):
            emit(function)
