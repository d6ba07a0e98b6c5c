"""Numbers of operations on elements of other PEs, and where their operands stand; loads no Numba."""

from __future__ import annotations

from typing import NamedTuple

LOAD, STORE, ADD, MIN, MAX, AND, OR, XOR, EXCHANGE, CAS = range(10)
"""Operations; what all but the first two do is what atomic operations of kernels do."""

SIGNED, UNSIGNED, FLOAT, BFLOAT = range(4)
"""Kinds of elements: integers with and without a sign, IEEE floats, bfloat16."""


class Room(NamedTuple):
    """Where in a piece of memory a kernel leaves the operands of an operation, in bytes from its begin.

    Attributes:
        offsets: Places in the heap, of 8 bytes each.
        values: Elements; afterwards what was found.
        expected: Elements that a compare-and-swap expects.
        mask: Bytes that are not 0 where an element counts.
        nbytes: Of all.
    """

    offsets: int
    values: int
    expected: int
    mask: int
    nbytes: int


def room_for(count: int, size: int) -> Room:
    """Return the places of so many elements of so many bytes each."""
    values = 8 * count
    expected = values + -(-count * size // 8) * 8
    mask = expected + expected - values
    return Room(0, values, expected, mask, mask + count)
