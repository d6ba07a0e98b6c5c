"""Reports of compiled programs to Python: failed asserts and prints.

A failed assert ends its program, and the launch: the compiled function returns which assert of which
program it was. A print calls back into Python with the addresses of its values.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass

import numpy as np

from emu.tile import printing
from emu.tile.assertions import Array, Failure, plain
from emu.tile.types import DTYPES

CODE_BITS = 20
"""Width of the lower part of a status, the number of the failed assert plus one. The program's number stands above
it; 0: no assert failed."""

LOOP_CODES = 1 << (CODE_BITS - 1)
"""From here on the number is that of a loop that was told to stop; 0: the loop over the programs."""

HANDED_ON = (1 << CODE_BITS) - 1
"""Lower part of the status of a thread that ended early, as its later programs had been taken away."""

FAULT = HANDED_ON - 1
"""Lower part of the status of a thread whose program touched memory that is not there; the thread's table says more."""

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)
"""Number of the report; address of i64s: the program's numbers x, y, z, of an ASSERT the lane and the count of lanes,
then the values' addresses."""


@dataclass(frozen=True)
class Assert:
    """An ASSERT of a kernel: its text and location."""

    message: str
    location: str


@dataclass(frozen=True)
class Read:
    """A value from memory on which the condition of a loop depends.

    Attributes:
        location: Location of the read.
        dtype: Its name; empty of a pointer.
        by_address: Whether one address is read; else it is computed from a tile, or in a branch.
    """

    location: str
    dtype: str
    by_address: bool


@dataclass(frozen=True)
class Loop:
    """A WHILE of a kernel: its location, and the values from memory that its condition depends on."""

    location: str
    reads: tuple[Read, ...]


@dataclass(frozen=True)
class Print:
    """A PRINT of a kernel.

    Attributes:
        prefix: What is printed before each value.
        hex: Whether integers are printed in base 16.
        values: Shape and name of the dtype of each value, or ``printing.POINTER``.
    """

    prefix: str
    hex: bool
    values: tuple[tuple[tuple[int, ...], str], ...]

    def text(self, address: int) -> str:
        """Return the printed text, given the address of the record that :data:`CALLBACK` gets."""
        numbers = (ctypes.c_int64 * (3 + len(self.values))).from_address(address)
        values = [
            (_array_at(place, name, shape), name)
            for place, (shape, name) in zip(numbers[3:], self.values, strict=True)
        ]
        x, y, z, *_ = numbers
        return "\n".join(printing.lines((x, y, z), self.prefix, self.hex, values))


@dataclass(frozen=True)
class Observe:
    """An OBSERVE of a kernel: the number of its site."""

    site: int


@dataclass(frozen=True)
class FailedAssert:
    """What is told of an ASSERT that fails.

    Attributes:
        shape: Shape of its condition.
        values: Name and dtype, or ``printing.POINTER``, of each value that its error shows.
    """

    shape: tuple[int, ...]
    values: tuple[tuple[str, str], ...]

    def read(self, address: int) -> tuple[tuple[int, int, int], Failure]:
        """Return the program and how it failed, given the address of the record that :data:`CALLBACK` gets."""
        numbers = (ctypes.c_int64 * (5 + len(self.values))).from_address(address)
        x, y, z, lane, count, *places = numbers
        values = {
            name: _plain(_array_at(place, kind, ()), kind)
            for place, (name, kind) in zip(places, self.values, strict=True)
        }
        return (x, y, z), Failure(self.shape, lane, count, values)


def _plain(value: Array, kind: str) -> int | float | bool | str:
    return hex(int(value)) if kind == printing.POINTER else plain(value)


def _array_at(place: int, name: str, shape: tuple[int, ...]) -> Array:
    """Return a copy of the values at an address, of a dtype by name or ``printing.POINTER``."""
    dtype = np.dtype(np.uint64) if name == printing.POINTER else DTYPES[name].numpy
    count = math.prod(shape) * dtype.itemsize
    return np.frombuffer(ctypes.string_at(place, count), dtype).reshape(shape)
