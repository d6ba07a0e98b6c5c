"""``HipLibrary``: the functions of ``libamdhip64.so`` that Python programs call."""

from __future__ import annotations

import ctypes
import itertools
import os
from typing import Any

import torch

from emu.accelerator.device_tags import current_device, device_count, set_current_device
from emu.accelerator.hip import memory, pages, virtual_memory
from emu.accelerator.hip.calls import Function, LastError, as_word, write_int, write_pointer
from emu.accelerator.hip.errors import (
    INVALID_DEVICE,
    INVALID_HANDLE,
    INVALID_VALUE,
    TEXTS,
    HipError,
)

NAME = "libamdhip64.so"

MULTIPROCESSORS, WALL_CLOCK_KHZ, CHIPLETS = 63, 10017, 10018
"""HIP's numbers of the attributes of a device that are known."""

_CHIPLETS = 8
"""Chiplets of a device, as of an MI300X; programs divide its multiprocessors by them."""

_OPAQUE_FD = 1
_POSIX_FD = 1


class _ExternalHandle(ctypes.Structure):
    """``hipExternalMemoryHandleDesc``."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("fd", ctypes.c_int64),
        ("name", ctypes.c_void_p),
        ("size", ctypes.c_uint64),
    )


class _ExternalBuffer(ctypes.Structure):
    """``hipExternalMemoryBufferDesc``."""

    _fields_ = (("offset", ctypes.c_uint64), ("size", ctypes.c_uint64))


class _Access(ctypes.Structure):
    """``hipMemAccessDesc``."""

    _fields_ = (("kind", ctypes.c_int), ("device", ctypes.c_int), ("flags", ctypes.c_int))


class _Ipc(ctypes.Structure):
    """``hipIpcMemHandle_t``: here the process, and the descriptor that it keeps open for others."""

    _fields_ = (("process", ctypes.c_int64), ("fd", ctypes.c_int64), ("rest", ctypes.c_byte * 48))


class _ErrorText(Function):
    """``hipGetErrorString``: what a code means; of the last error of this thread also the reason."""

    def __init__(self, last: LastError) -> None:
        super().__init__("hipGetErrorString", lambda code: None, last)

    def __call__(self, *arguments: Any) -> Any:
        (code,) = map(as_word, arguments)
        text = TEXTS.get(code, "unrecognized error code")
        if code and code == self._last.code:
            text = f"{text} ({self._last.why})"
        return text.encode()


class HipLibrary:
    """HIP's runtime library; functions are looked up by name, as those of a ``ctypes.CDLL``.

    A name that is not emulated is an ``AttributeError`` when it is looked up, as in a library without it.
    """

    def __init__(self) -> None:
        self._last = LastError()
        self.hipGetErrorString = _ErrorText(self._last)
        self._external: dict[int, tuple[memory.Place, list[tuple[int, int]]]] = {}
        self._numbers = itertools.count(1)
        self._opened: dict[int, int] = {}  # sizes of mappings of IPC handles, by their start
        self._ipc: dict[int, _Ipc] = {}

    def __getattr__(self, name: str) -> Function:
        run = getattr(type(self), f"_{name}", None) if name.startswith("hip") else None
        if run is None:
            raise AttributeError(f"{NAME}: undefined symbol: {name}, which is not emulated")
        function = Function(name, run.__get__(self), self._last)
        setattr(self, name, function)
        return function

    # --- devices

    def _hipGetDeviceCount(self, count: int) -> None:
        write_int(count, device_count())

    def _hipGetDevice(self, device: int) -> None:
        write_int(device, current_device("cuda"))

    def _hipSetDevice(self, device: int) -> None:
        set_current_device("cuda", _device(device))

    def _hipDeviceSynchronize(self) -> None:
        torch.cuda.synchronize()

    def _hipDeviceGetAttribute(self, value: int, attribute: int, device: int) -> None:
        _device(device)
        units = torch.cuda.get_device_properties(device).multi_processor_count
        known = {
            MULTIPROCESSORS: -(-units // _CHIPLETS) * _CHIPLETS,
            WALL_CLOCK_KHZ: 100_000,
            CHIPLETS: _CHIPLETS,
        }
        if attribute not in known:
            raise HipError(
                INVALID_VALUE, f"attr must be one of {sorted(known)}, but got {attribute}"
            )
        write_int(value, known[attribute])

    # --- memory

    def _hipMalloc(self, pointer: int, size: int) -> None:
        write_pointer(pointer, memory.allocate(size))

    def _hipExtMallocWithFlags(self, pointer: int, size: int, flags: int) -> None:
        write_pointer(pointer, memory.allocate(size))

    def _hipFree(self, pointer: int) -> None:
        memory.free(pointer)

    def _hipMemcpy(self, target: int, source: int, size: int, kind: int) -> None:
        ctypes.memmove(target, source, size)

    def _hipMemset(self, target: int, value: int, size: int) -> None:
        ctypes.memset(target, value, size)

    def _hipMemGetAddressRange(self, base: int, size: int, pointer: int) -> None:
        start, whole = memory.range_of(pointer)
        write_pointer(base, start)
        write_pointer(size, whole)

    # --- memory of other processes

    def _hipMemGetHandleForAddressRange(
        self, handle: int, pointer: int, size: int, kind: int, flags: int
    ) -> None:
        if kind != _POSIX_FD:
            raise HipError(INVALID_VALUE, f"handleType must be {_POSIX_FD}, but got {kind}")
        write_int(handle, memory.export(pointer, size))

    def _hipImportExternalMemory(self, external: int, description: int) -> None:
        told = _ExternalHandle.from_address(description)
        if told.type != _OPAQUE_FD:
            raise HipError(INVALID_VALUE, f"type must be {_OPAQUE_FD}, but got {told.type}")
        place = memory.open_place(ctypes.c_int(told.fd).value)
        if told.size > place.size:
            _close(place)
            raise HipError(INVALID_VALUE, f"size must be at most {place.size}, but got {told.size}")
        number = next(self._numbers)
        self._external[number] = (place, [])
        write_pointer(external, number)

    def _hipExternalMemoryGetMappedBuffer(
        self, pointer: int, external: int, description: int
    ) -> None:
        place, maps = self._known(external)
        told = _ExternalBuffer.from_address(description)
        if told.offset + told.size > place.size:
            raise HipError(
                INVALID_VALUE,
                f"offset and size must lie in {place.size} bytes, but got {told.offset} and {told.size}",
            )
        start = place.address
        if not start:
            size = pages.whole_pages(place.size)
            start = pages.map_file(place.fd, size, place.offset)
            maps.append((start, size))
            memory.BLOCKS.add(start, memory.Block(size, os.dup(place.fd)))
        write_pointer(pointer, start + told.offset)

    def _hipDestroyExternalMemory(self, external: int) -> None:
        place, maps = self._known(external)
        del self._external[external]
        for start, size in maps:
            block = memory.BLOCKS.take(start)
            if block is not None:
                os.close(block.fd)
            pages.unmap(start, size)
        _close(place)

    def _known(self, external: int) -> tuple[memory.Place, list[tuple[int, int]]]:
        if external not in self._external:
            raise HipError(
                INVALID_HANDLE, f"extMem must be one of hipImportExternalMemory, but got {external}"
            )
        return self._external[external]

    def _hipIpcGetMemHandle(self, handle: int, pointer: int) -> None:
        start, _ = memory.range_of(pointer)
        known = self._ipc.get(start)
        if known is None:
            known = self._ipc[start] = _Ipc(os.getpid(), memory.export(start, 1))
        ctypes.memmove(handle, ctypes.addressof(known), ctypes.sizeof(_Ipc))

    def _hipIpcOpenMemHandle(self, pointer: int, handle: int, flags: int) -> None:
        told = _Ipc.from_address(handle)
        try:
            fd = os.open(f"/proc/{told.process}/fd/{told.fd}", os.O_RDWR)
        except OSError as error:
            raise HipError(
                INVALID_HANDLE, f"handle is of process {told.process}: {error.strerror}"
            ) from None
        try:
            place = memory.open_place(fd)
        finally:
            os.close(fd)
        start = place.address
        if not start:
            size = pages.whole_pages(place.size)
            start = pages.map_file(place.fd, size, place.offset)
            self._opened[start] = size
        _close(place)
        write_pointer(pointer, start)

    def _hipIpcCloseMemHandle(self, pointer: int) -> None:
        size = self._opened.pop(pointer, 0)
        if size:
            pages.unmap(pointer, size)

    # --- virtual memory

    def _hipMemGetAllocationGranularity(self, granularity: int, prop: int, option: int) -> None:
        write_pointer(granularity, virtual_memory.GRANULARITY)

    def _hipMemCreate(self, handle: int, size: int, prop: int, flags: int) -> None:
        write_pointer(handle, virtual_memory.create(size))

    def _hipMemRelease(self, handle: int) -> None:
        virtual_memory.release(handle)

    def _hipMemExportToShareableHandle(
        self, shareable: int, handle: int, kind: int, flags: int
    ) -> None:
        write_int(shareable, virtual_memory.export(handle))

    def _hipMemImportFromShareableHandle(self, handle: int, shareable: int, kind: int) -> None:
        write_pointer(handle, virtual_memory.import_from(shareable))

    def _hipMemAddressReserve(
        self, pointer: int, size: int, alignment: int, wanted: int, flags: int
    ) -> None:
        write_pointer(pointer, virtual_memory.reserve(size, alignment, wanted))

    def _hipMemAddressFree(self, pointer: int, size: int) -> None:
        virtual_memory.give_back(pointer, size)

    def _hipMemMap(self, pointer: int, size: int, offset: int, handle: int, flags: int) -> None:
        virtual_memory.map_at(pointer, size, offset, handle)

    def _hipMemUnmap(self, pointer: int, size: int) -> None:
        virtual_memory.unmap(pointer, size)

    def _hipMemSetAccess(self, pointer: int, size: int, descriptions: int, count: int) -> None:
        told = (_Access * count).from_address(descriptions)
        mine = [one.flags for one in told if one.device == current_device("cuda")]
        virtual_memory.set_access(
            pointer, size, max(mine or [one.flags for one in told], default=0)
        )


def _device(device: int) -> int:
    if not 0 <= device < device_count():
        raise HipError(INVALID_DEVICE, f"device must be in [0, {device_count()}), but got {device}")
    return device


def _close(place: memory.Place) -> None:
    if place.fd >= 0:
        os.close(place.fd)
