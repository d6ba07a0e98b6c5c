"""Memory operations on arrays of addresses."""

import numpy as np
import pytest

from emu.triton._C.libtriton import interpreter

MEM_SEMANTIC, RMW_OP = interpreter.MEM_SEMANTIC, interpreter.RMW_OP


def places(array):
    offsets = np.arange(array.size, dtype=np.uint64) * np.uint64(array.itemsize)
    return (np.uint64(array.ctypes.data) + offsets).reshape(array.shape)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint16, np.float16, np.float64])
def test_what_is_stored_is_loaded_where_the_mask_is_true(dtype):
    memory = np.zeros((4, 6), dtype)
    values = (np.arange(24).reshape(4, 6) % 2 + 1).astype(dtype)
    mask = np.arange(24).reshape(4, 6) % 3 != 0
    every_other = (slice(None), slice(None, None, 2))
    interpreter.store(places(memory)[every_other], values[every_other], mask[every_other])
    wanted = np.zeros_like(memory)
    wanted[every_other] = np.where(mask, values, 0)[every_other]
    assert (memory == wanted).all()
    got = interpreter.load(places(memory)[::-1], mask[::-1], values[::-1], dtype)
    assert (got == np.where(mask, memory, values)[::-1]).all()


def test_of_several_values_for_one_address_the_last_stays():
    memory = np.zeros(1, np.int32)
    interpreter.store(
        np.repeat(places(memory), 4), np.arange(4, dtype=np.int32), np.array([1, 1, 1, 0], np.bool_)
    )
    assert memory[0] == 2


@pytest.mark.parametrize(
    ("op", "dtype", "combined"),
    [
        (RMW_OP.ADD, np.int64, lambda a, b: a + b),
        (RMW_OP.FADD, np.float32, lambda a, b: a + b),
        (RMW_OP.AND, np.uint8, np.bitwise_and),
        (RMW_OP.OR, np.int32, np.bitwise_or),
        (RMW_OP.XOR, np.int16, np.bitwise_xor),
        (RMW_OP.XCHG, np.float64, lambda a, b: b),
        (RMW_OP.MAX, np.int32, np.maximum),
        (RMW_OP.MIN, np.float32, np.minimum),
        (RMW_OP.UMAX, np.uint32, np.maximum),
        (RMW_OP.UMIN, np.uint32, np.minimum),
    ],
)
def test_updates_return_what_was_there(op, dtype, combined):
    memory = np.array([1, 2, 3, 100], dtype)
    before, values = memory.copy(), np.array([7, 1, 3, 5], dtype)
    mask = np.array([True, True, False, True])
    old = interpreter.atomic_rmw(op, places(memory), values, mask, MEM_SEMANTIC.RELAXED)
    assert (old == np.where(mask, before, 0)).all()
    assert (memory == np.where(mask, combined(before, values), before)).all()


def test_unsigned_extremes_of_signed_arrays_compare_without_a_sign():
    memory = np.array([-1, 5], np.int32)
    values = np.array([3, -2], np.int32)
    interpreter.atomic_rmw(
        RMW_OP.UMAX, places(memory), values, np.ones(2, np.bool_), MEM_SEMANTIC.ACQUIRE
    )
    assert memory.tolist() == [-1, -2]


def test_updates_of_one_address_are_taken_one_after_the_other():
    memory = np.zeros(1, np.int32)
    old = interpreter.atomic_rmw(
        RMW_OP.ADD,
        np.repeat(places(memory), 4),
        np.ones(4, np.int32),
        np.ones(4, np.bool_),
        MEM_SEMANTIC.ACQUIRE_RELEASE,
    )
    assert (old.tolist(), memory.tolist()) == ([0, 1, 2, 3], [4])


def test_swaps_compare_bits():
    memory = np.array([0.0, -0.0, np.nan, 4], np.float32)
    before = memory.copy()
    expected = np.array([0, 0, np.nan, 5], np.float32)
    new = np.full(4, 9, np.float32)
    old = interpreter.atomic_cas(places(memory), expected, new, MEM_SEMANTIC.RELEASE)
    assert old.tobytes() == before.tobytes()
    assert memory[[0, 2]].tolist() == [9, 9]
    assert memory[[1, 3]].tobytes() == before[[1, 3]].tobytes()


def test_arguments_are_checked():
    memory = np.zeros(4, np.int32)
    mask = np.ones(4, np.bool_)
    with pytest.raises(
        ValueError, match=r"ptr, mask and other must have one shape, but have \(4,\)"
    ):
        interpreter.load(places(memory), mask[:2], memory, np.int32)
    with pytest.raises(TypeError, match="sem must be a MEM_SEMANTIC, but got 'relaxed'"):
        interpreter.atomic_cas(places(memory), memory, memory, "relaxed")
    with pytest.raises(TypeError, match="rmw_op must be an RMW_OP, but got 1"):
        interpreter.atomic_rmw(1, places(memory), memory, mask, MEM_SEMANTIC.RELAXED)
    with pytest.raises(TypeError, match="dtype must be one that kernels know, but got complex64"):
        interpreter.atomic_cas(
            places(memory), memory.astype("c8"), memory.astype("c8"), MEM_SEMANTIC.RELAXED
        )
