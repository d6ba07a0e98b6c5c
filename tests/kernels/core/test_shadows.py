"""Shadows of memory: what is found written, whoever wrote it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

from emu.kernels.core import shadows


class Owner:
    """A stand-in for a storage."""

    def __init__(self, address: int) -> None:
        self.address = address

    def data_ptr(self) -> int:
        return self.address


@pytest.fixture
def array() -> Iterator[np.ndarray]:
    memory = np.zeros(203, np.uint8)
    yield memory
    shadows.forget(memory.ctypes.data)


def test_new_memory_is_unwritten_until_somebody_writes(array: np.ndarray) -> None:
    shadow = shadows.track(array.ctypes.data, array.nbytes, "a.py:3")
    assert shadow is not None
    assert shadow.site == "a.py:3"
    assert shadow.refresh()
    assert shadow.states[:203].all()
    assert not shadow.states[203:].any()
    assert shadows.find(shadow.start, shadow.end) is shadow
    assert shadows.find(shadow.start, shadow.end - 1) is None
    array[17] ^= 1  # not seen: eight bytes count together
    array[202] ^= 1
    assert shadow.refresh()
    assert not shadow.states[16:24].any()
    assert not shadow.states[200:].any()
    assert shadow.states[:16].all()
    assert shadow.states[24:200].all()
    array[:] = np.random.default_rng(0).integers(0, 256, 203)
    assert not shadow.refresh()


def test_what_is_marked_explains_what_differs(array: np.ndarray) -> None:
    shadow = shadows.track(array.ctypes.data, array.nbytes, "")
    assert shadow is not None
    array[8:12] = 0
    shadow.states[8:12] = 0
    assert shadow.refresh()
    assert list(shadow.states[6:14]) == [255, 255, 0, 0, 0, 0, 255, 255]


def test_copies_take_what_is_unwritten_along(array: np.ndarray) -> None:
    shadow = shadows.track(array.ctypes.data, array.nbytes, "")
    array[:64] = 7
    other = array.copy()
    copied = shadows.track(other.ctypes.data, other.nbytes, "", is_filled=True)
    assert shadow is not None
    assert copied is not None
    shadow.refresh()
    np.testing.assert_array_equal(copied.states, shadow.states)
    shadows.forget(copied.start)
    assert shadows.track(other[:64].ctypes.data, 64, "", is_filled=True) is None


def test_shadows_live_as_long_as_their_memory(array: np.ndarray) -> None:
    start = array.ctypes.data
    owner = Owner(start)
    shadow = shadows.track(start, array.nbytes, "", owner=owner)
    assert shadow in list(shadows.alive())
    owner.address += 64  # resized: the memory is elsewhere
    assert shadow not in list(shadows.alive())
    owner.address = start
    shadows.track(start, array.nbytes, "", owner=owner)
    del owner
    gc.collect()
    assert shadows.find(start, start + array.nbytes) is None


def test_no_memory_has_no_shadow() -> None:
    assert shadows.track(4096, 0, "") is None
