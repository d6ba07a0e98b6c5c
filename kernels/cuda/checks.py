"""What must hold of arguments before a kernel is launched."""

from __future__ import annotations

from emu.kernels.cuda.arrays import DeviceArray
from emu.kernels.dtypes import KINDS
from emu.kernels.errors import ArgumentError

MAX_RANK = 8


def check_tile(target: DeviceArray, source: DeviceArray, *, sums: bool = False) -> None:
    """Check the arguments of SET, or those of ADD.

    Raises:
        ArgumentError: Rank, shapes, dtypes or strides are not as they must be.
    """
    if not 1 <= target.ndim <= MAX_RANK:
        raise ArgumentError(f"the rank of target must be 1 to {MAX_RANK}, but got {target.ndim}")
    if source.shape != target.shape:
        raise ArgumentError(
            f"the shape of source must be that of target, {target.shape}, but got {source.shape}"
        )
    if source.dtype != target.dtype:
        raise ArgumentError(
            f"the dtype of source must be that of target, {target.dtype}, but got {source.dtype}"
        )
    if target.dtype.hasobject or target.itemsize not in (1, 2, 4, 8):
        raise ArgumentError(
            f"the dtype of target must have 1, 2, 4 or 8 bytes, but got {target.dtype}"
        )
    if sums and target.dtype not in KINDS:
        raise ArgumentError(
            f"the dtype of target must be one of {', '.join(kind.name for kind in KINDS)}, "
            f"but got {target.dtype}"
        )
    check_aligned(source, "source")
    check_written(target, "target")


def check_aligned(array: DeviceArray, name: str) -> None:
    """Check that each element is aligned to its size.

    Raises:
        ArgumentError: The address or a stride is no multiple of the item size.
    """
    steps = (array.address, *array.strides)
    if array.size and any(step % array.itemsize for step in steps):
        raise ArgumentError(
            f"the address and strides of {name} must be multiples of its {array.itemsize} bytes an "
            f"element, but got {array.address:#x} and {array.strides}"
        )


def check_written(array: DeviceArray, name: str) -> None:
    """Check that a kernel may write to an array, each element once.

    Raises:
        ArgumentError: It is read-only, misaligned, or elements share memory.
    """
    if array.read_only:
        raise ArgumentError(f"{name} must be writable, but got a read-only array")
    check_aligned(array, name)
    axes = sorted((abs(step), n) for n, step in zip(array.shape, array.strides, strict=True))
    reach = array.itemsize
    for step, n in axes:
        if n > 1:
            if step < reach and array.size:
                raise ArgumentError(
                    f"each element of {name} must have memory of its own, but got strides "
                    f"{array.strides} for the shape {array.shape}"
                )
            reach += (n - 1) * step
