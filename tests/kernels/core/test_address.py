"""Raw addresses: those of array objects, and moves of bytes that may overlap."""

from __future__ import annotations

import numpy as np
import pytest

from emu.kernels.core import address
from emu.kernels.core.address import (
    aligned_data,
    array_data,
    as_pointer,
    check_array_layout,
    move_bytes,
)
from emu.kernels.core.jit import carray, jit


@jit()
def move(target, source, count):
    move_bytes(target, source, count)


@jit()
def third(place):
    return carray(as_pointer(place), (3,), np.int32)[2]


@jit()
def fetch(place):
    address.prefetch_line(place)
    address.prefetch_line_to_write(place)


def test_the_data_of_array_objects_are_found():
    array = np.zeros((4, 4), np.float16)[1:, 2:]
    assert array_data(id(array)) == array.ctypes.data
    for skip in range(70):
        view = np.zeros(200, np.uint8)[skip:]
        line = aligned_data(id(view))
        assert line % 64 == 0
        assert 0 <= line - view.ctypes.data < 64
    check_array_layout()


def test_another_layout_of_array_objects_is_refused_at_import(monkeypatch):
    monkeypatch.setattr(address, "_is_data_field_known", lambda: False)
    with pytest.raises(ImportError, match="NumPy's array object must hold its data pointer"):
        check_array_layout()


@pytest.mark.parametrize(("target", "source"), [(0, 5), (5, 0), (3, 3)])
def test_bytes_are_moved_as_if_by_a_copy(target, source):
    memory = np.arange(20, dtype=np.uint8)
    expected = memory.copy()
    expected[target : target + 12] = memory[source : source + 12]
    move(memory.ctypes.data + target, memory.ctypes.data + source, 12)
    np.testing.assert_array_equal(memory, expected)


def test_an_address_is_read_as_an_array_and_any_may_be_fetched():
    array = np.array([1, 2, 3], np.int32)
    assert third(array.ctypes.data) == 3
    fetch(array.ctypes.data)
    fetch(0)
