"""The CUDA device, real or simulated, and launches of kernels on it.

Importing this package needs no GPU and no compiler: kernels are compiled when they are first
launched. Where Numba's simulator is on (``NUMBA_ENABLE_CUDASIM=1``, set before Numba is imported),
kernels run as Python threads on host memory, slowly and without a compiler.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence

from numba import cuda
from numba.core import config

from emu.kernels.core.annotations import Dispatcher
from emu.kernels.cuda import simulated

SIMULATED: bool = bool(getattr(config, "ENABLE_CUDASIM", False))
"""True if kernels run in Numba's CUDA simulator."""

# A simulated thread costs 0.6 ms, so few; yet several blocks, so that the grid strides are walked.
THREADS = 16 if SIMULATED else 256
_MAX_BLOCKS = 3 if SIMULATED else 1 << 16
_BLOCKS_PER_SM = 32


class CudaUnavailableError(RuntimeError):
    """There is neither a CUDA device nor Numba's simulator."""


@functools.cache
def require_device() -> None:
    """Check that kernels can be launched.

    Raises:
        CudaUnavailableError: There is neither a CUDA device nor the simulator.
    """
    if not SIMULATED and not cuda.is_available():
        reason = " ".join(str(cuda.cuda_error() or "no device").split()).rstrip(".")
        raise CudaUnavailableError(
            "a CUDA device must be available, but got "
            f"{reason}; to run in Numba's simulator instead, set "
            "NUMBA_ENABLE_CUDASIM=1 before Python starts"
        )


def kernel(function: Callable[..., None]) -> Dispatcher:
    """Make a CUDA kernel, compiled when first launched; no fast-math."""
    return cuda.jit(function)


def device_function(function: Callable[..., object]) -> Dispatcher:
    """Make a function for use in kernels.

    In the simulator it stays a plain function: Numba's simulated device functions swap the name
    ``cuda`` in their module for the length of each call, and threads that do it at once break each
    other.
    """
    return function if SIMULATED else cuda.jit(function, device=True)


@functools.cache
def sm_count() -> int:
    """Return the number of multiprocessors of the current device."""
    return 1 if SIMULATED else int(cuda.get_current_device().MULTIPROCESSOR_COUNT)


@functools.lru_cache(maxsize=1024)
def _configured(
    function: Dispatcher, grid: tuple[int, ...], block: tuple[int, ...], shared_bytes: int
) -> Dispatcher:
    with warnings.catch_warnings():
        # Numba warns of grids too small to fill the device; a small tile has no larger one.
        warnings.simplefilter("ignore")
        return function[grid, block, 0, shared_bytes]


def launch(
    function: Dispatcher,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    *arguments: object,
    touches: Sequence[tuple[int, int]] = (),
    shared_bytes: int = 0,
) -> None:
    """Launch a kernel on the default stream.

    Args:
        function: The kernel.
        grid: Blocks along each axis.
        block: Threads of a block along each axis.
        arguments: The kernel's. Named tuples become plain ones, whose types Numba finds many times faster.
        touches: The windows (first address, address behind) that the kernel may touch; the
            simulator refuses anything else.
        shared_bytes: Dynamic shared memory of a block.
    """
    plain = [tuple(each) if isinstance(each, tuple) else each for each in arguments]
    if SIMULATED:  # a simulated kernel is configured in place
        with simulated.allowed(touches):
            function[grid, block, 0, shared_bytes](*plain)
    else:
        _configured(function, grid, block, shared_bytes)(*plain)


def cover(inner: int, outer: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Choose a grid and a block for ``outer`` rows of ``inner`` items; both loops stride the grid.

    Args:
        inner: Items along the axis in which neighbours lie next to each other; at least 1.
        outer: Rows; at least 1.

    Returns:
        ``((grid x, grid y), (block x, block y))``, with x along the items.
    """
    width = min(THREADS, 1 << (inner - 1).bit_length())
    height = THREADS // width
    limit = min(_MAX_BLOCKS, sm_count() * _BLOCKS_PER_SM)
    columns = -(-inner // width)
    rows = min(-(-outer // height), limit, 65535)
    return (min(columns, max(1, limit // rows)), rows), (width, height)
