"""Tiles and atomics under pytest-benchmark; what is asserted is what a call did, never its time."""

from typing import Any

import ml_dtypes
import numba
import numpy as np
import pytest

from emu.kernels import atomics
from emu.kernels.tiles import add_tile, set_tile

pytestmark = pytest.mark.benchmark(max_time=0.05, min_rounds=3, warmup=False)

DTYPES = pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16], ids=["fp32", "bf16"])
N = 256


def source(dtype: Any) -> np.ndarray:
    return np.random.default_rng(0).integers(-8, 8, (N, N)).astype(dtype)


@DTYPES
def test_set_dense(benchmark, dtype):
    tile, target = source(dtype), np.zeros((N, N), dtype)
    benchmark(set_tile, target, tile)
    np.testing.assert_array_equal(target, tile)


@DTYPES
def test_set_transposed(benchmark, dtype):
    tile, target = source(dtype).T, np.zeros((N, N), dtype)
    benchmark(set_tile, target, tile)
    np.testing.assert_array_equal(target, tile)


@DTYPES
def test_add_columns(benchmark, dtype):
    tile, whole = source(dtype), np.zeros((N, 2 * N), dtype)
    benchmark.pedantic(add_tile, args=(whole[:, 5 : N + 5], tile), rounds=5)
    calls = float(whole[0, 5]) / float(tile[0, 0])  # one where benchmarks are switched off
    assert calls >= 1
    np.testing.assert_array_equal(
        whole[:, 5 : N + 5], (calls * tile.astype(np.float32)).astype(dtype)
    )
    assert not whole[:, :5].any()
    assert not whole[:, N + 5 :].any()


def test_set_small(benchmark):
    tile, whole = source(np.float32)[:8, :8], np.zeros((64, 64), np.float32)
    benchmark(set_tile, whole[8:16, ::8], tile)
    np.testing.assert_array_equal(whole[8:16, ::8], tile)


@numba.njit
def count(array, index):
    for i in index:
        atomics.add(array, i, 1)


@pytest.mark.parametrize("dtype", [np.int32, np.float32], ids=["int32", "fp32"])
def test_atomic_add(benchmark, dtype):
    array, index = np.zeros(64, dtype), np.arange(6400) % 64
    benchmark.pedantic(count, args=(array, index), rounds=4)
    assert array[0] >= 100  # by as many calls as there were
    assert (array == array[0]).all()
