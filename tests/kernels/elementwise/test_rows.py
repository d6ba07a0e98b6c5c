"""Weighted sums of rows and scaled products, bit for bit against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.kernels.elementwise.rows import scale_product, weighted_row_sum
from emu.kernels.errors import ArgumentError

BF16 = np.dtype(ml_dtypes.bfloat16)
VALUES = [np.dtype(np.float16), BF16, np.dtype(np.float32)]


def sum_reference(rows, index, weights, extra=None):
    """The meaning, place by place."""
    out = np.empty((len(index), rows.shape[1]), rows.dtype)
    with np.errstate(all="ignore"):
        for t in range(len(index)):
            total = np.zeros(rows.shape[1], np.float32)
            for row, weight in zip(index[t], weights[t], strict=True):
                if row >= 0:
                    total = total + rows[row].astype(np.float32) * weight
            if extra is not None:
                total = total + extra[t].astype(np.float32)
            out[t] = total.astype(rows.dtype)
    return out


def scale_reference(product, columns, rows=None, dtype=np.float16):
    with np.errstate(all="ignore"):
        values = product.astype(np.float32) * columns
        return (values if rows is None else values * rows[:, None]).astype(dtype)


def same(actual, expected):
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    # A NaN's payload is not promised.
    nan = np.isnan(expected.astype(np.float32))
    assert (np.isnan(actual.astype(np.float32)) == nan).all()
    assert actual[~nan].tobytes() == expected[~nan].tobytes()


def values(rng, shape, dtype, wild=False):
    x = rng.standard_normal(shape) * 4
    if wild and x.size:
        x.flat[rng.integers(0, x.size, 1 + x.size // 8)] = rng.choice(
            [0.0, -0.0, np.inf, -np.inf, np.nan, 6e4, 1e-7], 1 + x.size // 8
        )
    return x.astype(dtype)


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(VALUES),
    st.integers(0, 6),
    st.integers(0, 9),
    st.sampled_from([0, 1, 7, 64, 2047, 2048, 2049, 4100]),
    st.integers(1, 12),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_a_weighted_sum_is_the_reference_bit_for_bit(dtype, m, k, h, n, extra, seed):
    rng = np.random.default_rng(seed)
    rows = values(rng, (n, h), dtype, wild=seed % 2 == 0)
    index = rng.integers(-1, n, (m, k)).astype(np.int32)
    weights = values(rng, (m, k), np.float32)
    more = values(rng, (m, h), dtype) if extra else None
    same(
        weighted_row_sum(rows, index, weights, extra=more),
        sum_reference(rows, index, weights, more),
    )


def test_an_absent_place_adds_nothing_even_with_a_weight_of_nan():
    rows = np.full((1, 3), np.inf, np.float16)
    index, weights = np.array([[-1, -1]], np.int32), np.array([[np.nan, 1]], np.float32)
    out = weighted_row_sum(rows, index, weights)
    assert out.tobytes() == np.zeros((1, 3), np.float16).tobytes()


def test_no_rows_at_all_give_the_extra_rows():
    extra = np.arange(6, dtype=np.float16).reshape(2, 3)
    index, weights = np.full((2, 4), -1, np.int32), np.ones((2, 4), np.float32)
    out = weighted_row_sum(np.empty((0, 3), np.float16), index, weights, extra=extra)
    assert out.tobytes() == extra.tobytes()


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(VALUES),
    st.integers(0, 5),
    st.sampled_from([0, 1, 15, 2048, 2051]),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_a_scaled_product_is_the_reference_bit_for_bit(dtype, m, n, by_row, seed):
    rng = np.random.default_rng(seed)
    product = rng.integers(-(2**31), 2**31, (m, n)).astype(np.int32)
    columns = (rng.standard_normal(n) * 1e-5).astype(np.float32)
    rows = (rng.standard_normal(m) * 3).astype(np.float32) if by_row else None
    expected = scale_reference(product, columns, rows, dtype)
    same(scale_product(product, columns, rows, dtype=dtype), expected)
    out = np.empty((m, n), dtype)
    assert scale_product(product, columns, rows, out=out) is out
    same(out, expected)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"rows": np.zeros((2, 3))}, "rows.dtype must be one of float16, bfloat16, float32"),
        ({"rows": np.zeros((2, 6), np.float16)[:, ::2]}, "rows must be dense"),
        ({"index": np.zeros((1, 2), np.int64)}, "index must have dtype int32, but got int64"),
        ({"index": np.full((1, 2), 2, np.int32)}, r"index must be -1 or in \[0, 2\).*but got 2"),
        ({"index": np.full((1, 2), -2, np.int32)}, "but got -2"),
        ({"weights": np.zeros((2, 1), np.float32)}, r"weights must have shape \[1, 2\]"),
        ({"extra": np.zeros((1, 4), np.float16)}, r"extra must have shape \[1, 3\]"),
        ({"out": np.zeros((1, 4), np.float16)}, r"out must have shape \(1, 3\)"),
    ],
)
def test_a_weighted_sum_of_wrong_arguments_is_refused(change, text):
    given = {
        "rows": np.zeros((2, 3), np.float16),
        "index": np.zeros((1, 2), np.int32),
        "weights": np.zeros((1, 2), np.float32),
        **change,
    }
    with pytest.raises(ArgumentError, match=text):
        weighted_row_sum(given.pop("rows"), given.pop("index"), given.pop("weights"), **given)


def test_a_product_of_other_dtypes_is_refused():
    with pytest.raises(ArgumentError, match="product must have dtype int32, but got int64"):
        scale_product(np.zeros((2, 2), np.int64), np.zeros(2, np.float32))
    with pytest.raises(ArgumentError, match="columns must have shape"):
        scale_product(np.zeros((2, 2), np.int32), np.zeros(3, np.float32))
    with pytest.raises(ArgumentError, match="dtype must be one of"):
        scale_product(np.zeros((2, 2), np.int32), np.zeros(2, np.float32), dtype=np.int8)
