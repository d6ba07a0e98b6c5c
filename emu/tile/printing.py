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

    Args:
        program: Its number: x, y, z.
        prefix: What stands before each value; alone on its line if there is no value.
        as_hex: Whether bits are shown in base 16, in full width, as pointers always are.
        values: Each with the name of its dtype, or ``POINTER``.
    """
    if not values:
        yield f"pid {program} {prefix}"
    for number, (array, name) in enumerate(values):
        which = f" (operand {number})" if len(values) > 1 else ""
        for index in np.ndindex(array.shape):
            place = f" idx ({', '.join(map(str, index))})" if index else ""
            yield f"pid {program}{place} {prefix}{which} {_text(array[index], name, as_hex)}"


def _text(x: Any, name: str, as_hex: bool) -> str:
    if as_hex or name == POINTER:
        bits = int.from_bytes(np.asarray(x).tobytes(), sys.byteorder)
        return f"0x{bits:0{2 * x.dtype.itemsize}x}"
    if name[0] in "iu":
        return str(int(x))
    return f"{float(x):.6f}"
