"""Sorting by keys: long rows of every dtype, both directions, ties, infinities; code of one size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from language_harness import DTYPES, evaluate, on_both

import emu.triton.language as tl
from emu import triton

RNG = np.random.default_rng(5)
SORTED = [n for n in DTYPES if n != "int1"]


def numbers(name: str, shape: tuple[int, ...]) -> Any:
    dtype = DTYPES[name]
    if name.startswith(("fp", "bf")):
        x = (RNG.standard_normal(shape) * 9).astype(dtype)
        x[x == 0] = dtype.type(1)  # -0.0 and 0.0 have no order
        return x
    info = np.iinfo(dtype)
    x = RNG.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    x.flat[:2] = info.min, info.max
    return x


@pytest.mark.parametrize("native", [False, True], ids=["reference", "compiled"])
@pytest.mark.parametrize("name", SORTED)
def test_long_rows_of_every_dtype(name: str, native: bool) -> None:
    x = numbers(name, (3 + 1, 128))
    if name in ("fp16", "bf16", "fp32", "fp64"):
        x[0, :2] = -np.inf, np.inf
    wanted = np.sort(
        x.astype(np.float64) if name in ("fp16", "bf16", "fp8e4nv", "fp8e5") else x, -1
    )
    got = evaluate(lambda t: tl.sort(t), x, native=native)
    np.testing.assert_array_equal(got, wanted.astype(x.dtype))
    got = evaluate(lambda t: tl.sort(t, descending=True), x, native=native)
    np.testing.assert_array_equal(got, wanted[:, ::-1].astype(x.dtype))
    got = evaluate(lambda t: tl.topk(t, 8), x, native=native)
    np.testing.assert_array_equal(got.astype(x.dtype), wanted[:, :-9:-1].astype(x.dtype))
    got = evaluate(lambda t: tl.topk(t, 8, descending=False), x, native=native)
    np.testing.assert_array_equal(got.astype(x.dtype), wanted[:, :8].astype(x.dtype))


def test_conditions_are_sorted() -> None:
    x = RNG.random((2, 128)) > 0.5
    np.testing.assert_array_equal(evaluate(lambda t: tl.sort(t), x), np.sort(x, -1))


@pytest.mark.parametrize("extent", [1, 2, 64, 128, 2048])
@pytest.mark.parametrize("most", [1, 3, 1000])
def test_ties_and_extents_on_both_sides_of_the_network(extent: int, most: int) -> None:
    x = RNG.integers(-most, most, (2, extent)).astype(np.int32)
    np.testing.assert_array_equal(evaluate(lambda t: tl.sort(t), x), np.sort(x, -1))


@pytest.mark.parametrize("descending", [False, True])
def test_long_bitonic_sequences_are_merged(descending: bool) -> None:
    half = np.sort(RNG.integers(0, 999, 128)).astype(np.int32)
    x = np.concatenate([half, np.sort(RNG.integers(0, 999, 128).astype(np.int32))[::-1]])
    got = evaluate(lambda t: tl.bitonic_merge(t, descending=descending), x)
    np.testing.assert_array_equal(got, np.sort(x)[::-1] if descending else np.sort(x))


@triton.jit
def sorts(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, tl.sort(tl.load(x + i)))


@pytest.mark.parametrize("n", [16384, 2**20])
def test_a_long_row_in_one_program(n: int) -> None:
    x = RNG.standard_normal(n).astype(np.float32)
    got, *_ = on_both(sorts, x, N=n)
    np.testing.assert_array_equal(got, np.sort(x))


def test_the_code_does_not_grow_with_the_extent() -> None:
    counts = []
    for n in (128, 2**20):
        kernel = sorts.warmup(np.zeros(1, np.float32), N=n, grid=(1,))
        counts.append(kernel.asm["ttir"].count("\n"))
    assert counts[0] == counts[1]


@triton.jit
def select(x, largest, smallest, N: tl.constexpr, K: tl.constexpr):
    row = tl.arange(0, 4)[:, None]
    tile = tl.load(x + row * N + tl.arange(0, N)[None, :])
    places = row * K + tl.arange(0, K)[None, :]
    tl.store(largest + places, tl.topk(tile, K))
    tl.store(smallest + places, tl.topk(tile, K, descending=False))


@pytest.mark.parametrize("k", [2, 16, 256])
@pytest.mark.parametrize("name", ["int16", "int32", "int64", "fp32"])
def test_the_first_elements_of_rows_whose_highest_bytes_differ_or_not(k: int, name: str) -> None:
    shape = (4, 1024)
    rows = {
        "equal": np.full(shape, 7),
        "one byte": RNG.integers(
            0, 100, shape
        ),  # all are candidates: they are sorted by their bytes
        "few bytes": RNG.integers(-700, 700, shape),
        "many": RNG.integers(-30_000, 30_000, shape),
        "rising": np.arange(4 * 1024).reshape(shape) - 1500,
    }
    for spread, numbers in rows.items():
        x = numbers.astype(DTYPES[name])
        wanted = np.sort(x, -1)
        left = np.zeros((4, k), x.dtype), np.zeros((4, k), x.dtype)
        select[(1,)](x, *left, N=1024, K=k)
        np.testing.assert_array_equal(left[0], wanted[:, : -k - 1 : -1], err_msg=spread)
        np.testing.assert_array_equal(left[1], wanted[:, :k], err_msg=spread)
