"""Functions of CUDA's runtime as its Python bindings have them: copies, and what devices are.

As in :mod:`.driver`, the result code that each returns first is that of success.
"""

from __future__ import annotations

import ctypes
import enum
from typing import Any

import numpy as np
import torch

from emu.accelerator.cuda_python.driver import here
from emu.accelerator.errors import NotEmulatedError
from emu.accelerator.nvshmem import streams
from emu.accelerator.nvshmem.errors import check
from emu.accelerator.nvshmem.operands import at_address
from emu.kernels.core.messages import shown


class cudaError_t(enum.IntEnum):
    """Result codes."""

    cudaSuccess = 0


class cudaMemcpyKind(enum.IntEnum):
    """Between which memories a copy goes; addresses say it."""

    cudaMemcpyHostToHost = 0
    cudaMemcpyHostToDevice = 1
    cudaMemcpyDeviceToHost = 2
    cudaMemcpyDeviceToDevice = 3
    cudaMemcpyDefault = 4


class cudaDeviceP2PAttr(enum.IntEnum):
    """What a device can do with another one's memory."""

    cudaDevP2PAttrPerformanceRank = 1
    cudaDevP2PAttrAccessSupported = 2
    cudaDevP2PAttrNativeAtomicSupported = 3
    cudaDevP2PAttrCudaArrayAccessSupported = 4


_BETWEEN = {
    cudaDeviceP2PAttr.cudaDevP2PAttrPerformanceRank: 0,
    cudaDeviceP2PAttr.cudaDevP2PAttrAccessSupported: 1,
    cudaDeviceP2PAttr.cudaDevP2PAttrNativeAtomicSupported: 1,
    cudaDeviceP2PAttr.cudaDevP2PAttrCudaArrayAccessSupported: 0,
}


def cudaGetErrorString(error: int) -> tuple[cudaError_t, bytes]:
    """Return what a result code says."""
    return cudaError_t.cudaSuccess, b"no error"


def cudaFree(devPtr: Any) -> tuple[cudaError_t]:
    """Do nothing for address 0, as programs that make CUDA begin its work.

    Raises:
        NotEmulatedError: It is memory.
    """
    if devPtr:
        raise NotEmulatedError(f"cudaFree: memory is torch's, but got {shown(devPtr)}")
    return (cudaError_t.cudaSuccess,)


def cudaDeviceGetP2PAttribute(
    attr: int,
    srcDevice: int,
    dstDevice: int,
) -> tuple[cudaError_t, int]:
    """Return what a device can do with another one's memory: all, but for CUDA's arrays.

    Raises:
        NvshmemInvalid: There is no such attribute.
    """
    which = check.integer("cudaDeviceGetP2PAttribute: attr", attr, 1)
    check.index("cudaDeviceGetP2PAttribute: attr", which - 1, len(_BETWEEN))
    return cudaError_t.cudaSuccess, _BETWEEN[cudaDeviceP2PAttr(which)]


def cudaGetDeviceProperties(device: int) -> tuple[cudaError_t, Any]:
    """Return a device's properties, with CUDA's names for shared memory beside torch's."""
    return cudaError_t.cudaSuccess, _Properties(torch.cuda.get_device_properties(device))


class _Properties:
    """Properties of a device."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found, _NAMES.get(name, name))


_NAMES = {
    "sharedMemPerBlock": "shared_memory_per_block",
    "sharedMemPerBlockOptin": "shared_memory_per_block_optin",
    "sharedMemPerMultiprocessor": "shared_memory_per_multiprocessor",
    "multiProcessorCount": "multi_processor_count",
    "totalGlobalMem": "total_memory",
}


def cudaMemcpyAsync(dst: Any, src: Any, count: Any, kind: Any, stream: Any) -> tuple[cudaError_t]:
    """Let a stream copy bytes, within this process or from or to another PE's symmetric memory.

    Args:
        dst: Address of the target.
        src: Address of the source.
        count: Number of bytes.
        kind: One of :class:`cudaMemcpyKind`; addresses decide.
        stream: A stream's number.

    Raises:
        NvshmemInvalid: An address or the number is none, or symmetric memory that is not allocated is named.
    """
    op = "cudaMemcpyAsync"
    context = here(op)
    size = check.integer(f"{op}: count", count, 0)
    target = at_address(context, op, "dst", dst, size)
    source = at_address(context, op, "src", src, size)
    world = context.world
    bytes_ = np.dtype(np.uint8)

    def act() -> None:
        if target.pe not in (-1, world.my_pe):
            world.put(target.symmetric(world, bytes_), source.local(world, bytes_), target.pe)
        elif source.pe not in (-1, world.my_pe):
            world.get(source.symmetric(world, bytes_), source.pe, out=target.local(world, bytes_))
        else:
            ctypes.memmove(target.address, source.address, size)

    streams.run(op, context.device, stream, act, reads=[None], writes=[None])
    return (cudaError_t.cudaSuccess,)
