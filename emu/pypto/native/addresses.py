"""Addresses of arrays' elements."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from emu.pypto.dtypes import Array

# An ndarray object begins with Python's object header, and then the data pointer. To read it takes an eighth of the time of
# asking NumPy, which makes a dictionary.
_DATA_FIELD = object.__basicsize__
_field = ctypes.c_size_t.from_address


def read_address(array: Array) -> int:
    """Return the address of an array's first element, from the object's memory."""
    return _field(id(array) + _DATA_FIELD).value


def ask_address(array: Array) -> int:
    """Return the address of an array's first element."""
    address: int = array.__array_interface__["data"][0]
    return address


def _can_read() -> bool:
    samples: list[Array] = [np.zeros(3, np.int8), np.zeros((4, 4))[1:, 2:], np.zeros(2, np.float16)]
    return all(read_address(each) == ask_address(each) for each in samples)


address_of: Callable[[Array], int] = read_address if _can_read() else ask_address
"""Return the address of an array's first element."""
