"""Arrays in device memory, of every dtype: Numba knows neither bf16 nor, on the host, fp16.

A :class:`DeviceArray` remembers what its bits mean; kernels see integers. The functions of this
package take it, Numba's own device arrays, and anything with ``__cuda_array_interface__`` (CuPy,
PyTorch), at no copy.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda

from emu.kernels.core.annotations import Array, KernelArray
from emu.kernels.core.checks import check
from emu.kernels.core.messages import shown
from emu.kernels.cuda.device import SIMULATED, require_device
from emu.kernels.errors import ArgumentError

_MOST_BYTES = 1 << 40  # more than any device has
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_NUMBA_KNOWS = frozenset(map(np.dtype, "bhilqBHILQfdFD"))


class _At:
    """Memory at an address, under the protocols by which arrays are exchanged."""

    def __init__(self, interface: dict[str, object], owner: object) -> None:
        name = "__array_interface__" if SIMULATED else "__cuda_array_interface__"
        setattr(self, name, interface)
        self.owner = owner


def _numba_array(
    address: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: npt.DTypeLike,
    owner: object,
) -> KernelArray:
    """Return Numba's device array over the memory."""
    interface = {
        "version": 3,
        "data": (address, False),
        "shape": shape,
        "strides": strides,
        "typestr": np.dtype(dtype).str,
    }
    at = _At(interface, owner)
    if SIMULATED:
        from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

        return FakeCUDAArray(np.asarray(at))
    return cuda.as_cuda_array(at)


