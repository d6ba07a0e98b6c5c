"""Matrix products: every bit, for any size, layout and number of threads."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import platform
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from variants import thorough

import emu
import emu.kernels.matmul as matmul_module
from emu.kernels.errors import ArgumentError
from emu.kernels.gemm import blocks as gemm
from emu.kernels.gemm.microkernel import COLUMNS_32, LAYOUT, ROWS, choose_layout
from emu.kernels.matmul import matmul, pack

Array = np.ndarray[Any, Any]

BF16 = np.dtype(ml_dtypes.bfloat16)
F32, F64, F16 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16)
FLOATS = [F32, F16, BF16]


def fma(a: Array, b: Array, c: Array) -> Array:
    """``a * b + c`` in fp32 with one rounding: rounded to odd in fp64 first, which loses nothing."""
    product = a.astype(F64) * b.astype(F64)  # exact
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)
    even = total.view(np.int64) & 1 == 0
    towards = np.where(error > 0, np.inf, -np.inf)
    odd = np.where((error != 0) & even & np.isfinite(error), np.nextafter(total, towards), total)
    return odd.astype(F32)


def chain(a: Array, b: Array) -> Array:
    """The meaning of the product of two matrices: for each element one chain, k increasing."""
    a, b = a.astype(F32), b.astype(F32)
    total = np.zeros((a.shape[0], b.shape[1]), F32)
    for k in range(a.shape[1]):
        left, right = a[:, k, None], b[None, k]
        total = fma(left, right, total) if LAYOUT.fused else total + left * right
    return total


def random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    if dtype == np.int8:
        return rng.integers(-128, 128, shape).astype(np.int8)
    scale = 2.0 ** rng.integers(-3, 4, shape)
    return np.asarray((rng.standard_normal(shape) * scale).astype(F32).astype(dtype))


def lay_out(array: Array, how: str) -> Array:
    """The same values in memory in another way."""
    if how == "columns":
        return np.asfortranarray(array)
    if how == "spread":
        wide = np.zeros((2 * array.shape[0], 3 * array.shape[1]), array.dtype)
        wide[::2, ::3] = array
        return wide[::2, ::3]
    if how == "window":
        wide = np.zeros((array.shape[0] + 3, array.shape[1] + 5), array.dtype)
        wide[1:-2, 2:-3] = array
        return wide[1:-2, 2:-3]
    if how == "backwards":
        return array[::-1, ::-1].copy()[::-1, ::-1]
    return array


LAYOUTS = ["rows", "columns", "spread", "window", "backwards"]
extents = st.integers(1, 3 * ROWS + 2)


@settings(deadline=None, max_examples=150)
@given(
    extents,
    st.integers(1, 2 * COLUMNS_32 + 3),
    st.integers(1, 70),
    st.sampled_from(FLOATS),
    st.sampled_from(FLOATS),
    st.sampled_from(LAYOUTS),
    st.sampled_from(LAYOUTS),
    st.sampled_from(LAYOUTS),
    st.integers(0, 2**32),
)
def test_each_element_is_one_chain(
    m: int, n: int, k: int, dtype: Any, result: Any, a_how: str, b_how: str, c_how: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    a, b = random_array(rng, (m, k), dtype), random_array(rng, (k, n), dtype)
    out = lay_out(np.full((m, n), np.nan, result), c_how)
    given_a, given_b = lay_out(a, a_how), lay_out(b, b_how)
    assert matmul(given_a, given_b, out=out) is out
    expected = chain(a, b).astype(result)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(given_a, a)
    np.testing.assert_array_equal(matmul(a, b, dtype=result), expected)
    swapped = matmul(
        given_a.T, given_b.T, transpose_a=True, transpose_b=True, dtype=result, threads=1
    )
    np.testing.assert_array_equal(swapped, expected)


@settings(deadline=None, max_examples=60)
@given(
    extents,
    st.integers(1, 2 * COLUMNS_32 + 3),
    st.integers(1, 140),
    st.sampled_from(LAYOUTS),
    st.sampled_from(LAYOUTS),
    st.sampled_from(LAYOUTS),
    st.integers(0, 2**32),
)
def test_int8(m: int, n: int, k: int, a_how: str, b_how: str, c_how: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = random_array(rng, (m, k), np.int8), random_array(rng, (k, n), np.int8)
    out = lay_out(np.full((m, n), 99, np.int32), c_how)
    matmul(lay_out(a, a_how), lay_out(b, b_how), out=out)
    np.testing.assert_array_equal(out, a.astype(np.int64) @ b.astype(np.int64))


@pytest.mark.parametrize(
    "k", thorough([gemm.MAX_K, gemm.MAX_K + 1, 2 * gemm.MAX_K + 5], gemm.MAX_K + 1)
)
def test_int8_long_and_extreme(k: int) -> None:
    a = np.full((ROWS + 1, k), -128, np.int8)
    b = np.full((k, COLUMNS_32 + 1), -128, np.int8)
    b[:, 3] = 127
    expected = a.astype(np.int64) @ b.astype(np.int64)
    np.testing.assert_array_equal(matmul(a, b), expected.astype(np.int32))


def test_int8_wraps() -> None:
    a, b = np.full((1, 1 << 18), -128, np.int8), np.full((1 << 18, 1), -128, np.int8)
    assert matmul(a, b)[0, 0] == np.int32(0)  # 2**14 * 2**18 is 2**32


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 12), st.integers(0, 2**32))
def test_fp64_is_one_chain(m: int, n: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    expected = np.empty((m, n))
    for i in range(m):
        for j in range(n):
            total = 0.0
            for left, right in zip(a[i].tolist(), b[:, j].tolist(), strict=True):
                if LAYOUT.fused:
                    total = float(Fraction(left) * Fraction(right) + Fraction(total))
                else:
                    total += left * right
            expected[i, j] = total
    np.testing.assert_array_equal(matmul(a, b), expected)


@pytest.mark.parametrize("a_how", LAYOUTS)
@pytest.mark.parametrize("b_how", LAYOUTS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (97, 130, 300), (5, 200, 530), (200, 3, 33)])
def test_fp64_beside_numpy(a_how: str, b_how: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    rng = np.random.default_rng(m)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    found = matmul(lay_out(a, a_how), lay_out(b, b_how))
    np.testing.assert_allclose(found, a @ b, rtol=0, atol=1e-13 * k)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(97, 130, 300), (193, 65, 520), (256, 256, 256), (3, 1000, 700)])
def test_beside_numpy(dtype: Any, shape: tuple[int, int, int]) -> None:
    """The library peer, at sizes of several blocks."""
    m, n, k = shape
    rng = np.random.default_rng(k)
    a, b = (rng.standard_normal(s).astype(dtype) for s in ((m, k), (k, n)))
    exact = a.astype(F64) @ b.astype(F64)
    found = matmul(a, b, dtype=F32)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-6 * k)
    np.testing.assert_array_equal(matmul(a, b), found.astype(dtype))


SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 3.4e38, -3.4e38, 1.0]


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values(dtype: Any) -> None:
    rng = np.random.default_rng(3)
    with np.errstate(all="ignore"):
        for _ in range(40):
            m, n, k = rng.integers(1, 20), rng.integers(1, 40), rng.integers(1, 6)
            a = rng.choice(SPECIAL, (m, k)).astype(dtype)
            b = rng.choice(SPECIAL, (k, n)).astype(dtype)
            found, expected = matmul(a, b, dtype=F32), chain(a, b)
            np.testing.assert_array_equal(found, expected)
            np.testing.assert_array_equal(
                np.signbit(found[~np.isnan(found)]), np.signbit(expected[~np.isnan(expected)])
            )


@pytest.mark.parametrize("dtype", [*FLOATS, F64])
@pytest.mark.parametrize("length", [1, 15, 16, 17, 127, 128, 300])
@pytest.mark.parametrize("k", [1, 7, 8, 9, 100])
def test_vectors(dtype: Any, length: int, k: int) -> None:
    """One row, or one column: in strips, or turned over; the same bits as in a larger product."""
    rng = np.random.default_rng(k)
    row, matrix = random_array(rng, (1, k), dtype), random_array(rng, (k, length), dtype)
    row[rng.random(row.shape) < 0.2] = -0.0
    row[:, -1] = -0.0
    matrix[:, ::3] = np.abs(matrix[:, ::3])
    larger = np.vstack([row] * (2 * ROWS + 1))
    expected = matmul(larger, matrix)[:1]
    for how in LAYOUTS:
        given = lay_out(matrix, how)
        for found in (matmul(row, given), matmul(given.T, row.T).T):
            np.testing.assert_array_equal(found, expected)
            np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_what_lies_beside_a_tile_does_no_harm() -> None:
    """Rows and columns that fill the last tile must not leak; memory around C stays as it is."""
    rng = np.random.default_rng(0)
    for m, n in [(1, 1), (ROWS - 1, COLUMNS_32 - 1), (ROWS + 1, COLUMNS_32 + 1), (ROWS, 7)]:
        a, b = random_array(rng, (m, 40), F32), random_array(rng, (40, n), F32)
        around = np.full((m + 4, n + 4), 77, F32)
        matmul(a, b, out=around[2:-2, 2:-2])
        np.testing.assert_array_equal(around[2:-2, 2:-2], chain(a, b))
        around[2:-2, 2:-2] = 77
        assert (around == 77).all()


@pytest.mark.parametrize("dtype", [*FLOATS, F64])
@pytest.mark.parametrize(("alpha", "beta"), [(1, 1), (2.5, 0), (-0.3, 0.7), (0, 1), (1, 0)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_alpha_beta_bias(dtype: Any, alpha: float, beta: float, with_bias: bool) -> None:
    rng = np.random.default_rng(5)
    m, n, k = 2 * ROWS + 3, COLUMNS_32 + 9, 300
    sums = F64 if dtype == F64 else F32
    a, b = random_array(rng, (m, k), dtype), random_array(rng, (k, n), dtype)
    old, bias = random_array(rng, (m, n), dtype), random_array(rng, (n,), dtype)
    expected = matmul(a, b, dtype=sums)
    expected = expected * sums.type(alpha)
    if beta:
        expected = expected + sums.type(beta) * old.astype(sums)
    if with_bias:
        expected = expected + bias.astype(sums)
    for how in LAYOUTS:
        out = lay_out(old.copy(), how)
        matmul(a, b, out=out, alpha=alpha, beta=beta, bias=bias if with_bias else None)
        np.testing.assert_array_equal(out, expected.astype(dtype))


def test_int8_alpha_beta_bias() -> None:
    rng = np.random.default_rng(5)
    a, b = random_array(rng, (30, 77), np.int8), random_array(rng, (77, 50), np.int8)
    old, bias = rng.integers(-(2**31), 2**31, (30, 50)), rng.integers(-9, 9, 50)
    expected = -3 * (a.astype(np.int64) @ b.astype(np.int64)) + 2 * old + bias
    out = old.astype(np.int32)
    matmul(a, b, out=out, alpha=-3, beta=2, bias=bias)
    np.testing.assert_array_equal(out, expected.astype(np.int32))


def test_old_values_are_not_read_at_beta_zero() -> None:
    out = np.full((3, 3), np.nan, F32)
    matmul(np.ones((3, 2), F32), np.ones((2, 3), F32), out=out, alpha=2)
    assert (out == 4).all()


@pytest.mark.parametrize("dtype", [F32, BF16, F64, np.dtype(np.int8)])
@pytest.mark.parametrize("shape", [(40, 70, 2 * gemm.MAX_K + 77), (300, 500, 600), (9, 9, 9)])
def test_threads_change_no_bit(dtype: Any, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    rng = np.random.default_rng(m)
    a, b = random_array(rng, (m, k), dtype), random_array(rng, (k, n), dtype)
    bias = random_array(rng, (n,), dtype)
    plain = matmul(a, b, threads=1)
    scaled = matmul(a, b, threads=1, alpha=2, bias=bias)
    for threads in (2, 3, 7):
        np.testing.assert_array_equal(matmul(a, b, threads=threads), plain)
        again = matmul(a, b, threads=threads, alpha=2, bias=bias)
        np.testing.assert_array_equal(again, scaled)
    np.testing.assert_array_equal(matmul(a, b), plain)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("dtype", "precision"), [(F32, "exact"), (F64, "exact"), (BF16, "exact"), (BF16, "native")]
)
def test_a_long_k_in_parts_gives_the_same_bits(dtype: Any, precision: Any, threads: int) -> None:
    """Products of many rows go through k in parts; those of few rows, which have the same bits, do not."""
    rng = np.random.default_rng(5)
    rows, k = 2 * gemm.BLOCK_ROWS, 3 * 1024 + 7
    a, b = random_array(rng, (rows, k), dtype), random_array(rng, (k, 70), dtype)
    a[3, 1030], b[2050, 9] = np.inf, np.nan
    result = np.float64 if dtype == F64 else np.float32
    out = np.full((rows, 70), np.nan, result)
    matmul(a, b, out=out, precision=precision, threads=threads)
    for start in range(0, rows, 64):
        few = matmul(a[start : start + 64], b, dtype=result, precision=precision, threads=1)
        np.testing.assert_array_equal(out[start : start + 64], few)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_rows_a_page_apart_give_the_same_bits(dtype: Any) -> None:
    """They are copied side by side where there are many columns; rows that are not a page apart are not."""
    rng = np.random.default_rng(8)
    page = 4096 // dtype.itemsize
    wide = random_array(rng, (2 * ROWS + 5, page), dtype)
    near = np.zeros((len(wide), page + 8), dtype)
    near[:, :page] = wide
    for k in (page, page - 3, gemm.BLOCK_STEPS + 1):
        b = random_array(rng, (k, 300), dtype)
        apart = matmul(wide[:, :k], b)
        assert apart.tobytes() == matmul(near[:, :k], b).tobytes()
        assert apart[:, :40].tobytes() == matmul(wide[:, :k], b[:, :40]).tobytes()


def test_long_chains_go_on() -> None:
    """More k than one call of the kernel takes, with and without contiguous rows of C."""
    rng = np.random.default_rng(1)
    a, b = (
        random_array(rng, (2, gemm.MAX_K + 300), BF16),
        random_array(rng, (gemm.MAX_K + 300, 3), BF16),
    )
    expected = chain(a, b)
    np.testing.assert_array_equal(matmul(a, b, dtype=F32), expected)
    np.testing.assert_array_equal(matmul(a, b), expected.astype(BF16))
    out = np.zeros((3, 2), F32).T
    np.testing.assert_array_equal(matmul(a, b, out=out), expected)


@pytest.mark.parametrize("dtype", thorough([F32, F64, np.dtype(np.int8)], F32))
def test_not_deterministic_shares_k(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    k = 40000
    a, b = random_array(rng, (5, k), dtype), random_array(rng, (k, 7), dtype)
    wide = np.int64 if dtype == np.int8 else F64
    exact = a.astype(wide) @ b.astype(wide)
    found = [matmul(a, b, threads=2, deterministic=False, alpha=2) for _ in range(2)]
    atol = {4: 0.5, 8: 1e-8, 1: 0}[dtype.itemsize]
    np.testing.assert_allclose(found[0], 2 * exact, rtol=0, atol=atol)
    np.testing.assert_array_equal(found[0], found[1])


def test_stacks() -> None:
    rng = np.random.default_rng(1)
    a, b = random_array(rng, (3, 1, 5, 8), F32), random_array(rng, (4, 8, 6), F32)
    found = matmul(a, b)
    assert found.shape == (3, 4, 5, 6)
    for i in range(3):
        for j in range(4):
            np.testing.assert_array_equal(found[i, j], chain(a[i, 0], b[j]))
    turned = matmul(a.swapaxes(-1, -2), b, transpose_a=True)
    np.testing.assert_array_equal(turned, found)


def test_out_may_overlap() -> None:
    rng = np.random.default_rng(1)
    a, b = random_array(rng, (40, 40), F32), random_array(rng, (40, 40), F32)
    expected = chain(a, b)
    for which in (0, 1):
        operands = [a.copy(), b.copy()]
        matmul(*operands, out=operands[which])
        np.testing.assert_array_equal(operands[which], expected)
    out = np.zeros((40, 40), F32)
    matmul(a, b, out=out, bias=out[0])
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_empty(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    found = matmul(np.ones((m, k), F32), np.ones((k, n), F32))
    np.testing.assert_array_equal(found, np.zeros((m, n), F32))
    out = np.full((m, n), 3, F32)
    matmul(np.ones((m, k), F32), np.ones((k, n), F32), out=out, beta=2, bias=np.ones(n, F32))
    np.testing.assert_array_equal(out, np.full((m, n), 7, F32))


ONE = np.ones((2, 2), F32)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"a": [[1.0]]}, "a must be a NumPy array, but got list"),
        ({"a": np.ones(2, F32)}, "a must have at least 2 axes, but got shape (2,)"),
        ({"a": np.ones((2, 2), np.int16)}, "a must have one of the dtypes"),
        ({"b": np.ones((2, 2), F16)}, "b must have the dtype of a, float32, but got float16"),
        ({"b": np.ones((3, 2), F32)}, "b must have a's k of 2, but got 3"),
        ({"out": np.ones((2, 3), F32)}, "out must have shape (2, 2), but got (2, 3)"),
        ({"out": np.ones((2, 2), np.int32)}, "the result of float32 must have one of"),
        ({"out": np.broadcast_to(ONE, (2, 2))}, "out must be writable"),
        ({"out": ONE.copy(), "dtype": F16}, "out must have dtype float16, but got float32"),
        ({"dtype": F64}, "the result of float32 must have one of the dtypes"),
        ({"beta": 1}, "out must be given when beta is not 0, but got beta 1"),
        ({"bias": np.ones(3, F32)}, "bias must have shape (2,), but got (3,)"),
        ({"threads": 0}, "threads must be in [1, 1024], but got 0"),
        ({"a": np.ones((3, 2, 2), F32), "b": np.ones((2, 2, 2), F32)}, "must broadcast before"),
        (
            {"a": ONE.astype(np.int8), "b": ONE.astype(np.int8), "alpha": 0.5},
            "alpha and beta must be integral for int8, and fit 64 bits, but got alpha 0.5",
        ),
        (
            {"a": ONE.astype(np.int8), "b": ONE.astype(np.int8), "alpha": np.inf},
            "alpha and beta must be integral for int8, and fit 64 bits, but got alpha inf",
        ),
        (
            {"a": ONE.astype(np.int8), "b": ONE.astype(np.int8), "bias": np.ones(2)},
            "bias must be of integers for int8, but got float64",
        ),
    ],
)
def test_errors(arguments: dict[str, Any], text: str) -> None:
    out = arguments.get("out")
    before = None if out is None else out.copy()
    with pytest.raises(ArgumentError) as caught:
        matmul(**{"a": ONE, "b": ONE, **arguments})
    assert text in str(caught.value)
    if out is not None:
        np.testing.assert_array_equal(out, before)


def test_from_several_python_threads() -> None:
    rng = np.random.default_rng(1)
    a, b = random_array(rng, (200, 300), F32), random_array(rng, (300, 200), F32)
    expected = matmul(a, b, threads=1)
    with ThreadPoolExecutor(4) as executor:
        for found in executor.map(lambda t: matmul(a, b, threads=t), [1, 2] * 8):
            np.testing.assert_array_equal(found, expected)


def product_digest(threads: int | None = None) -> str:
    """The bits of some products: what all processes and CPUs must agree on."""
    rng = np.random.default_rng(9)
    digest = hashlib.sha256()
    for dtype in (F32, F64, F16, BF16, np.dtype(np.int8)):
        for m, n, k in [(61, 77, 300), (300, 40, 65), (2, 130, 9), (97, 3, 1100)]:
            a, b = random_array(rng, (m, k), dtype), random_array(rng, (k, n), dtype)
            digest.update(matmul(a, b, threads=threads).tobytes())
            digest.update(matmul(a.T, b.T, transpose_a=True, transpose_b=True).tobytes())
            turned = matmul(np.asfortranarray(a), np.asfortranarray(b), threads=threads)
            digest.update(turned.tobytes())
    return digest.hexdigest()


def in_a_pe() -> list[str]:
    return [product_digest(), product_digest(threads=2)]


def test_in_pes() -> None:
    expected = product_digest()
    assert emu.launch(in_a_pe, 2) == [[expected] * 2] * 2


def test_after_a_fork() -> None:
    """GNU OpenMP kills a fork of a process that used threads when it uses them too: ours does not."""
    expected = product_digest(threads=2)  # threads have started
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=lambda: queue.put(product_digest(threads=2)))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert queue.get() == expected


CPUS = {
    "x86-64-v3": "+sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+popcnt,+lzcnt,+movbe",
    "skylake-avx512": "+sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+popcnt,+lzcnt,+movbe,"
    "+avx512f,+avx512bw,+avx512vl,+avx512dq,+avx512cd",
    "ivybridge": "+sse4.2,+avx,+f16c,+popcnt",  # no fused multiply-add; none without F16C works
}


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="names CPUs of x86-64")
@pytest.mark.parametrize("cpu", CPUS)
def test_for_other_cpus(cpu: str) -> None:
    """Compiled for CPUs without this one's widest vectors: right, and the same bits if fused."""
    features = CPUS[cpu].replace("+", "").split(",")
    cpuinfo = Path("/proc/cpuinfo")
    info = cpuinfo.read_text("utf-8") if cpuinfo.exists() else ""
    if cpu == "skylake-avx512" and "avx512dq" not in info:
        pytest.skip("this CPU has no AVX-512")
    if cpu == "x86-64-v3" and "avx2" not in info:
        pytest.skip("this CPU has no AVX2")
    code = (
        "import runpy, sys; names = runpy.run_path(sys.argv[1]);"
        "[names['test_int8_long_and_extreme'](k) for k in (5, 20000)];"
        "names['test_special_values'](names['F32']);"
        "names['test_beside_numpy'](names['BF16'], (97, 130, 300));"
        "names['test_each_element_is_one_chain']();"
        "names['test_int8']();"
        "print(names['LAYOUT'].fused, names['product_digest']())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, __file__],
        env={
            **os.environ,
            "NUMBA_CPU_NAME": cpu,
            "NUMBA_CPU_FEATURES": CPUS[cpu],
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),  # this file's own imports
        },
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    fused, digest = done.stdout.split()
    assert (fused == "True") == choose_layout(frozenset(features), True).fused
    if fused == str(LAYOUT.fused):
        assert digest == product_digest()


