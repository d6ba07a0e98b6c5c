"""``nvshmem.core.interop.cupy``: arrays in symmetric memory. CuPy is not emulated; they are NumPy's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from emu.accelerator.arrays import Array
from emu.accelerator.nvshmem.buffers import Buffer, NvshmemResource
from emu.accelerator.nvshmem.context import Context, active, check_reach
from emu.accelerator.nvshmem.errors import NvshmemInvalid, check
from emu.accelerator.nvshmem.operands import Operand, check_pe, operand
from emu.accelerator.nvshmem.refusals import refuse_multicast
from emu.comm.errors import ArgumentError
from emu.comm.world.allocation import array_at
from emu.comm.world.checks import extents_of
from emu.kernels.core.dtype_table import KINDS
from emu.kernels.core.messages import shown

__all__ = [
    "array",
    "array_get_buffer",
    "bytearray",
    "free_array",
    "get_multicast_array",
    "get_peer_array",
]


def array(
    shape: int | Sequence[int],
    dtype: Any = "float32",
    order: str = "C",
    release: bool = False,
    except_on_del: bool = True,
) -> Array:
    """Allocate a NumPy array in symmetric memory; every PE calls it with the same arguments, and it waits for all.

    Args:
        shape: Its shape.
        dtype: A dtype of the symmetric heap: integers, bool, and floats of 16 to 64 bits.
        order: ``"C"``: the last axis varies fastest.
        release: No effect: memory is freed by :func:`free_array` or ``finalize``.
        except_on_del: No effect.

    Raises:
        NvshmemInvalid: A bad shape, dtype or order.
        NvshmemError: NVSHMEM is not initialised, there is no room, or PEs gave different sizes.
    """
    op = "nvshmem.core.array"
    here = active(op)
    kind = _dtype(op, dtype)
    extents = _shape(op, shape, kind)
    if order != "C":
        raise NvshmemInvalid(f"{op}: order must be 'C', but got {shown(order)}")
    return _allocate(here, op, extents, kind)


def bytearray(
    shape: int | Sequence[int],
    dtype: Any = "float32",
    release: bool = False,
    except_on_del: bool = True,
) -> Array:
    """Allocate the bytes of an array of this shape and dtype, as a flat array of uint8; else as :func:`array`."""
    op = "nvshmem.core.bytearray"
    here = active(op)
    kind = _dtype(op, dtype)
    nbytes = math.prod(_shape(op, shape, kind)) * kind.itemsize
    return _allocate(here, op, (nbytes,), np.dtype(np.uint8))


def _allocate(here: Context, op: str, shape: tuple[int, ...], kind: np.dtype[Any]) -> Array:
    made = here.allocate(op, max(math.prod(shape) * kind.itemsize, 1), "array")
    return array_at(here.world, made.offset, shape, kind, made.label).local


def get_peer_array(array: Array, peer_pe: int) -> Array:
    """Return an array over the same place of another PE's memory.

    Args:
        array: A contiguous array of :func:`array`, or a part of one.
        peer_pe: The other PE.

    Raises:
        NvshmemInvalid: It is no such array, or was freed; or there is no such PE, or it is on another host.
        NvshmemError: NVSHMEM is not initialised.
    """
    op = "nvshmem.core.get_peer_array"
    here = active(op)
    given = _given(here, op, array)
    peer = check_pe(op, "peer_pe", peer_pe, here.world)
    check_reach(f"{op}: peer_pe", peer, here.world)
    there = array_at(here.world, given.offset, array.shape, array.dtype, given.label)
    return there.on(peer)


def get_multicast_array(team: Any, array: Any) -> NoReturn:
    """Refuse: there are no multicast addresses here.

    Raises:
        NotEmulatedError: Always.
    """
    refuse_multicast("nvshmem.core.get_multicast_array")


def free_array(array: Array) -> None:
    """Free an array; every PE calls it, and it waits for all. A peer's array is let be: it owns nothing.

    Raises:
        NvshmemInvalid: It is none of :func:`array`, a part of one, or was freed.
        NvshmemError: NVSHMEM is not initialised.
    """
    op = "nvshmem.core.free_array"
    here = active(op)
    given = _given(here, op, array)
    if given.pe != here.world.my_pe:
        return
    allocation = here.find(given.offset)
    if allocation is None or allocation.offset != given.offset:
        raise NvshmemInvalid(
            f"{op}: array must be one that nvshmem.core.array() returned, but got {shown(array)}"
        )
    here.free(allocation)


def array_get_buffer(array: Array) -> tuple[Buffer, int, str]:
    """Return an array's memory as a buffer, its number of bytes, and the name of its dtype.

    Raises:
        NvshmemInvalid: It is no contiguous array of :func:`array`, or was freed.
        NvshmemError: NVSHMEM is not initialised.
    """
    op = "nvshmem.core.array_get_buffer"
    here = active(op)
    given = _given(here, op, array)
    resource = NvshmemResource(here.device.index)
    made = Buffer(given.address, given.nbytes, resource, allocation=here.find(given.offset))
    return made, given.nbytes, str(array.dtype)


def _given(here: Context, op: str, array: Any) -> Operand:
    if not isinstance(array, np.ndarray):
        raise NvshmemInvalid(f"{op}: array must be a NumPy array, but got {shown(array)}")
    return operand(here, op, "array", array)


def _dtype(op: str, dtype: Any) -> np.dtype[Any]:
    kind: np.dtype[Any] = check.dtype(f"{op}: dtype", dtype)
    if kind not in KINDS:
        raise NvshmemInvalid(
            f"{op}: dtype must be one of {', '.join(map(str, KINDS))}, but got {kind}"
        )
    return kind


def _shape(op: str, shape: Any, kind: np.dtype[Any]) -> tuple[int, ...]:
    try:
        return extents_of(shape, kind.itemsize)
    except ArgumentError as error:
        raise NvshmemInvalid(f"{op}: {error}") from None
