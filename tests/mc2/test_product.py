"""Products with bias and scales, and restored weights, against their definitions."""

from __future__ import annotations

import mc2_reference as reference
import numpy as np
import pytest

from emu.comm.errors import ArgumentError
from emu.kernels.matmul import matmul
from emu.mc2.arguments import FLOAT16, FLOAT32, HALVES, INT8
from emu.mc2.product import Product, restore_weight, row_scales

M, K, N = 5, 6, 4


def numbers(seed, shape, dtype):
    rng = np.random.default_rng(seed)
    if dtype == INT8:
        return rng.integers(-128, 128, shape).astype(INT8)
    return rng.standard_normal(shape).astype(FLOAT32).astype(dtype)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", HALVES)
def test_halves_are_summed_with_their_bias_and_rounded_once(dtype, packed):
    x1, x2, bias = numbers(1, (M, K), dtype), numbers(2, (K, N), dtype), numbers(3, N, FLOAT32)
    product = Product(x2, bias)
    if packed:
        product.pack()
    out = np.empty((M, N), dtype)
    product.multiply(x1, out)
    np.testing.assert_array_equal(out, matmul(x1, x2, bias=bias))


@pytest.mark.parametrize("out_dtype", HALVES)
@pytest.mark.parametrize("columns", [1, N])
def test_scales_of_int8_are_multiplied_one_after_the_other(columns, out_dtype):
    x1, x2 = numbers(1, (M, K), INT8), numbers(2, (K, N), INT8)
    bias = np.arange(N, dtype=np.int32)
    scale, tokens = numbers(3, columns, FLOAT32), numbers(4, M, FLOAT32)
    more = numbers(5, (M, N), out_dtype)
    product = Product(x2, bias, scale=scale, dtype=out_dtype)
    out = np.empty((M, N), out_dtype)
    product.multiply(x1, out, tokens=tokens, more=more)
    sums = x1.astype(np.int32) @ x2.astype(np.int32) + bias
    wide = sums.astype(FLOAT32) * scale * tokens[:, None] + more.astype(FLOAT32)
    np.testing.assert_array_equal(out, reference.rounded(wide, out_dtype))


def test_scales_go_with_int8_alone():
    whole, half = numbers(1, (K, N), INT8), numbers(1, (K, N), FLOAT16)
    with pytest.raises(ArgumentError, match="x2_scale must be given for int8, but got None"):
        Product(whole, None)
    with pytest.raises(ArgumentError, match="dequant_scale must be None for float16"):
        Product(half, None, scale_name="dequant_scale", scale=np.ones(1, FLOAT32))
    with pytest.raises(ArgumentError, match="x1_scale must be None for float16"):
        row_scales("x1_scale", np.ones(M, FLOAT32), Product(half, None), M)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("group_size", [0, 2, 3])
def test_weights_are_restored_in_fp32_with_one_rounding(group_size, dtype):
    x2 = numbers(1, (K, N), INT8)
    shape = (N,) if group_size == 0 else (K // group_size, N)
    scale, offset = numbers(2, shape, FLOAT32), numbers(3, shape, FLOAT32)
    rows = (lambda a: a) if group_size == 0 else (lambda a: np.repeat(a, group_size, axis=0))
    wide = (x2.astype(FLOAT32) + rows(offset)) * rows(scale)
    found = restore_weight(x2, dtype, scale, offset, group_size)
    np.testing.assert_array_equal(found, reference.rounded(wide, dtype))


def test_groups_of_rows_divide_the_rows_of_a_weight():
    with pytest.raises(ArgumentError, match="antiquant_group_size must be 0 or a divisor of k of 6, but got 4"):  # fmt: skip
        restore_weight(numbers(1, (K, N), INT8), FLOAT16, np.ones((1, N), FLOAT32), None, 4)
