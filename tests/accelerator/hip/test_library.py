"""HIP's library as programs call it through ``ctypes``: devices, memory, handles for other processes."""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import emu
import emu.accelerator

torch = pytest.importorskip("torch")

from emu.accelerator.hip import virtual_memory
from emu.accelerator.hip.errors import (
    INVALID_DEVICE,
    INVALID_HANDLE,
    INVALID_VALUE,
    NOT_SUPPORTED,
    SUCCESS,
)
from emu.accelerator.hip.library import HipLibrary

UNIT = 16 * virtual_memory.GRANULARITY


class Access(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int), ("device", ctypes.c_int), ("flags", ctypes.c_int))


class ExternalOfHip(ctypes.Structure):
    """The description in C: the union of the descriptor and two pointers begins at a multiple of 8."""

    class Handle(ctypes.Union):
        _fields_ = (("fd", ctypes.c_int), ("names", ctypes.c_void_p * 2))

    _fields_ = (("type", ctypes.c_int), ("handle", Handle), ("size", ctypes.c_ulonglong))


class Buffer(ctypes.Structure):
    _fields_ = (
        ("offset", ctypes.c_ulonglong),
        ("size", ctypes.c_ulonglong),
        ("flags", ctypes.c_uint),
    )


@pytest.fixture
def hip() -> Iterator[HipLibrary]:
    emu.accelerator.install()
    yield HipLibrary()
    emu.accelerator.uninstall()


def text_of(hip: HipLibrary, code: int) -> str:
    text: bytes = hip.hipGetErrorString(ctypes.c_int(code))
    return text.decode()


def bytes_at(address: int, size: int) -> np.ndarray[Any, Any]:
    return np.ctypeslib.as_array((ctypes.c_ubyte * size).from_address(address))


def allocated(hip: HipLibrary, size: int) -> int:
    pointer = ctypes.c_void_p()
    assert hip.hipMalloc(ctypes.byref(pointer), size) == SUCCESS
    return pointer.value or 0


def imported(hip: HipLibrary, fd: int, size: int) -> tuple[int, int]:
    """Return what stands for the memory of a descriptor, and where it is mapped."""
    told = ExternalOfHip(type=1, size=size)
    told.handle.fd = fd
    external, pointer = ctypes.c_void_p(), ctypes.c_void_p()
    assert hip.hipImportExternalMemory(ctypes.byref(external), ctypes.byref(told)) == SUCCESS
    buffer = Buffer(0, size, 0)
    code = hip.hipExternalMemoryGetMappedBuffer(
        ctypes.byref(pointer), external, ctypes.byref(buffer)
    )
    assert code == SUCCESS
    return external.value or 0, pointer.value or 0


def exported(hip: HipLibrary, address: int, size: int) -> int:
    fd = ctypes.c_int(-1)
    code = hip.hipMemGetHandleForAddressRange(
        ctypes.byref(fd), ctypes.c_void_p(address), size, 1, 0
    )
    assert code == SUCCESS, text_of(hip, code)
    return fd.value


# --- devices -------------------------------------------------------------------------------------


def test_devices_are_the_emulated_ones(hip: HipLibrary) -> None:
    count, device = ctypes.c_int(), ctypes.c_int(-1)
    assert hip.hipGetDeviceCount(ctypes.byref(count)) == SUCCESS
    assert count.value == torch.cuda.device_count()
    assert hip.hipSetDevice(0) == SUCCESS
    assert hip.hipGetDevice(ctypes.byref(device)) == SUCCESS
    assert device.value == 0
    units, chiplets = ctypes.c_int(), ctypes.c_int()
    assert hip.hipDeviceGetAttribute(ctypes.byref(units), 63, 0) == SUCCESS
    assert hip.hipDeviceGetAttribute(ctypes.byref(chiplets), 10018, 0) == SUCCESS
    least = torch.cuda.get_device_properties(0).multi_processor_count
    assert least <= units.value < least + chiplets.value
    assert units.value % chiplets.value == 0  # each has as many


def test_errors_are_codes_with_a_reason(hip: HipLibrary) -> None:
    assert hip.hipSetDevice(99) == INVALID_DEVICE
    assert "device must be in [0, " in text_of(hip, INVALID_DEVICE)
    value = ctypes.c_int()
    assert hip.hipDeviceGetAttribute(ctypes.byref(value), 12345, 0) == INVALID_VALUE
    assert "but got 12345" in text_of(hip, INVALID_VALUE)
    assert text_of(hip, INVALID_HANDLE) == "invalid resource handle"  # not the last error
    assert text_of(hip, 99999) == "unrecognized error code"


def test_functions_that_are_not_there_are_missed_as_in_a_library(hip: HipLibrary) -> None:
    with pytest.raises(AttributeError, match="hipLaunchKernel"):
        _ = hip.hipLaunchKernel
    hip.hipMalloc.argtypes = (ctypes.c_void_p, ctypes.c_size_t)  # as a program may
    assert hip.hipMalloc.argtypes


