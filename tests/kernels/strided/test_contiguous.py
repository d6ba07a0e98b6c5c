"""Sums of contiguous elements, with the vectors' tails, atomic or not."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from emu.kernels.core.dtypes import BFLOAT16, KINDS
from emu.kernels.strided.contiguous import add_contiguous, add_contiguous_atomic


def added(one, other):
    if one.dtype in (np.float16, BFLOAT16):
        return (one.astype(np.float32) + other.astype(np.float32)).astype(one.dtype)
    return one + other


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize("count", [0, 1, 7, 8, 31, 33, 100])
def test_a_stretch_is_added_and_its_neighbours_stay(dtype, count):
    rng = np.random.default_rng(count)
    bits = rng.integers(0, 256, (2, 110 * dtype.itemsize), np.uint8)
    if dtype == bool:
        bits &= 1
    target, source = (
        np.nan_to_num(row.view(dtype)) if dtype.kind == "f" else row.view(dtype) for row in bits
    )
    if dtype == BFLOAT16:
        target, source = (np.arange(110) % 7).astype(dtype), (np.arange(110) / 3).astype(dtype)
    with np.errstate(all="ignore"):
        expected = added(target, source)
        twice = added(target, target)
    expected[count:] = target[count:]
    twice[count:] = target[count:]
    result, same = target.copy(), target.copy()
    add_contiguous(KINDS[dtype], result.ctypes.data, source.ctypes.data, count)
    np.testing.assert_array_equal(result, expected)
    add_contiguous(
        KINDS[dtype], same.ctypes.data, same.ctypes.data, count
    )  # the source may be the target
    np.testing.assert_array_equal(same, twice)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
def test_no_atomic_sum_is_lost_between_threads(dtype):
    target, source = np.zeros(64, dtype), np.arange(64).astype(dtype)
    kind, rounds = KINDS[target.dtype], 2000
    add_contiguous_atomic(
        kind, target.ctypes.data, source.ctypes.data, 0
    )  # compile before the race

    def work():
        for _ in range(rounds):
            add_contiguous_atomic(kind, target.ctypes.data, source.ctypes.data, 64)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(target, 3 * rounds * source)
