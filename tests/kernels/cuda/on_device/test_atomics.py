"""Atomic updates in kernels of one's own, many threads at the same elements."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from emu.kernels.cuda import atomics
from emu.kernels.cuda.arrays import to_device
from emu.kernels.cuda.atomics import add_bf16, add_f16

SIXTEEN = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
UINT16 = np.dtype(np.uint16)


@cuda.jit
def count_f16(array):
    add_f16(array, cuda.threadIdx.x % array.size, 0.5)


@cuda.jit
def count_bf16(array):
    atomics.add_bf16(array, cuda.threadIdx.x % array.size, 0.5)


@pytest.mark.parametrize("kind", sorted(SIXTEEN))
@pytest.mark.parametrize("first", [0, 1])
def test_no_update_is_lost_between_neighbours_in_a_word(kind, first):
    array = to_device(np.zeros(8, SIXTEEN[kind]))
    kernel = count_f16 if kind == "f16" else count_bf16
    kernel[3, 30](array[first : first + 5].bits)
    expected = np.zeros(8)
    expected[first : first + 5] = 3 * 6 * 0.5
    np.testing.assert_array_equal(array.copy_to_host().astype(float), expected)


@cuda.jit
def add_each_f16(array, values, before):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < values.size:
        before[i] = add_f16(array, i, values[i])


@cuda.jit
def add_each_bf16(array, values, before):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < values.size:
        before[i] = add_bf16(array, i, values[i])


@pytest.mark.parametrize("kind", sorted(SIXTEEN))
def test_the_sum_is_taken_in_fp32_and_rounded_once(kind):
    dtype, rng = SIXTEEN[kind], np.random.default_rng(7)
    old = rng.integers(0, 1 << 16, 200, np.uint16).view(dtype)
    values = rng.integers(0, 1 << 16, 200, np.uint16).view(dtype).astype(np.float32)
    with np.errstate(all="ignore"):
        values[::2] += np.float32(1e-5)  # not numbers of 16 bits
        expected = (old.astype(np.float32) + values).astype(dtype).astype(np.float32)
        wide = old.astype(np.float32)
    array, before = to_device(old), to_device(np.zeros(200, np.float32))
    kernel = add_each_f16 if kind == "f16" else add_each_bf16
    kernel[7, 32](array.bits, to_device(values).bits, before.bits)
    with np.errstate(all="ignore"):
        found = array.copy_to_host().astype(np.float32)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(before.copy_to_host(), wide)


@cuda.jit
def add_with_tuples(array):
    add_bf16(array, (cuda.threadIdx.x % 2, 1), 1.0)


def test_an_index_may_be_a_tuple_and_the_array_strided():
    array = to_device(np.zeros((3, 4), SIXTEEN["bf16"]))
    add_with_tuples[2, 10](array[::2, ::-2].bits)
    expected = np.zeros((3, 4))
    expected[[0, 2], 1] = 10
    np.testing.assert_array_equal(array.copy_to_host().astype(float), expected)


@cuda.jit
def in_shared_memory(result):
    cells = cuda.shared.array(0, UINT16)
    if cuda.threadIdx.x < 4:
        cells[cuda.threadIdx.x] = 0
    cuda.syncthreads()
    add_f16(cells, cuda.threadIdx.x % 4, 2.0)
    cuda.syncthreads()
    if cuda.threadIdx.x < 4:
        result[cuda.threadIdx.x] = cells[cuda.threadIdx.x]


def test_sums_in_shared_memory():
    result = to_device(np.zeros(4, np.float16))
    in_shared_memory[1, 20, 0, 8](result.bits)
    np.testing.assert_array_equal(result.copy_to_host(), np.full(4, 10, np.float16))


@cuda.jit
def every_update(array, old):
    i = cuda.threadIdx.x
    atomics.add(array, 0, 2 * i)
    atomics.sub(array, 0, i)
    atomics.minimum(array, 1, -i)
    atomics.maximum(array, 2, i)
    atomics.and_(array, 3, ~(1 << i))
    atomics.or_(array, 4, 1 << i)
    atomics.xor(array, 5, 3)
    old[i] = atomics.exchange(array, 6, i)
    while atomics.compare_exchange(array, 7, i, i + 1) != i:
        pass
    atomics.fence()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_every_update_of_integers(dtype):
    host = np.array([100, 5, 5, -1, 0, 7, -5, 0], dtype)
    array, old = to_device(host), to_device(np.zeros(9, dtype))
    every_update[1, 9](array.bits, old.bits)
    found = array.copy_to_host()
    assert found[:6].tolist() == [136, -8, 8, ~0x1FF, 0x1FF, 7 ^ 3]
    assert found[7] == 9
    # Each thread took what the one before it had left.
    assert sorted([*old.copy_to_host().tolist(), int(found[6])]) == [-5, *range(9)]


@cuda.jit
def floating(array):
    atomics.add(array, 0, 0.5)
    atomics.maximum(array, 1, cuda.threadIdx.x)
    atomics.minimum(array, 2, -cuda.threadIdx.x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_updates_of_floating_point(dtype):
    array = to_device(np.zeros(3, dtype))
    floating[2, 10](array.bits)
    assert array.copy_to_host().tolist() == [10, 9, -9]


@cuda.jit
def hand_over(flag, data, seen):
    if cuda.blockIdx.x == 0:
        data[0] = 42
        atomics.store(flag, 0, 1)
    elif atomics.load(flag, 0) == 1:
        seen[0] = data[0]
    else:
        seen[0] = -1


@pytest.mark.parametrize("dtype", [np.int32, np.uint64])
def test_what_was_stored_before_a_flag_is_seen_behind_it(dtype):
    flag, data = to_device(np.zeros(1, dtype)), to_device(np.zeros(1, np.int32))
    seen = to_device(np.zeros(1, np.int32))
    hand_over[2, 1](flag.bits, data.bits, seen.bits)
    assert seen.copy_to_host()[0] in (42, -1)
    assert flag.copy_to_host()[0] == 1


@cuda.jit
def add_to_halves(array):
    atomics.add(array, 0, 1)


@cuda.jit
def add_f16_to(array):
    add_f16(array, 0, 1.0)


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [("add_to_halves", np.uint16), ("add_to_halves", np.int8), ("add_f16_to", np.int32)],
)
def test_what_the_compiler_refuses_the_simulator_refuses_too(kernel, dtype):
    array = to_device(np.zeros(4, dtype))
    with pytest.raises(Exception, match=r"array must have|No implementation|TypingError"):
        globals()[kernel][1, 1](array.bits)
    assert not array.copy_to_host().any()
