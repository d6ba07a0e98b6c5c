"""Products of matrices against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypto_ops import few, ragged, same, seeds, values, zero_outside

import emu.pypto as p
from emu.kernels import matmul as kernels


@few
@given(
    batch=st.sampled_from([(), (2,), (2, 3)]),
    m=st.integers(1, 5),
    k=st.integers(1, 5),
    n=st.integers(1, 5),
    seed=seeds,
    dtype=st.sampled_from([p.DT_FP16, p.DT_BF16, p.DT_FP32, p.DT_INT8, p.DT_INT32]),
    a_trans=st.booleans(),
    b_trans=st.booleans(),
)
def test_matmul(batch, m, k, n, seed, dtype, a_trans, b_trans):
    a = values(seed, (*batch, *((k, m) if a_trans else (m, k))), dtype)
    b = values(seed + 1, (n, k) if b_trans else (k, n), dtype)
    left = a.swapaxes(-1, -2) if a_trans else a
    exact = left.astype(np.float64) @ (b.T if b_trans else b).astype(np.float64)
    wide = p.matmul(p.from_numpy(a), p.from_numpy(b), p.DT_FP32, a_trans=a_trans, b_trans=b_trans)
    np.testing.assert_allclose(wide.numpy(), exact, rtol=1e-5, atol=1e-4)
    if dtype is p.DT_INT32:
        got = p.matmul(p.from_numpy(a), p.from_numpy(b), a_trans=a_trans, b_trans=b_trans)
        np.testing.assert_array_equal(got.numpy(), exact)


def test_matmul_refuses():
    a = p.zeros([2, 3])
    for other, message in (
        (p.zeros([2, 3]), "agree on k, but got 3 and 2"),
        (p.zeros([3]), "at least 2 axes"),
        (p.zeros([3, 2], p.DT_FP16), "one dtype"),
    ):
        with pytest.raises(p.ArgumentError, match=message):
            p.matmul(a, other)
    with pytest.raises(p.ArgumentError, match="batch axes"):
        p.matmul(p.zeros([2, 2, 3]), p.zeros([3, 3, 2]))


def test_matmul_does_not_round_before_the_cast():
    ones = np.ones((1, 4096), np.float16)
    same(
        p.matmul(p.from_numpy(ones), p.from_numpy(ones), b_trans=True),
        np.array([[4096]], np.float16),
    )


def test_matmul_of_ragged():
    got = p.matmul(ragged(), p.ones([4, 4]))
    assert got.valid_shape == (2, 4)
    same(got, zero_outside(-2) @ np.ones((4, 4), np.float32))
    same(
        p.matmul(ragged(), ragged(), a_trans=True),
        zero_outside(-2).T @ zero_outside(-2),
    )


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float32])
def test_a_product_has_the_bits_of_its_precision(dtype):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((70, 200), (200, 50)))
    exact, native = (kernels.matmul(a, b, precision=precision) for precision in ("exact", "native"))
    x, y = p.from_numpy(a), p.from_numpy(b)
    same(p.matmul(x, y), exact)
    same(p.matmul(x, y, precision="native"), native)
    bias = np.zeros((1, 50), dtype)
    same(p.matmul(x, y, bias=p.from_numpy(bias), precision="native"), native)

    @p.frontend.jit
    def kernel(x, y, out):
        # What was set when the program asked for the product, not when it is computed.
        with p.set_options(precision="native"):
            product = p.matmul(x, y)
        out[:, :] = product

    out = np.zeros((70, 50), dtype)
    kernel(a, b, out)
    np.testing.assert_array_equal(out, native)
    same(p.matmul(x, y), exact)
    with p.set_options(precision="native"):
        same(p.matmul(x, y), native)
        same(p.matmul(x, y, precision="exact"), exact)


@pytest.mark.parametrize("precision", ["fast", "", 1, ["native"]])
def test_there_are_two_precisions(precision):
    a = p.zeros([2, 2])
    with pytest.raises(p.ArgumentError, match="precision must be 'exact' or 'native', but got"):
        p.matmul(a, a, precision=precision)
    with pytest.raises(p.ArgumentError, match="precision must be 'exact' or 'native', but got"):
        p.set_options(precision=precision)