class DeviceArray:
    """An array in device memory, or a view of one.

    Attributes:
        address: Where its first element lies.
        shape: Extent along each axis.
        strides: Bytes from one element to the next along each axis; may be negative.
        dtype: What the bits mean: NumPy's dtypes, and those of ``ml_dtypes``.
        owner: What keeps the memory alive.
        read_only: Whether its owner forbids writing.
    """

    __slots__ = ("address", "dtype", "owner", "read_only", "shape", "strides")

    def __init__(
        self,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype[np.generic],
        owner: object,
        *,
        read_only: bool = False,
    ) -> None:
        self.address = address
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.owner = owner
        self.read_only = read_only

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def window(self) -> tuple[int, int]:
        """Addresses of the first byte of an element and of the one behind the last."""
        if self.size == 0:
            return self.address, self.address
        steps = [(n - 1) * step for n, step in zip(self.shape, self.strides, strict=True)]
        low = sum(step for step in steps if step < 0)
        high = sum(step for step in steps if step > 0)
        return self.address + low, self.address + high + self.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """Exchange protocol; bf16 and other dtypes of ``ml_dtypes`` go as raw bytes."""
        return {
            "version": 3,
            "data": (self.address, self.read_only),
            "shape": self.shape,
            "strides": self.strides,
            "typestr": self.dtype.str,
        }

    @property
    def bits(self) -> KernelArray:
        """Numba's device array over the same memory, to pass to a kernel of your own.

        fp16, bf16 and other dtypes that Numba's kernels do not know appear as unsigned integers of
        their width, bool as uint8; the others as themselves.
        """
        kind = self.dtype if self.dtype in _NUMBA_KNOWS else np.dtype(_BITS[self.itemsize])
        return _numba_array(self.address, self.shape, self.strides, kind, self.owner)

    def __getitem__(self, index: object) -> DeviceArray:
        """Return a view: integers, slices, ``...`` and ``None`` as in NumPy, no arrays."""
        entries = index if isinstance(index, tuple) else (index,)
        for entry in entries:
            makes_a_view = entry is None or entry is Ellipsis or type(entry) is slice
            if not makes_a_view and (isinstance(entry, bool) or not hasattr(entry, "__index__")):
                raise TypeError(
                    f"an index must be an integer, a slice, ... or None, but got {entry!r}"
                )
        if Ellipsis not in entries:
            entries = (*entries, Ellipsis)  # so that NumPy returns a view even of one element
        return self._like(self.layout()[entries])

    @property
    def T(self) -> DeviceArray:
        """View with the axes in reverse order."""
        return self._like(self.layout().T)

    def transpose(self, *axes: int) -> DeviceArray:
        """Return the view with the axes in another order."""
        return self._like(self.layout().transpose(*axes))

    def copy_to_host(self) -> Array:
        """Return the contents as a NumPy array of the same dtype."""
        require_device()
        start, end = self.window
        if start == end:
            return np.empty(self.shape, self.dtype)
        raw = _numba_array(start, (end - start,), (1,), np.uint8, self.owner).copy_to_host()
        found: Array = np.ndarray(
            self.shape, self.dtype, raw, offset=self.address - start, strides=self.strides
        )
        return found.copy()

    def layout(self) -> Array:
        """Return a NumPy array of the same layout, whose elements must not be touched."""
        # Its data lie at an address of the device, which only arithmetic on layouts may see.
        nowhere = _At.__new__(_At)
        nowhere.__array_interface__ = {  # type: ignore[attr-defined]
            "version": 3,
            "data": (self.address, False),
            "shape": self.shape,
            "strides": self.strides,
            "typestr": f"|V{self.itemsize}",
        }
        return np.asarray(nowhere)

    def _like(self, layout: Array) -> DeviceArray:
        address = int(layout.__array_interface__["data"][0])
        return DeviceArray(
            address,
            layout.shape,
            layout.strides,
            self.dtype,
            self.owner,
            read_only=self.read_only,
        )

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype.name}, at={self.address:#x})"


def empty(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> DeviceArray:
    """Allocate a device array, C-ordered; its contents are arbitrary.

    Args:
        shape: Extent along each axis.
        dtype: A dtype of NumPy or ``ml_dtypes``.

    Returns:
        The array.

    Raises:
        ArgumentError: A bad shape or dtype.
        CudaUnavailableError: There is neither a CUDA device nor the simulator.
    """
    kind = check.dtype("dtype", dtype)
    if kind.hasobject:
        raise ArgumentError(f"dtype must be of plain numbers, but got {kind}")
    try:
        extents: tuple[int, ...] = (operator.index(shape),)  # type: ignore[arg-type]  # a tuple raises
    except TypeError:
        extents = check.integers("shape", shape)
    nbytes = math.prod(extents) * kind.itemsize
    if any(n < 0 for n in extents) or nbytes >= _MOST_BYTES:
        raise ArgumentError(
            f"shape must be of extents that are not negative and less than 2**40 bytes in all, but "
            f"got {shown(extents)}"
        )
    require_device()
    memory = cuda.device_array(max(1, nbytes), np.uint8)
    return DeviceArray(
        _address(memory), extents, _dense_strides(extents, kind.itemsize), kind, memory
    )


def _dense_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = [itemsize] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(1, shape[axis + 1])
    return tuple(strides)


def to_device(array: Array) -> DeviceArray:
    """Copy a NumPy array to the device, C-ordered.

    Args:
        array: Any layout; a dtype of NumPy or ``ml_dtypes``.

    Returns:
        The array in device memory.

    Raises:
        ArgumentError: ``array`` is not a NumPy array.
        CudaUnavailableError: There is neither a CUDA device nor the simulator.
    """
    check.ndarray("array", array)
    if array.dtype.hasobject:
        raise ArgumentError(f"array must be of plain numbers, but got dtype {array.dtype}")
    target = empty(array.shape, array.dtype)
    if array.size:
        host = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        raw = _numba_array(target.address, host.shape, (1,), np.uint8, target.owner)
        raw.copy_to_device(host)
    return target


def place(value: Any, name: str) -> DeviceArray:
    """Return an argument as a device array, without a copy.

    Args:
        value: A :class:`DeviceArray`, one of Numba's device arrays, or an object with
            ``__cuda_array_interface__``.
        name: The argument's name, for the error.

    Returns:
        The array.

    Raises:
        ArgumentError: It lies in host memory, or its elements are not plain numbers.
        CudaUnavailableError: There is neither a CUDA device nor the simulator.
    """
    require_device()
    if isinstance(value, DeviceArray):
        return value
    if SIMULATED and getattr(value, "__cuda_ndarray__", False):
        value = value._ary
        return DeviceArray(value.ctypes.data, value.shape, value.strides, value.dtype, value)
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is None:
        raise ArgumentError(
            f"{name} must be in device memory (emu.kernels.cuda.arrays.to_device), but got "
            f"{type(value).__module__}.{type(value).__name__}"
        )
    if interface.get("mask") is not None:
        raise ArgumentError(f"{name} must be without a mask, but got a masked array")
    _wait_for(interface.get("stream"))
    kind, shape = np.dtype(interface["typestr"]), tuple(interface["shape"])
    strides = interface.get("strides")
    steps = _dense_strides(shape, kind.itemsize) if strides is None else tuple(strides)
    address, read_only = interface["data"]
    return DeviceArray(int(address), shape, steps, kind, value, read_only=bool(read_only))


def _wait_for(stream: int | None) -> None:
    """Wait until what another library put on its stream is done; kernels run on the default one."""
    if stream not in (None, 0, 1) and not SIMULATED:
        cuda.external_stream(stream).synchronize()


def _address(memory: KernelArray) -> int:
    if SIMULATED:
        return int(memory._ary.ctypes.data)
    return int(memory.__cuda_array_interface__["data"][0])


__all__ = ["DeviceArray", "empty", "place", "to_device"]
