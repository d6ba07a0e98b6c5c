"""Checks of arguments before a kernel is launched."""

from __future__ import annotations

import functools

from emu.kernels.core.dtypes import KINDS
from emu.kernels.cuda.arrays import DeviceArray
from emu.kernels.errors import ArgumentError
from emu.kernels.strided.overlap import lies_apart, shares_memory

MAX_RANK = 8
_OVERLAP_WORK = 1 << 20  # steps of NumPy's solver, and elements compared one by one
_lies_apart = functools.lru_cache(maxsize=1024)(lies_apart)


def check_tile(target: DeviceArray, source: DeviceArray, *, sums: bool = False) -> None:
    """Check the arguments of SET, or those of ADD.

    Raises:
        ArgumentError: Rank, shapes, dtypes or strides are not as they must be.
    """
    if not 1 <= target.ndim <= MAX_RANK:
        raise ArgumentError(f"target must have rank 1 to {MAX_RANK}, but got rank {target.ndim}")
    eight_bit_float = target.itemsize == 1 and target.dtype.name.startswith("float8")
    if target.dtype not in KINDS and (sums or not eight_bit_float):
        raise ArgumentError(
            "target must have dtype bool, int8 to int64, uint8 to uint64, float16, bfloat16, "
            f"float32 or float64{'' if sums else ', or 8-bit floating point'}, in native byte "
            f"order, but got {target.dtype}"
        )
    if source.shape != target.shape:
        raise ArgumentError(
            f"source must have target's shape {target.shape}, but got {source.shape}"
        )
    if source.dtype != target.dtype:
        raise ArgumentError(
            f"source must have target's dtype {target.dtype}, but got {source.dtype}"
        )
    check_aligned(source, "source")
    check_written(target, "target")
    check_apart(target, source, "source")


def check_aligned(array: DeviceArray, name: str) -> None:
    """Check that each element is aligned to its size.

    Raises:
        ArgumentError: The address or a stride is no multiple of the item size.
    """
    steps = [step for n, step in zip(array.shape, array.strides, strict=True) if n > 1]
    if array.size and any(step % array.itemsize for step in (array.address, *steps)):
        raise ArgumentError(
            f"{name} must have an address and strides that are multiples of its element's "
            f"{array.itemsize} bytes, but got {array.address:#x} and {array.strides}"
        )


def check_written(array: DeviceArray, name: str) -> None:
    """Check that a kernel may write to an array, each element once.

    Raises:
        ArgumentError: It is read-only, misaligned, or elements share memory.
    """
    if array.read_only:
        raise ArgumentError(f"{name} must be writable, but got a read-only array")
    check_aligned(array, name)
    if not _lies_apart(array.shape, array.strides, array.itemsize, _OVERLAP_WORK):
        raise ArgumentError(
            f"{name} must not overlap itself, but got strides {array.strides} for shape "
            f"{array.shape} and elements of {array.itemsize} bytes"
        )


def check_apart(
    target: DeviceArray, source: DeviceArray, name: str, target_name: str = "target"
) -> None:
    """Check that what is read shares no memory with what is written.

    Raises:
        ArgumentError: It does, or strides are too tangled to tell.
    """
    if target.size == 0 or source.size == 0:
        return
    (t_start, t_end), (s_start, s_end) = target.window, source.window
    if t_end <= s_start or s_end <= t_start:
        return
    shared = shares_memory(target.layout(), source.layout(), work=_OVERLAP_WORK)
    if shared is None:
        raise ArgumentError(
            f"{name} must be known to share no memory with {target_name}, but their strides "
            f"{source.strides} and {target.strides} are too tangled to tell"
        )
    if shared:
        raise ArgumentError(f"{name} must share no memory with {target_name}, but they overlap")
