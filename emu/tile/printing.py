"""Text of values that are printed at run time: one line per element, the same for every compiler."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

POINTER = "pointer"
"""In place of a dtype's name."""


def lines(
    program: tuple[int, int, int], prefix: str, as_hex: bool, values: Sequence[tuple[Array, str]]
) -> Iterator[str]:
    """Yield the lines of one PRINT of one program, without line feeds.

    A line has the form of Triton's, which programs parse: ``pid (x, y, z) idx (i, j) prefix: value``. Indices are
    padded to the width of the greatest; a number has the index ``()``.

    Args:
        program: Its number: x, y, z.
        prefix: What stands before each value, with the blanks around it; alone on its line if there is no value.
        as_hex: Whether integers are shown in base 16, in full width, as pointers always are, and floats as by
            C's ``%a``.
        values: Each with the name of its dtype, or ``POINTER``.
    """
    if not values:
        yield f"pid {program}{prefix}"
    for number, (array, name) in enumerate(values):
        which = f"(operand {number}) " if len(values) > 1 else ""
        widths = [len(str(extent - 1)) for extent in array.shape]
        for index in np.ndindex(array.shape):
            place = ", ".join(f"{i:{width}}" for i, width in zip(index, widths, strict=True))
            yield f"pid {program} idx ({place}){prefix}{which}{_text(array[index], name, as_hex)}"


def _text(x: Any, name: str, as_hex: bool) -> str:
    if name != POINTER and name[0] not in "iu":
        return _float_hex(float(x)) if as_hex else f"{float(x):.6f}"
    if as_hex or name == POINTER:
        bits = int.from_bytes(np.asarray(x).tobytes(), sys.byteorder)
        return f"0x{bits:0{2 * x.dtype.itemsize}x}"
    return str(int(x))


def _float_hex(x: float) -> str:
    """Return a float in base 16 without zeros at the end, as C's ``%a`` does."""
    mantissa, letter, exponent = x.hex().partition("p")
    return f"{mantissa.rstrip('0').rstrip('.')}{letter}{exponent}" if letter else mantissa
