"""Observers of running kernels: OBSERVE tells the one whose number it is given of a site, the program and values.

A launch registers its observer, and passes the number to the kernel as an argument. So launches that run at the same
time do not meet. Native code, which an OBSERVE with ``native`` calls by its address, gets the same two numbers as an
observer, the site and the address of the record, without Python in between.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from emu.tile.assertions import Array

WORDS_BEFORE = 4
"""Words of a record before the addresses of the values: the program's numbers x, y, z, the address of the observer's number."""

NATIVE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
"""Native code that is told: of the site and the record; what it returns is not looked at."""

Observer = Callable[[int, int], None]
"""Gets the number of a site and the address of a record of i64s: ``WORDS_BEFORE`` words, the addresses of the values.
What it raises stops a compiled kernel at its next poll."""

_observers: dict[int, Observer] = {}
_numbers = itertools.count(1)


@contextlib.contextmanager
def observing(observer: Observer) -> Iterator[int]:
    """Register an observer inside the block; yields its number."""
    number = next(_numbers)
    _observers[number] = observer
    try:
        yield number
    finally:
        del _observers[number]


def tell_at(site: int, record: int) -> None:
    """Tell the observer whose number a record holds."""
    place = ctypes.c_int64.from_address(record + 24).value
    observer = _observers.get(ctypes.c_int64.from_address(place).value)
    if observer is not None:
        observer(site, record)


def tell(
    site: int, program: Sequence[int], values: Sequence[Array], is_native: bool = False
) -> None:
    """Tell the observer whose number is the first value, of the other values.

    Args:
        site: Number of the site.
        program: Numbers x, y, z of the program.
        values: Arrays that lie in one piece.
        is_native: Whether the first value is the address of native code.
    """
    places = [v.__array_interface__["data"][0] for v in values]
    record = np.array([*program, *places], np.int64)
    function = NATIVE(int(values[0].item())) if is_native else tell_at
    function(site, record.__array_interface__["data"][0])
