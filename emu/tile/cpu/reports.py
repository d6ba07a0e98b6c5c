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
from emu.tile.types import DTYPES

CODE_BITS = 20
"""Width of the lower part of a status, the number of the failed assert plus one. The program's number stands above
it; 0: no assert failed."""

LOOP_CODES = 1 << (CODE_BITS - 1)
"""From here on the number is that of a loop that was told to stop; 0: the loop over the programs."""

HANDED_ON = (1 << CODE_BITS) - 1
"""Lower part of the status of a thread that ended early, as its later programs had been taken away."""

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)
"""Number of the print; address of i64s: the program's numbers x, y, z, then the values' addresses."""


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
        values = []
        for place, (shape, name) in zip(numbers[3:], self.values, strict=True):
            dtype = np.dtype(np.uint64) if name == printing.POINTER else DTYPES[name].numpy
            count = math.prod(shape) * dtype.itemsize
            array = np.frombuffer(ctypes.string_at(place, count), dtype).reshape(shape)
            values.append((array, name))
        x, y, z, *_ = numbers
        return "\n".join(printing.lines((x, y, z), self.prefix, self.hex, values))
