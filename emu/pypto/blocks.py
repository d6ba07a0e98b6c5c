"""Memory of large results, taken again when nobody has it any more.

A program asks for the same few sizes in every call. Memory of such a size that goes back to the system comes anew page by page,
each of which the system clears: where PEs multiply what they fetch that took a third of their time.
"""

from __future__ import annotations

import sys
from math import prod

import numpy as np

from emu.pypto.dtypes import Array
from emu.pypto.symbolic import Shape

LEAST_BYTES = 1 << 16
"""Bytes from which on memory is kept; less than that the C library keeps itself."""

MOST_BYTES = 1 << 25
"""Bytes of all blocks, used or not; beyond them results have memory of their own."""

_LINE = 64


class _Block:
    """Memory, and where its first whole cache line begins."""

    __slots__ = ("memory", "start")

    def __init__(self, size: int) -> None:
        self.memory: Array = np.empty(size + _LINE, np.uint8)
        self.start = -int(self.memory.__array_interface__["data"][0]) % _LINE

    @property
    def holders(self) -> int:
        """Number of references to the memory."""
        return sys.getrefcount(self.memory)

    def lay(self, shape: Shape, dtype: np.dtype[np.generic]) -> Array:
        """Return an array in it."""
        return np.ndarray(shape, dtype, self.memory, self.start)


_ALONE = _Block(1).holders
"""References to the memory of a block that no array lies in: versions of Python differ."""


def size_of(nbytes: int) -> int:
    """Return the size of the blocks for so many bytes: an eighth more at most, so that sizes that differ little share them."""
    step = 1 << max(nbytes.bit_length() - 4, 0)
    return -(-nbytes // step) * step


class Blocks:
    """Blocks of memory by size.

    A block is free when no array lies in it: every view of it, whoever holds it, holds a reference to the block.
    """

    __slots__ = ("_by_size", "nbytes")

    def __init__(self) -> None:
        self._by_size: dict[int, list[_Block]] = {}
        self.nbytes = 0

    def array(self, shape: Shape, dtype: np.dtype[np.generic]) -> Array:
        """Return an array of undefined values, as ``np.empty`` does."""
        nbytes = prod(shape) * dtype.itemsize
        if nbytes < LEAST_BYTES or nbytes > MOST_BYTES:
            return np.empty(shape, dtype)
        size = size_of(nbytes)
        blocks = self._by_size.setdefault(size, [])
        for block in blocks:
            if block.holders == _ALONE:
                return block.lay(shape, dtype)
        if self.nbytes + size > MOST_BYTES and not self._make_room(size):
            return np.empty(shape, dtype)
        block = _Block(size)
        blocks.append(block)
        self.nbytes += size
        return block.lay(shape, dtype)

    def _make_room(self, size: int) -> bool:
        """Forget free blocks, until one of ``size`` fits; return whether it does."""
        for other, blocks in self._by_size.items():
            for number in reversed(range(len(blocks))):
                if self.nbytes + size <= MOST_BYTES:
                    return True
                if blocks[number].holders == _ALONE:
                    del blocks[number]
                    self.nbytes -= other
        return self.nbytes + size <= MOST_BYTES


BLOCKS = Blocks()
"""Those of this process."""