# --- a matrix packed once -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*FLOATS, F64, np.int8], ids=str)
def test_a_packed_matrix_gives_the_same_bits(dtype):
    rng = np.random.default_rng(4)
    old = None
    for k, n in ((70, 3 * COLUMNS_32 + 5), (1, 1), (600, 40), (gemm.MAX_K, 100), (300, COLUMNS_32)):
        b = random_array(rng, (k, n), dtype)
        for transposed in (False, True):
            given_b = np.asfortranarray(b).T if transposed else b
            packed = pack(given_b, transpose_b=transposed, reuse=old)
            for m in (1, 3, ROWS, 2 * ROWS + 1, 100):
                a = random_array(rng, (m, k), dtype)
                bias = random_array(rng, (n,), dtype)
                for threads in (1, 2):
                    got = matmul(a, packed, threads=threads)
                    assert got.tobytes() == matmul(a, b, threads=1).tobytes()
                    got = matmul(a, packed, bias=bias, alpha=2, threads=threads)
                    assert got.tobytes() == matmul(a, b, bias=bias, alpha=2, threads=1).tobytes()
            stack = random_array(rng, (3, 5, k), dtype)
            assert matmul(stack, packed).tobytes() == matmul(stack, b).tobytes()
            old = packed


def test_a_packed_matrix_stays_as_it_was():
    a = np.ones((40, 30), F32)
    for k in (30, gemm.MAX_K + 1):
        a, b = np.ones((40, k), F32), np.ones((k, 30), F32)
        packed = pack(b)
        before = matmul(a, packed)
        b[...] = 5
        assert matmul(a, packed).tobytes() == before.tobytes()