# --- memory --------------------------------------------------------------------------------------


def test_memory_is_clear_and_ends_when_it_is_freed(hip: HipLibrary) -> None:
    address = allocated(hip, 1000)
    assert not bytes_at(address, 1000).any()
    base, size = ctypes.c_void_p(), ctypes.c_size_t()
    inside = ctypes.c_void_p(address + 10)
    assert hip.hipMemGetAddressRange(ctypes.byref(base), ctypes.byref(size), inside) == SUCCESS
    assert (base.value, size.value) == (address, 1000)
    assert hip.hipFree(ctypes.c_void_p(address + 10)) == INVALID_VALUE
    assert hip.hipFree(ctypes.c_void_p(address)) == SUCCESS
    assert hip.hipFree(ctypes.c_void_p(address)) == INVALID_VALUE
    assert hip.hipFree(None) == SUCCESS
    assert hip.hipMalloc(ctypes.byref(base), -1) == INVALID_VALUE


def test_a_descriptor_gives_another_mapping_of_the_memory(hip: HipLibrary) -> None:
    address = allocated(hip, 5000)
    fd = exported(hip, address + 100, 10)
    external, other = imported(hip, fd, 5000)
    os.close(fd)
    assert other != address
    bytes_at(address, 5000)[17] = 42
    assert bytes_at(other, 5000)[17] == 42
    assert hip.hipDestroyExternalMemory(ctypes.c_void_p(external)) == SUCCESS
    assert hip.hipDestroyExternalMemory(ctypes.c_void_p(external)) == INVALID_HANDLE
    assert hip.hipFree(ctypes.c_void_p(address)) == SUCCESS


def test_more_than_the_memory_is_not_exported(hip: HipLibrary) -> None:
    address = allocated(hip, 5000)
    fd = ctypes.c_int()
    code = hip.hipMemGetHandleForAddressRange(
        ctypes.byref(fd), ctypes.c_void_p(address + 1), 5000, 1, 0
    )
    assert code == INVALID_VALUE
    assert "must be in [1, 4999]" in text_of(hip, code)


def test_memory_of_torch_is_this_processs_alone(hip: HipLibrary) -> None:
    tensor = torch.zeros(1 << 16, device="cuda")
    base, size = ctypes.c_void_p(), ctypes.c_size_t()
    there = ctypes.c_void_p(tensor.data_ptr())
    assert hip.hipMemGetAddressRange(ctypes.byref(base), ctypes.byref(size), there) == SUCCESS
    assert base.value is not None
    fd = exported(hip, tensor.data_ptr(), tensor.nbytes)
    _, start = imported(hip, fd, size.value)
    assert start == base.value
    child = os.fork()
    if not child:
        told = ExternalOfHip(type=1, size=1)
        told.handle.fd = fd
        out = ctypes.c_void_p()
        os._exit(hip.hipImportExternalMemory(ctypes.byref(out), ctypes.byref(told)) % 256)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == NOT_SUPPORTED % 256
    handle = ctypes.c_void_p()
    code = hip.hipMemImportFromShareableHandle(ctypes.byref(handle), ctypes.c_void_p(fd), 1)
    assert code == INVALID_VALUE
    assert "private" in text_of(hip, code)
    os.close(fd)


def test_other_descriptors_are_refused(hip: HipLibrary) -> None:
    with open(__file__, "rb") as file:
        handle = ctypes.c_void_p()
        code = hip.hipMemImportFromShareableHandle(ctypes.byref(handle), file.fileno(), 1)
        assert code == INVALID_HANDLE
        assert __file__ in text_of(hip, code)
    assert hip.hipMemImportFromShareableHandle(ctypes.byref(handle), 1 << 20, 1) == INVALID_HANDLE


def test_an_ipc_handle_is_good_in_another_process(hip: HipLibrary) -> None:
    address = allocated(hip, 4096)
    handle = ctypes.create_string_buffer(64)
    assert hip.hipIpcGetMemHandle(handle, ctypes.c_void_p(address)) == SUCCESS
    child = os.fork()
    if not child:
        there = ctypes.c_void_p()
        failed = hip.hipIpcOpenMemHandle(ctypes.byref(there), handle, 1)
        if not failed:
            bytes_at(there.value or 0, 4096)[5] = 9
        os._exit(failed % 256)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert bytes_at(address, 4096)[5] == 9


# --- virtual memory ------------------------------------------------------------------------------


def created(hip: HipLibrary, size: int) -> int:
    handle = ctypes.c_void_p()
    assert hip.hipMemCreate(ctypes.byref(handle), size, None, 0) == SUCCESS
    return handle.value or 0


def reserved(hip: HipLibrary, size: int, alignment: int = 0) -> int:
    pointer = ctypes.c_void_p()
    assert hip.hipMemAddressReserve(ctypes.byref(pointer), size, alignment, None, 0) == SUCCESS
    return pointer.value or 0


