"""Entries that take arguments without a tuple do what Numba's do."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import pytest

from emu.kernels.atomics import load_i64
from emu.kernels.core.jit import entry, jit
from emu.kernels.core.quick_entry import MOST, quick_entry, quick_entry_apart

needs_jit = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="entries are of compiled code"
)
pytestmark = needs_jit


@jit(nogil=False)
def weighed(a: int, b: int, c: int) -> Any:
    return a + 10 * b + 100 * c


@jit(nogil=False)
def nothing() -> Any:
    return 7


@jit(nogil=False)
def first_of_many(
    a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int, i: int, j: int
) -> Any:
    return a - b + c - d + e - f + g - h + i - j


@jit(nogil=False)
def same(a: int) -> Any:
    return a


@pytest.mark.parametrize("make", [quick_entry, quick_entry_apart])
def test_results_are_those_of_numba(make: Any) -> None:
    kernels: Any = [(weighed, 3), (nothing, 0), (first_of_many, MOST), (same, 1)]
    random = np.random.default_rng(5)
    for kernel, count in kernels:
        quick, plain = make(kernel, count), entry(kernel, count)
        for _ in range(50):
            given = random.integers(-1000, 1000, count).tolist()
            assert quick(*given) == plain(*given)


@pytest.mark.parametrize("make", [quick_entry, quick_entry_apart])
@pytest.mark.parametrize("value", [-1, 0, 2**63 - 1, -(2**63), True, np.int64(-1), np.int32(5)])
def test_every_integer_goes_through(make: Any, value: Any) -> None:
    found = make(same, 1)(value)
    assert type(found) is int
    assert found == int(value)


@pytest.mark.parametrize("make", [quick_entry, quick_entry_apart])
def test_what_is_no_integer_is_an_error(make: Any) -> None:
    quick = make(weighed, 3)
    for wrong, error in (("1", TypeError), (None, TypeError), (1 << 63, OverflowError)):
        for place in range(3):
            given: list[Any] = [1, -1, 1]
            given[place] = wrong
            with pytest.raises(error):
                quick(*given)
    assert quick(1, -1, 1) == 91


@jit(nogil=False)
def flag_is_set(address: int) -> Any:
    from_there = np.int64(0)
    for _ in range(1 << 40):
        from_there = load_i64(address)
        if from_there != 0:
            break
    return from_there


def test_another_thread_runs_while_a_kernel_has_given_the_gil_away() -> None:
    word = np.zeros(1, np.int64)
    waits = quick_entry_apart(flag_is_set, 1)  # type: ignore[arg-type]  # a kernel
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(waits(int(word.ctypes.data))))
    thread.start()
    word[0] = 3
    thread.join()
    assert found == [3]
