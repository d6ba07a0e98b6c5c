"""Memory for inputs and results on the PEs of a session: at the same place in the heap of each.

The launcher has mapped the memory of all PEs: it stores shards where the program reads them, and reads
results where it has left them. Memory that is given back serves again for what has the same size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from emu.comm.memory.segment import Segment
from emu.kernels.core.environment import usable_cores
from emu.stablehlo.reference.values import Array

_LINE = 64
_PARALLEL_BYTES = 4 << 20
"""From this size on several threads copy."""


class Buffer:
    """A piece of each PE's heap; its memory serves again when nothing refers to it any more."""

    def __init__(self, memory: Memory, offset: int, nbytes: int) -> None:
        self.memory = memory
        self.offset = offset
        self.nbytes = nbytes

    def on(self, pe: int, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
        """Return a PE's memory as an array."""
        return self.memory.view(pe, self.offset, shape, dtype)

    def __del__(self) -> None:
        self.memory.give_back(self.offset, self.nbytes)


class Memory:
    """The memory that a session has for inputs and results.

    Args:
        segment: The session's.
        extend: Has every PE allocate a number of bytes; returns where, the same for all.
    """

    def __init__(self, segment: Segment, extend: Callable[[int], int]) -> None:
        self._segment = segment
        self._extend = extend
        self._free: dict[int, list[int]] = {}
        self.nbytes = 0

    def take(self, sizes: Sequence[int]) -> list[Buffer]:
        """Return buffers of these numbers of bytes."""
        rounded = [max(_LINE, -(-size // _LINE) * _LINE) for size in sizes]
        wanted: dict[int, int] = {}
        for size in rounded:
            wanted[size] = wanted.get(size, 0) + 1
        missing = {s: n - len(self._free.get(s, ())) for s, n in wanted.items()}
        total = sum(size * n for size, n in missing.items() if n > 0)
        if total:
            start = self._extend(total)
            self.nbytes += total
            for size, n in missing.items():
                for _ in range(max(n, 0)):
                    self.give_back(start, size)
                    start += size
        return [Buffer(self, self._free[size].pop(), size) for size in rounded]

    def give_back(self, offset: int, nbytes: int) -> None:
        """Note that a piece is free."""
        self._free.setdefault(nbytes, []).append(offset)

    def view(
        self, pe: int, offset: int, shape: tuple[int, ...], dtype: np.dtype[np.generic]
    ) -> Array:
        """Return a piece of a PE's heap as an array."""
        layout = self._segment.layout
        start = layout.heaps + pe * layout.stride + offset
        return np.ndarray(shape, dtype, self._segment.bytes, start)


def array_nbytes(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> int:
    """Return the number of bytes of an array."""
    return int(np.prod(shape, dtype=np.int64)) * dtype.itemsize


def copy_all(pairs: Sequence[tuple[Array, Array]]) -> None:
    """Copy arrays (target, source), in several threads if that pays."""
    total = sum(target.nbytes for target, _ in pairs)
    cores = usable_cores()
    if total < _PARALLEL_BYTES or cores < 2:
        for target, source in pairs:
            target[...] = source
        return
    pieces = []
    for target, source in pairs:
        count = len(target) if target.ndim and target.nbytes > _PARALLEL_BYTES // 4 else 1
        for part in range(min(cores, count)):
            rows = slice(part * count // min(cores, count), (part + 1) * count // min(cores, count))
            pieces.append((target[rows], source[rows]) if count > 1 else (target, source))
    with ThreadPoolExecutor(min(cores, 4)) as pool:
        for future in [pool.submit(np.copyto, target, source) for target, source in pieces]:
            future.result()
