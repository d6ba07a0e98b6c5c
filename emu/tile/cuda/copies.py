"""Copies of host memory on a device, for the time of a launch."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator, Sequence

import numpy as np

Block = tuple[int, int, bool]
"""Host memory: address of its first byte, address behind its last, and whether kernels write to it."""


@contextlib.contextmanager
def copied(blocks: Sequence[Block]) -> Iterator[list[int]]:
    """Copy blocks of host memory to the device, and back at the end what kernels write to.

    Nothing is copied back where the ``with`` block fails.

    Yields:
        The address of each block on the device.
    """
    from numba import cuda

    arrays = [
        np.ctypeslib.as_array((ctypes.c_uint8 * (end - start)).from_address(start))
        for start, end, _ in blocks
    ]
    copies = [cuda.to_device(array) for array in arrays]
    yield [int(c.__cuda_array_interface__["data"][0]) for c in copies]
    for copy, array, (_, _, is_written) in zip(copies, arrays, blocks, strict=True):
        if is_written:
            copy.copy_to_host(array)
