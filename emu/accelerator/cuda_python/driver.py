"""Functions of CUDA's driver as its Python bindings have them: what streams write and wait for, and what devices are.

Each returns a tuple that begins with a result code, which is always that of success: what is wrong is raised. A stream of an
emulated device does its work when that is submitted.
"""

from __future__ import annotations

import ctypes
import enum
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from emu.accelerator.errors import NotEmulatedError
from emu.accelerator.nvshmem import streams
from emu.accelerator.nvshmem.context import Context, find_world, found
from emu.accelerator.nvshmem.errors import NvshmemError, NvshmemInvalid, check
from emu.accelerator.nvshmem.operands import place_of
from emu.comm.ops import AtomicOp, Cmp
from emu.comm.world.current import check_one_host
from emu.kernels.core.messages import shown

if TYPE_CHECKING:  # it loads Numba
    from emu.comm.world.array import SymmetricArray


class CUresult(enum.IntEnum):
    """Result codes."""

    CUDA_SUCCESS = 0


class CUstreamWriteValue_flags(enum.IntFlag):
    """How a stream writes a word."""

    CU_STREAM_WRITE_VALUE_DEFAULT = 0
    """After all that it has done before."""
    CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER = 1
    """Maybe before."""


class CUstreamWaitValue_flags(enum.IntFlag):
    """What a stream waits for."""

    CU_STREAM_WAIT_VALUE_GEQ = 0
    CU_STREAM_WAIT_VALUE_EQ = 1
    CU_STREAM_WAIT_VALUE_AND = 2
    CU_STREAM_WAIT_VALUE_NOR = 3


class CUdevice_attribute(enum.IntEnum):
    """Attributes of devices that libraries ask for."""

    CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED = 132


_ATTRIBUTES = {CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED: 0}
_COMPARISONS = {
    CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ: Cmp.GE,
    CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_EQ: Cmp.EQ,
}
_DRIVER_VERSION = 12040


def cuGetErrorName(error: int) -> tuple[CUresult, bytes]:
    """Return the name of a result code."""
    return CUresult.CUDA_SUCCESS, CUresult(error).name.encode()


def cuDriverGetVersion() -> tuple[CUresult, int]:
    """Return the driver's version: that of ``torch.version.cuda``."""
    return CUresult.CUDA_SUCCESS, _DRIVER_VERSION


def cuDeviceGet(ordinal: int) -> tuple[CUresult, int]:
    """Return a device's handle: its number."""
    return CUresult.CUDA_SUCCESS, check.index("ordinal", ordinal, torch.cuda.device_count())


def cuDeviceGetAttribute(attrib: int, dev: int) -> tuple[CUresult, int]:
    """Return an attribute of a device.

    Raises:
        NotEmulatedError: An emulated device does not have it.
    """
    if attrib not in _ATTRIBUTES:
        raise NotEmulatedError(f"cuDeviceGetAttribute: attribute {shown(attrib)} is not emulated")
    return CUresult.CUDA_SUCCESS, _ATTRIBUTES[CUdevice_attribute(attrib)]


def cuStreamWriteValue32(stream: Any, addr: Any, value: Any, flags: Any) -> tuple[CUresult]:
    """Let a stream write a word of 32 bits; a PE that waits for it looks again.

    Args:
        stream: A stream's number.
        addr: Address of the word, in any memory of this process.
        value: The value.
        flags: One of :class:`CUstreamWriteValue_flags`.

    Raises:
        NvshmemInvalid: An argument breaks a rule.
    """
    return _write("cuStreamWriteValue32", stream, (addr, value), 4)


def cuStreamWriteValue64(stream: Any, addr: Any, value: Any, flags: Any) -> tuple[CUresult]:
    """Let a stream write a word of 64 bits; as :func:`cuStreamWriteValue32`."""
    return _write("cuStreamWriteValue64", stream, (addr, value), 8)


def cuStreamWaitValue32(stream: Any, addr: Any, value: Any, flags: Any) -> tuple[CUresult]:
    """Let a stream wait until a word of 32 bits compares with a value as asked.

    Args:
        stream: A stream's number.
        addr: Address of the word.
        value: The value.
        flags: The comparison, one of :class:`CUstreamWaitValue_flags`.

    Raises:
        NvshmemInvalid: An argument breaks a rule, or the word is in no symmetric memory of this PE and holds another
            value: nothing that is submitted later could change it.
        NotEmulatedError: The comparison is one of bits.
    """
    return _wait("cuStreamWaitValue32", stream, (addr, value), flags, 4)


