"""Matrix products in device memory: one chain of fused multiply-adds an element."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from campaigns import TIMES
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.kernels.cuda.arrays import to_device
from emu.kernels.cuda.matmul import matmul
from emu.kernels.errors import ArgumentError

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
KINDS = [np.dtype(k) for k in (np.float32, np.float64, np.float16, BFLOAT16, np.int8)]


def rounded(exact, dtype):
    """Round a fraction once, to fp32 or fp64."""
    near = dtype.type(float(exact))
    if dtype == np.float64:
        return near
    candidates = [
        near,
        np.nextafter(near, dtype.type(-np.inf)),
        np.nextafter(near, dtype.type(np.inf)),
    ]
    return min(
        candidates,
        key=lambda c: (abs(Fraction(float(c)) - exact), int(c.view(np.uint32)) & 1),
    )


def chain(a, b):
    """The reference, in exact arithmetic rounded once a step."""
    if a.dtype == np.int8:
        return a.astype(np.int32) @ b.astype(np.int32)
    dtype = np.dtype(np.float64 if a.dtype == np.float64 else np.float32)
    result = np.zeros((a.shape[0], b.shape[1]), dtype)
    for i, j in np.ndindex(result.shape):
        for x, y in zip(a[i].tolist(), b[:, j].tolist(), strict=True):
            result[i, j] = rounded(Fraction(x) * Fraction(y) + Fraction(float(result[i, j])), dtype)
    return result


def cast(array, dtype):
    with np.errstate(over="ignore"):
        return array.astype(dtype)


def matrix(rng, shape, dtype):
    if dtype == np.int8:
        return rng.integers(-128, 128, shape, dtype)
    return (rng.normal(size=shape) * rng.choice([1e-3, 1, 1e3], shape)).astype(dtype)


@settings(deadline=None, max_examples=20 * TIMES)
@given(
    m=st.integers(1, 10),
    n=st.integers(1, 10),
    k=st.integers(0, 9),
    dtype=st.sampled_from(KINDS),
    turns=st.tuples(*[st.booleans()] * 5),
    seed=st.integers(0, 1000),
)
def test_any_size_stride_and_transposition(m, n, k, dtype, turns, seed):
    rng = np.random.default_rng(seed)
    a, b = matrix(rng, (m, k), dtype), matrix(rng, (k, n), dtype)
    left, right = (
        to_device(x.T).T if turn else to_device(x) for x, turn in zip((a, b), turns, strict=False)
    )
    left, right = (
        to_device(np.repeat(x.copy_to_host(), 2, 0))[::2][::-1][::-1] if turn else x
        for x, turn in zip((left, right), turns[2:], strict=False)
    )
    transposed = turns[4]
    found = matmul(
        left.T if transposed else left,
        right.T if transposed else right,
        transpose_a=transposed,
        transpose_b=transposed,
    ).copy_to_host()
    expected = chain(a, b)
    assert found.dtype == (np.int32 if dtype == np.int8 else dtype)
    np.testing.assert_array_equal(found, cast(expected, found.dtype))


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_factors_bias_and_a_strided_result(dtype):
    rng = np.random.default_rng(5)
    a, b = matrix(rng, (9, 5), dtype), matrix(rng, (5, 11), dtype)
    total = chain(a, b)
    result = np.dtype(np.int32) if dtype == np.int8 else dtype
    old, bias = (rng.integers(-9, 9, n).astype(result) for n in ((9, 22), (11,)))
    alpha, beta = (3, -2) if dtype == np.int8 else (0.3, -1.7)
    work = total.dtype.type
    expected = work(alpha) * total + work(beta) * old[:, ::2].astype(work) + bias.astype(work)
    out = to_device(old)
    found = matmul(
        *(to_device(x) for x in (a, b)),
        out=out[:, ::2],
        alpha=alpha,
        beta=beta,
        bias=to_device(bias),
    )
    np.testing.assert_array_equal(found.copy_to_host(), cast(expected, result))
    np.testing.assert_array_equal(out.copy_to_host()[:, 1::2], old[:, 1::2])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16], ids=str)
@pytest.mark.parametrize("result", [np.float32, np.float16, BFLOAT16], ids=str)
def test_the_result_may_have_another_dtype(dtype, result):
    rng = np.random.default_rng(6)
    a, b = matrix(rng, (3, 4), np.dtype(dtype)), matrix(rng, (4, 5), np.dtype(dtype))
    out = to_device(np.full((3, 5), np.nan, result))
    matmul(to_device(a), to_device(b), out=out)  # with beta 0, what was there is not read
    np.testing.assert_array_equal(out.copy_to_host(), cast(chain(a, b), result))


def test_int32_wraps():
    a, b = np.full((1, 4), -128, np.int8), np.full((4, 1), -128, np.int8)
    found = matmul(to_device(a), to_device(b), alpha=1 << 17).copy_to_host()
    assert found.tolist() == [[((4 << 14 << 17) + (1 << 31)) % (1 << 32) - (1 << 31)]]


def test_infinities_and_nan_stay_in_their_row_and_column():
    a = np.array([[np.inf, 1], [1, 2], [np.nan, 0]], np.float32)
    b = np.array([[1, 0], [1, 1]], np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(matmul(to_device(a), to_device(b)).copy_to_host(), a @ b)


def test_without_elements():
    a, b = to_device(np.zeros((0, 3), np.float32)), to_device(np.zeros((3, 4), np.float32))
    assert matmul(a, b).copy_to_host().shape == (0, 4)
    bias = to_device(np.arange(4, dtype=np.float32))
    found = matmul(b.T[:, :0], b[:0], bias=bias).copy_to_host()
    np.testing.assert_array_equal(found, np.broadcast_to(np.arange(4), (4, 4)))


def test_arguments_that_are_not_so_are_refused():
    a, b = to_device(np.ones((2, 3), np.float32)), to_device(np.ones((3, 4), np.float32))
    c = to_device(np.ones((2, 4), np.float32))
    ints = to_device(np.ones((2, 2), np.int8))
    for call, match in [
        (lambda: matmul(np.ones((2, 2)), b), "^a must be in device memory"),
        (lambda: matmul(a[0], b), "^a must have rank 2, but got rank 1"),
        (lambda: matmul(a, b[None]), "^b must have rank 2, but got rank 3"),
        (lambda: matmul(a, ints), "^b must have a's dtype float32, but got int8"),
        (lambda: matmul(a, a), r"^a and b must agree in k, but got the shapes \(2, 3\)"),
        (lambda: matmul(a, b, transpose_a=True), "^a and b must agree in k"),
        (lambda: matmul(a, b, out=c.T), r"^out must have the shape \(2, 4\), but got \(4, 2\)"),
        (lambda: matmul(a, b, out=ints), "^out must have one of the dtypes float32, float16"),
        (lambda: matmul(a, b, beta=1.0), "^beta must be 0 where out is None, but got 1.0"),
        (lambda: matmul(a, b, bias=c[0, :3]), r"^bias must have the dtype float32 and the shape"),
        (lambda: matmul(a, b, out=c, bias=c[0]), "^bias must share no memory with out"),
        (lambda: matmul(ints, ints, alpha=0.5), "^alpha must be an int32 for int8 matrices"),
        (lambda: matmul(b[:2, :2], b[:2, :2], out=b[1:, :2]), "^a must share no memory"),
    ]:
        with pytest.raises(ArgumentError, match=match):
            call()
    np.testing.assert_array_equal(c.copy_to_host(), np.ones((2, 4)))
