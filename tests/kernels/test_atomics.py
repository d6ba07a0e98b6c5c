"""Atomic instructions at raw addresses and on arrays."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.errors import TypingError

from emu.kernels import atomics
from emu.kernels.core.jit import jit


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


# --- on arrays -----------------------------------------------------------------------------------

INTEGERS = [np.dtype(f"{sign}{size}") for sign in "iu" for size in (1, 2, 4, 8)]
FLOATS = [np.dtype(np.float32), np.dtype(np.float64)]
NUMBERS = pytest.mark.parametrize("dtype", INTEGERS + FLOATS, ids=str)
HALVES = pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["f16", "bf16"])
ADD, SUB, MINIMUM, MAXIMUM, EXCHANGE, STORE, AND, OR, XOR = range(9)


@jit()
def update(operation: int, a: Any, i: Any, value: Any) -> Any:
    if operation == ADD:
        return atomics.add(a, i, value)
    if operation == SUB:
        return atomics.sub(a, i, value)
    if operation == MINIMUM:
        return atomics.minimum(a, i, value)
    if operation == MAXIMUM:
        return atomics.maximum(a, i, value)
    if operation == EXCHANGE:
        return atomics.exchange(a, i, value)
    old = atomics.load(a, i)
    atomics.store(a, i, value)
    return old


@jit()
def update_bits(operation: int, a: Any, i: Any, value: Any) -> Any:
    if operation == AND:
        return atomics.and_(a, i, value)
    if operation == OR:
        return atomics.or_(a, i, value)
    return atomics.xor(a, i, value)


@jit()
def compare_exchange(a: Any, i: Any, expected: Any, value: Any) -> Any:
    return atomics.compare_exchange(a, i, expected, value)


REFERENCE: dict[int, Callable[[Any, Any], Any]] = {
    ADD: lambda a, b: a + b,
    SUB: lambda a, b: a - b,
    MINIMUM: np.minimum,
    MAXIMUM: np.maximum,
    EXCHANGE: lambda a, b: b,
    STORE: lambda a, b: b,
    AND: lambda a, b: a & b,
    OR: lambda a, b: a | b,
    XOR: lambda a, b: a ^ b,
}


def bits(value: Any) -> bytes:
    """The bytes of a value; NaN is NaN whatever its bits."""
    return b"nan" if np.isnan(value) else value.tobytes()


def numbers(dtype: np.dtype[Any]) -> st.SearchStrategy[Any]:
    if dtype.kind == "f":
        return st.floats(width=8 * dtype.itemsize)
    info = np.iinfo(dtype)
    return st.integers(int(info.min), int(info.max))


@NUMBERS
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_updates_are_those_of_the_reference(dtype: np.dtype[Any], data: st.DataObject) -> None:
    operations = range(STORE + 1) if dtype.kind == "f" else range(XOR + 1)
    operation = data.draw(st.sampled_from(operations))
    old, value = (np.array(data.draw(numbers(dtype)), dtype)[()] for _ in range(2))
    array = np.array([1, old, 2], dtype)
    call = update if operation <= STORE else update_bits
    with np.errstate(all="ignore"):
        expected = dtype.type(REFERENCE[operation](old, value))
    if operation in (MINIMUM, MAXIMUM) and old == value:
        expected = old  # of 0.0 and -0.0 that which is there stays
    returned = call(operation, array, 1, value)
    assert bits(dtype.type(returned)) == bits(old)
    assert bits(array[1]) == bits(expected)
    assert array[[0, 2]].tolist() == [1, 2]


@NUMBERS
@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_compare_exchange(dtype: np.dtype[Any], data: st.DataObject) -> None:
    old, other, value = (np.array(data.draw(numbers(dtype)), dtype)[()] for _ in range(3))
    for expected in (old, other):
        array = np.array([old], dtype)
        assert dtype.type(compare_exchange(array, 0, expected, value)).tobytes() == old.tobytes()
        hit = expected.tobytes() == old.tobytes()
        assert array[0].tobytes() == (value if hit else old).tobytes()


def test_compare_exchange_of_floats_looks_at_the_bits() -> None:
    array = np.array([0.0, np.nan])
    assert compare_exchange(array, 0, -0.0, 1.0) == 0
    assert array[0] == 0
    assert np.isnan(compare_exchange(array, 1, array[1], 1.0))
    assert array[1] == 1


def test_nan_wins_minimum_and_maximum() -> None:
    for dtype in FLOATS:
        for operation in (MINIMUM, MAXIMUM):
            for old, value in ((np.nan, 1), (1, np.nan), (np.nan, np.inf), (-np.inf, np.nan)):
                array = np.array([old], dtype)
                update(operation, array, 0, value)
                assert np.isnan(array[0])


@jit()
def add_f16(a: Any, i: Any, value: Any) -> Any:
    return atomics.add_f16(a, i, value)


@jit()
def add_bf16(a: Any, i: Any, value: Any) -> Any:
    return atomics.add_bf16(a, i, value)


@HALVES
@settings(deadline=None, max_examples=300)
@given(pattern=st.integers(0, 0xFFFF), value=st.floats(width=32))
def test_sixteen_bit_floats_round_once(dtype: Any, pattern: int, value: float) -> None:
    array = np.array([7, pattern, 9], np.uint16)
    old = array.view(dtype)[1].astype(np.float32)
    with np.errstate(all="ignore"):
        expected = (old + np.float32(value)).astype(dtype)
    returned = (add_f16 if dtype is np.float16 else add_bf16)(array, 1, value)
    assert bits(np.float32(returned)) == bits(old)
    assert bits(array.view(dtype)[1].astype(np.float32)) == bits(expected.astype(np.float32))
    assert array[[0, 2]].tolist() == [7, 9]


def test_an_element_is_named_as_in_indexing() -> None:
    array = np.arange(24, dtype=np.int32).reshape(2, 3, 4)[:, ::-1, ::2]
    for index in ((0, 0, 0), (1, 2, 1), (-1, -3, -2), (np.uint8(1), 0, np.int16(-1))):
        expected = array.copy()
        expected[index] += 100
        update(ADD, array, index, 100)
        np.testing.assert_array_equal(array, expected)
    line = np.zeros(5, np.uint8)
    update(ADD, line, -1, 1)
    update(ADD, line, np.uint64(2), 1)
    assert line.tolist() == [0, 0, 1, 0, 1]
    point = np.zeros((), np.float32)
    update(ADD, point, (), 2.5)
    assert point == 2.5


def test_values_are_converted_as_in_an_assignment() -> None:
    array = np.zeros(1, np.int8)
    update(STORE, array, 0, 300)
    assert array[0] == 300 - 256
    update(STORE, array, 0, 7.9)
    assert array[0] == 7
    update(ADD, array, 0, True)
    assert array[0] == 8
    floats = np.zeros(1, np.float32)
    update(ADD, floats, 0, 0.1)
    assert floats[0] == np.float32(0.1)


def test_bounds_are_checked_where_numba_checks_them() -> None:
    @numba.njit(boundscheck=True)
    def checked(a: Any, i: Any) -> Any:
        return atomics.add(a, i, 1)

    array = np.zeros((2, 3), np.int64)
    checked(array, (-2, 2))
    for index in ((2, 0), (0, 3), (-3, 0), (0, -4)):
        with pytest.raises(IndexError, match="out of bounds"):
            checked(array, index)
    assert array.sum() == 1


READ_ONLY = np.zeros(3, np.int32)
READ_ONLY.flags.writeable = False
PACKED = np.zeros(3, np.dtype([("a", np.int8), ("b", np.int32)]))


@pytest.mark.parametrize(
    ("array", "index", "value", "text"),
    [
        (np.zeros(3, bool), 0, 1, r"add: array must be a writable, aligned array of int8 to int64"),
        (np.zeros(3, complex), 0, 1, "add: array must be .* but got array.complex128"),
        (READ_ONLY, 0, 1, "add: array must be a writable"),
        (3, 0, 1, "add: array must be .* but got int64"),
        (np.zeros(3, int), 0.5, 1, "add: index must be an integer for .* but got float64"),
        (np.zeros(3, int), (0, 1), 1, "add: index must be an integer for"),
        (np.zeros((3, 3), int), 0, 1, "add: index must be a tuple of 2 integers"),
        (np.zeros((3, 3), int), (0, 1.0), 1, "add: index must be a tuple of 2 integers"),
        (np.zeros(3, int), 0, 1j, "add: a value must be a number that converts to int64, but got"),
        (np.zeros(3, int), 0, "1", "add: a value must be a number"),
        (np.zeros(3, int), 0, None, "add: a value must be a number"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(
    array: Any, index: Any, value: Any, text: str
) -> None:
    with pytest.raises(TypingError, match=rf"atomics\.{text}"):
        numba.njit(lambda a, i, v: atomics.add(a, i, v))(array, index, value)


def test_what_does_not_fit_other_operations_is_refused_by_name() -> None:
    floats, integers = np.zeros(3, np.float32), np.zeros(3, np.int32)
    with pytest.raises(
        TypingError, match=r"atomics\.or_: array must be .* uint8 to uint64, but got"
    ):
        numba.njit(lambda a: atomics.or_(a, 0, 1))(floats)
    with pytest.raises(TypingError, match=r"atomics\.add: array must be a writable, aligned array"):
        numba.njit(lambda a: atomics.add(a.b, 0, 1))(PACKED)
    with pytest.raises(TypingError, match=r"atomics\.add_bf16: array must be .* uint16, the bits"):
        numba.njit(lambda a: atomics.add_bf16(a, 0, 1))(integers)
    with pytest.raises(TypingError, match=r"atomics\.add_f16: index must be an integer"):
        numba.njit(lambda a: atomics.add_f16(a, 0.5, 1))(floats.view(np.uint16))
    with pytest.raises(TypeError, match=r"atomics\.add_f16 must be called in @njit code"):
        atomics.add_f16(floats.view(np.uint16), 0, 1)
    with pytest.raises(TypeError, match=r"atomics\.add_bf16 must be called in @njit code"):
        atomics.add_bf16(floats.view(np.uint16), 0, 1)
    assert numba.njit(lambda a: atomics.load(a, 1))(READ_ONLY) == 0


# --- contention ----------------------------------------------------------------------------------


def together(function: Callable[..., Any], *arguments: Any, workers: int = 3) -> None:
    """Run compiled code, which releases the GIL, in threads that start at the same time."""
    gate = threading.Barrier(workers - 1)

    def work(number: int) -> None:
        gate.wait()
        function(*arguments, number)

    function(*arguments, 0)  # compile it first; this is one of the runs
    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@jit()
def hammer(a: Any, rounds: int, number: int) -> None:
    for k in range(rounds):
        atomics.add(a, k & 1, 3)
        atomics.sub(a, k & 1, 1)
        atomics.maximum(a, 2, k % 100)
        atomics.minimum(a, 3, 100 - k % 100)


@NUMBERS
def test_no_update_of_an_array_is_lost(dtype: np.dtype[Any]) -> None:
    array = np.array([0, 0, 0, 120], dtype)
    together(hammer, array, 40_000)
    with np.errstate(over="ignore"):
        count = np.array(3 * 40_000).astype(dtype)  # 2 * 20_000 for each cell, thrice; 8 bits wrap
    assert array.tolist() == [count, count, 99, 1]


@jit()
def hammer_halves(a: Any, b: Any, rounds: int, number: int) -> None:
    for k in range(rounds):
        sign = 1.0 if k % 2 == 0 else -1.0
        atomics.add_f16(a, 1, sign)
        atomics.add_bf16(b, -1, sign)
    for _ in range(40):
        atomics.add_f16(a, 0, 0.25)
        atomics.add_bf16(b, 0, 0.25)


def test_no_update_of_sixteen_bits_is_lost() -> None:
    half, brain = np.zeros(2, np.float16), np.zeros(2, ml_dtypes.bfloat16)
    together(hammer_halves, half.view(np.uint16), brain.view(np.uint16), 20_000)
    assert half.tolist() == [30, 0]
    assert brain.astype(np.float32).tolist() == [30, 0]


@jit()
def locked(lock: Any, cells: Any, rounds: int, number: int) -> None:
    for _ in range(rounds):
        while atomics.compare_exchange(lock, 0, 0, number + 1) != 0:
            pass
        cells[0] += 1  # plain: the lock is what protects it
        cells[1] = cells[0]
        atomics.store(lock, 0, 0)


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u8", "f4", "f8"])
def test_a_lock_of_compare_exchange(dtype: str) -> None:
    cells = np.zeros(2, np.int64)
    together(locked, np.zeros(1, dtype), cells, 2000, workers=3)
    assert cells.tolist() == [6000, 6000]


@jit()
def toggle(a: Any, rounds: int, number: int) -> None:
    for _ in range(rounds):
        atomics.xor(a, 0, 1 << number)
        atomics.or_(a, 1, 1 << number)
        atomics.and_(a, 2, ~(1 << number))


def test_no_bit_is_lost() -> None:
    array = np.array([0, 0, -1], np.int64)
    together(toggle, array, 20_001)
    assert array.tolist() == [7, 7, -8]


# --- a user's own file ---------------------------------------------------------------------------

PROGRAM = """
import sys
import numba
import numpy as np
from emu.kernels import atomics