def test_a_packed_matrix_whose_memory_was_taken_still_multiplies():
    rng = np.random.default_rng(5)
    a, b, c = (random_array(rng, (50, 50), F32) for _ in range(3))
    first = pack(b)
    second = pack(c, reuse=first)
    assert matmul(a, first).tobytes() == matmul(a, b).tobytes()
    assert matmul(a, second).tobytes() == matmul(a, c).tobytes()


def test_a_packed_matrix_that_was_forgotten_keeps_its_memory_alone():
    rng = np.random.default_rng(5)
    a, b, c = (random_array(rng, (50, 50), F32) for _ in range(3))
    expected, gone = matmul(a, b), weakref.ref(b)
    packed = pack(b)
    address = packed.panels
    packed.forget()
    del b
    assert gone() is None
    with pytest.raises(ArgumentError, match="b must have a's k of 50, but got 0"):
        matmul(a, packed)
    again = pack(c, reuse=packed)
    assert again.panels == address
    assert matmul(a, again).tobytes() == matmul(a, c).tobytes()
    assert expected.shape == (50, 50)


def test_the_result_may_lie_in_the_packed_matrix():
    b = random_array(np.random.default_rng(6), (60, 60), F32)
    a, packed = b.copy(), pack(b)
    expected = matmul(a, b)
    assert matmul(a, packed, out=b).tobytes() == expected.tobytes()


def test_what_cannot_be_packed_is_refused():
    for b, pattern in (
        (np.ones(3, F32), r"b must be a matrix, but got an array of shape \(3,\)"),
        ([[1.0]], r"b must be a matrix, but got \[\[1.0\]\]"),
        (np.ones((2, 2), np.int16), r"must have one of the dtypes .*, but got int16"),
    ):
        with pytest.raises(ArgumentError, match=pattern):
            pack(b)
    with pytest.raises(ArgumentError, match="b must have a's k of 3, but got 2"):
        matmul(np.ones((2, 3), F32), pack(np.ones((2, 2), F32)))


def test_what_was_packed_lives_until_its_product_is_done(monkeypatch):
    """Also where nobody but the call holds it."""
    made, alive = [], []
    run = matmul_module._Work.run

    def watched(self, a, b, c):
        alive.append(made[0]() is not None)
        run(self, a, b, c)

    def packed():
        result = pack(np.ones((30, 20), F32))
        made.append(weakref.ref(result))
        return result

    monkeypatch.setattr(matmul_module._Work, "run", watched)
    product = matmul(np.ones((4, 30), F32), packed())
    assert alive == [True]
    assert (product == 30).all()