def cuStreamWaitValue64(stream: Any, addr: Any, value: Any, flags: Any) -> tuple[CUresult]:
    """Let a stream wait for a word of 64 bits; as :func:`cuStreamWaitValue32`."""
    return _wait("cuStreamWaitValue64", stream, (addr, value), flags, 8)


def CUfunction(handle: Any) -> Any:
    """Return the handle of a function."""
    return handle


def cuOccupancyMaxActiveBlocksPerMultiprocessor(
    func: Any, block_size: int, dynamic_smem_size: int
) -> tuple[CUresult, int]:
    """Return how many programs run at once on a multiprocessor: 1."""
    return CUresult.CUDA_SUCCESS, 1


def here(op: str) -> Context:
    """Return the World of this process, and the current device, as operations take them.

    Raises:
        NvshmemError: This process is no PE of a World.
    """
    known = found()
    if known is not None:
        return known
    check_one_host("cuda.bindings")
    world = find_world()
    if world is None:
        raise NvshmemError(f"{op} must be called on a PE: start the program by `emu run`")
    return Context(world, torch.device("cuda", torch.cuda.current_device()), None)


def _write(op: str, stream: Any, word: tuple[Any, Any], nbytes: int) -> tuple[CUresult]:
    context = here(op)
    address, number = _checked(op, word, nbytes)
    pe, offset = place_of(context, address)

    def act() -> None:
        world = context.world
        world.fence()
        if pe < 0:
            _memory(address, nbytes).value = number
        else:
            world.signal_op(_word(context, offset, nbytes), number, pe, op=AtomicOp.SET)

    streams.run(op, context.device, stream, act, writes=[None])
    return (CUresult.CUDA_SUCCESS,)


def _wait(op: str, stream: Any, word: tuple[Any, Any], flags: Any, nbytes: int) -> tuple[CUresult]:
    context = here(op)
    address, number = _checked(op, word, nbytes)
    comparison = _COMPARISONS.get(flags)
    if comparison is None:
        known = ", ".join(flag.name or "" for flag in _COMPARISONS)
        raise NotEmulatedError(f"{op}: flags must be one of {known}, but got {shown(flags)}")
    pe, offset = place_of(context, address)
    mine = pe == context.world.my_pe

    def act() -> None:
        if mine:
            context.world.wait_until(_word(context, offset, nbytes), comparison, number)
            return
        found = _memory(address, nbytes).value
        if not (found == number or (comparison is Cmp.GE and found > number)):
            raise NvshmemInvalid(
                f"{op}: addr must be a word of this PE's symmetric memory, or hold {number} already, but {address:#x} "
                f"holds {found}: a stream does its work when it is submitted, so that nothing later can change it"
            )

    streams.run(op, context.device, stream, act, reads=[None], waits=True)
    return (CUresult.CUDA_SUCCESS,)


def _checked(op: str, word: tuple[Any, Any], nbytes: int) -> tuple[int, int]:
    """Return an address and a value, signed.

    Raises:
        NvshmemInvalid: They are none.
    """
    address = check.integer(f"{op}: addr", word[0], 1)
    if address % nbytes:
        raise NvshmemInvalid(f"{op}: addr must be a multiple of {nbytes}, but got {shown(word[0])}")
    bits = 8 * nbytes
    number = check.integer(f"{op}: value", word[1])
    if not -(1 << bits - 1) <= number < 1 << bits:
        raise NvshmemInvalid(f"{op}: value must have {bits} bits, but got {number}")
    return address, number - (1 << bits) if number >= 1 << bits - 1 else number


def _word(context: Context, offset: int, nbytes: int) -> SymmetricArray:
    from emu.comm.world.allocation import array_at

    name = context.world.heap.name_at(offset)
    return array_at(context.world, offset, (1,), np.dtype(f"i{nbytes}"), name)


def _memory(address: int, nbytes: int) -> Any:
    kind = ctypes.c_int32 if nbytes == 4 else ctypes.c_int64
    return kind.from_address(address)
