"""Conversion and quantisation under pytest-benchmark: a developer's quick look.

What is asserted is what a call did; no test asserts a time.
"""

import ml_dtypes
import numpy as np
import pytest

from emu.kernels.cast import cast
from emu.kernels.quant import dequantize, dynamic_quantize, quant_scatter, quantize

pytestmark = pytest.mark.benchmark(max_time=0.05, min_rounds=3, warmup=False)

BF16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
each_dtype = pytest.mark.parametrize("dtype", [np.dtype(dtype) for dtype in DTYPES], ids=str)
SHAPE = (2048, 128)


@pytest.fixture(scope="module")
def x():
    values = 3 * np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32)
    values[0, :3] = np.nan, np.inf, -np.inf
    return values


@each_dtype
def test_narrow(benchmark, x, dtype):
    out = np.zeros(SHAPE, dtype)
    benchmark(cast, x, dtype, out=out)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out.astype(np.float32), x.astype(dtype).astype(np.float32))


@each_dtype
def test_widen(benchmark, x, dtype):
    with np.errstate(all="ignore"):
        narrow = x.astype(dtype)
    out = np.zeros(SHAPE, np.float32)
    benchmark(cast, narrow, np.float32, out=out)
    np.testing.assert_array_equal(out, narrow.astype(np.float32))


def test_quantize(benchmark, x):
    scales = np.linspace(0.1, 1, SHAPE[1], dtype=np.float32)
    out = np.zeros(SHAPE, np.int8)
    benchmark(quantize, x, scales, 2, out=out)
    assert out[0, :3].tolist() == [0, 127, -128]
    np.testing.assert_array_equal(out[1:], np.clip(np.rint(x[1:] / scales + 2), -128, 127))


def test_dynamic_quantize(benchmark, x):
    q, scales = benchmark(dynamic_quantize, x)
    assert np.isnan(scales[0])
    assert (np.abs(q[1:].astype(int)).max(-1) == 127).all()


def test_dequantize(benchmark):
    q = np.arange(-128, 128, dtype=np.int8).repeat(1024).reshape(-1, 128)
    out = benchmark(dequantize, q, 0.5, -3.0)
    np.testing.assert_array_equal(out, (q.astype(np.float32) - 3) / 2)


@pytest.mark.parametrize("run", [1, 512])
def test_scatter(benchmark, run):
    cache = np.zeros((8, 1024, 128), np.int8)
    starts = np.arange(8) * 3
    updates = np.full((8, run, 128), 5, BF16)
    benchmark(quant_scatter, cache, starts, updates, np.full(128, 0.5, BF16))
    for batch, start in enumerate(starts):
        assert (cache[batch, start : start + run] == 10).all()
    assert cache.sum(dtype=np.int64) == 10 * 8 * run * 128
