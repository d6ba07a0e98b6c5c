"""The vector primitives, each in a function of its own, at addresses that are aligned to nothing."""

from __future__ import annotations

import numpy as np
import pytest

from emu.kernels.core.jit import jit
from emu.kernels.strided import vector_ops
from emu.kernels.strided.vector_ops import SIDES, U8, U16, U32, U64, U128, U256, VECTOR

ELEMENTS = pytest.mark.parametrize(
    "element", [U8, U16, U32, U64], ids=lambda e: f"u{8 * e.itemsize}"
)


@jit()
def move(target, source, element):
    vector_ops.move(target, source, element)


@jit()
def fill(target, source, element):
    vector_ops.fill(target, source, element)


@jit()
def reverse(target, source, element):
    vector_ops.reverse(target, source, element)


@jit()
def stride2(target, source, element):
    vector_ops.stride2(target, source, element)


@jit()
def transpose(target, target_stride, source, source_stride, element):
    vector_ops.transpose(target, target_stride, source, source_stride, element)


@jit()
def width_of(element):
    return vector_ops.width_of(element)


def bytes_of(count):
    return np.random.default_rng(count).integers(0, 256, count, np.uint8)


@pytest.mark.parametrize(
    ("element", "width"), [(U8, 1), (U16, 2), (U64, 8), (U128, 16), (U256, 32)]
)
def test_an_element_is_moved_and_its_neighbours_stay(element, width):
    source, target = bytes_of(80), np.zeros(80, np.uint8)
    move(target.ctypes.data + 3, source.ctypes.data + 5, element)
    assert target[3 : 3 + width].tobytes() == source[5 : 5 + width].tobytes()
    assert not target[:3].any()
    assert not target[3 + width :].any()
    assert width_of(element) == width


@ELEMENTS
def test_a_vector_is_stored_in_the_order_that_the_name_says(element):
    width = element.itemsize
    lanes, kind = VECTOR // width, f"u{width}"
    source = bytes_of(3 * VECTOR + 1)[1:]
    numbers = source.view(kind)
    last = source.ctypes.data + (lanes - 1) * width
    for operation, address, expected in (
        (fill, source.ctypes.data + width, np.full(lanes, numbers[1])),
        (reverse, last, numbers[lanes - 1 :: -1]),
        (stride2, source.ctypes.data, numbers[: 2 * lanes : 2]),
    ):
        target = np.zeros(VECTOR + 8, np.uint8)
        operation(target.ctypes.data + 3, address, element)
        assert target[3 : 3 + VECTOR].tobytes() == expected.tobytes()
        assert not target[:3].any()
        assert not target[3 + VECTOR :].any()


@ELEMENTS
def test_a_square_is_transposed_between_rows_of_any_distance(element):
    width = element.itemsize
    side, kind = SIDES[width], f"u{width}"
    source = bytes_of((side + 3) * side * width).view(kind).reshape(side, side + 3)
    target = np.zeros((side, side + 5), kind)
    transpose(target.ctypes.data, target.strides[0], source.ctypes.data, source.strides[0], element)
    np.testing.assert_array_equal(target[:, :side], source[:, :side].T)
    assert not target[:, side:].any()
