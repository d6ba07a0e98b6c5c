"""Atomic instructions at raw addresses."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from emu.kernels import atomics
from emu.kernels.jit import jit


@jit()
def _exercise_i32(a: int) -> Any:
    atomics.store_i32(a, np.int32(5))
    first = atomics.add_i32(a, np.int32(-7))
    second = atomics.exchange_i32(a, np.int32(40))
    third = atomics.compare_exchange_i32(a, np.int32(40), np.int32(41))
    fourth = atomics.compare_exchange_i32(a, np.int32(40), np.int32(42))
    atomics.fence()
    return first, second, third, fourth, atomics.load_i32(a)


@jit()
def _exercise_i64(a: int) -> Any:
    atomics.store_i64(a, 5)
    first = atomics.add_i64(a, -7)
    second = atomics.exchange_i64(a, 1 << 40)
    third = atomics.compare_exchange_i64(a, 1 << 40, 41)
    fourth = atomics.compare_exchange_i64(a, 40, 42)
    return first, second, third, fourth, atomics.load_i64(a)


@jit()
def _count(a: int, rounds: int) -> None:
    for _ in range(rounds):
        atomics.add_i32(a, np.int32(1))
        atomics.add_i64(a + 8, 3)


def test_operations() -> None:
    memory = np.zeros(2, np.int64)
    assert _exercise_i32(memory.ctypes.data) == (5, -2, 40, 41, 41)
    assert _exercise_i64(memory.ctypes.data + 8) == (5, -2, 1 << 40, 41, 41)
    assert memory.view(np.int32)[1] == 0  # the neighbour is untouched


@pytest.mark.parametrize("threads", [2, 5])
def test_no_update_is_lost(threads: int) -> None:
    memory = np.zeros(2, np.int64)
    workers = [
        threading.Thread(target=_count, args=(memory.ctypes.data, 100_000)) for _ in range(threads)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert memory.tolist() == [100_000 * threads, 300_000 * threads]