@numba.njit(cache=True, nogil=True)
def count(histogram, sums, halves, samples):
    for sample in samples:
        atomics.add(histogram, sample, 1)
        atomics.add(sums, (sample, 0), 0.5)
        if sample == 0:
            atomics.add_bf16(halves, sample, 1.0)

memory = np.memmap(sys.argv[1], np.uint8, "r+")
histogram = memory[:32].view(np.int32)
sums = memory[64:128].view(np.float64).reshape(8, 1)
halves = memory[128:130].view(np.uint16)
samples = np.random.default_rng(int(sys.argv[2])).integers(0, 8, 40_000)
samples[samples == 0] = 1
samples[:30] = 0
count(histogram, sums, halves, samples)
print(sum(count.stats.cache_hits.values()))
"""


@pytest.mark.slow
def test_processes_that_run_a_users_own_cached_function(tmp_path: Path) -> None:
    """The first compiles it; three more load it, and count into the same memory at once."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    root = str(Path(__file__).resolve().parents[2])
    memory = tmp_path / "memory"
    memory.write_bytes(bytes(256))

    def start(seed: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(program), str(memory), str(seed)],
            env={**os.environ, "PYTHONPATH": root},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(process: subprocess.Popen[str]) -> str:
        out, error = process.communicate(timeout=90)
        assert process.returncode == 0, error
        return out.strip()

    assert finish(start(0)) == "0"
    assert [finish(p) for p in [start(1), start(2), start(3)]] == ["1"] * 3
    expected = np.zeros(8, np.int64)
    for seed in range(4):
        samples = np.random.default_rng(seed).integers(0, 8, 40_000)
        samples[samples == 0] = 1
        samples[:30] = 0
        expected += np.bincount(samples, minlength=8)
    content = np.fromfile(memory, np.uint8)
    assert content[:32].view(np.int32).tolist() == expected.tolist()
    assert content[64:128].view(np.float64).tolist() == (expected / 2).tolist()
    assert float(content[128:130].view(ml_dtypes.bfloat16)[0]) == 120