def test_memory_is_mapped_twice_and_shared_by_a_descriptor(hip: HipLibrary) -> None:
    handle, start = created(hip, UNIT), reserved(hip, 2 * UNIT, 4 << 20)
    assert start % (4 << 20) == 0
    fd, other = ctypes.c_int(), ctypes.c_void_p()
    assert hip.hipMemExportToShareableHandle(ctypes.byref(fd), handle, 1, 0) == SUCCESS
    assert hip.hipMemImportFromShareableHandle(ctypes.byref(other), fd.value, 1) == SUCCESS
    os.close(fd.value)
    assert hip.hipMemMap(start, UNIT, 0, handle, 0) == SUCCESS
    assert hip.hipMemMap(start + UNIT, UNIT, 0, other, 0) == SUCCESS
    access = Access(1, 0, 3)
    assert hip.hipMemSetAccess(start, 2 * UNIT, ctypes.byref(access), 1) == SUCCESS
    bytes_at(start, UNIT)[UNIT - 1] = 7
    assert bytes_at(start + UNIT, UNIT)[UNIT - 1] == 7
    for part in (start, start + UNIT):
        assert hip.hipMemUnmap(part, UNIT) == SUCCESS
    assert hip.hipMemRelease(handle) == hip.hipMemRelease(other) == SUCCESS
    assert hip.hipMemAddressFree(start, 2 * UNIT) == SUCCESS


def test_nobody_has_access_before_it_is_given(hip: HipLibrary) -> None:
    handle, start = created(hip, UNIT), reserved(hip, UNIT)
    assert hip.hipMemMap(start, UNIT, 0, handle, 0) == SUCCESS
    child = os.fork()
    if not child:
        faulthandler.disable()
        bytes_at(start, UNIT)[0] = 1
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) < 0  # a signal
    assert hip.hipMemUnmap(start, UNIT) == SUCCESS


@pytest.mark.parametrize("size", [0, -UNIT, UNIT + 1, mmap.PAGESIZE - 1])
def test_sizes_are_multiples_of_the_granularity(hip: HipLibrary, size: int) -> None:
    handle, told = ctypes.c_void_p(), ctypes.c_size_t()
    assert hip.hipMemGetAllocationGranularity(ctypes.byref(told), None, 1) == SUCCESS
    assert told.value == virtual_memory.GRANULARITY
    assert hip.hipMemCreate(ctypes.byref(handle), size, None, 0) == INVALID_VALUE


def test_what_is_mapped_where_is_checked(hip: HipLibrary) -> None:
    handle, start = created(hip, UNIT), reserved(hip, UNIT)
    access = Access(1, 0, 3)
    assert hip.hipMemSetAccess(start, UNIT, ctypes.byref(access), 1) == INVALID_VALUE
    assert hip.hipMemMap(start, 2 * UNIT, 0, handle, 0) == INVALID_VALUE  # more than there is
    assert hip.hipMemMap(UNIT, UNIT, 0, handle, 0) == INVALID_VALUE  # not reserved
    assert hip.hipMemMap(start, UNIT, 0, handle + 1000, 0) == INVALID_HANDLE
    assert hip.hipMemMap(start, UNIT, 0, handle, 0) == SUCCESS
    assert hip.hipMemMap(start, UNIT, 0, handle, 0) == INVALID_VALUE  # taken
    assert hip.hipMemAddressFree(start, UNIT) == INVALID_VALUE  # still mapped
    assert hip.hipMemUnmap(start, UNIT // 2) == INVALID_VALUE
    assert hip.hipMemUnmap(start, UNIT) == SUCCESS
    assert hip.hipMemRelease(handle) == SUCCESS
    assert hip.hipMemRelease(handle) == INVALID_HANDLE


# --- symmetric memory ----------------------------------------------------------------------------


def _hand_over() -> list[int]:
    """Let PE 1 reach PE 0's part of an array by a descriptor, which it gets through /proc."""
    emu.accelerator.install()
    from emu.accelerator.hip.memory import BLOCKS, Block, export, open_place

    world = emu.world()
    array = world.alloc((8192,), np.int8)
    tell = world.alloc((2,), np.int64)
    if world.my_pe == 0:
        BLOCKS.add(array.local.ctypes.data, Block(8192))
        tell.on(1)[:] = os.getpid(), export(array.local.ctypes.data, 8192)
    world.barrier()
    if world.my_pe == 1:
        process, fd = tell.local.tolist()
        mine = os.open(f"/proc/{process}/fd/{fd}", os.O_RDWR)
        place = open_place(mine)
        assert place.address == array.on(0).ctypes.data
        mapped = mmap.mmap(place.fd, place.size, offset=place.offset)
        mapped[9] = 99
    world.barrier()
    found: list[int] = array.local[8:11].tolist()
    return found


def test_a_descriptor_of_symmetric_memory_is_good_on_another_pe() -> None:
    assert emu.launch(_hand_over, 2, timeout=100) == [[0, 99, 0], [0, 0, 0]]
