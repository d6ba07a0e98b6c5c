"""``nvshmem.core.interop.torch``: torch tensors in symmetric memory."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NoReturn

import torch

from emu.accelerator.annotations import Storage, Tensor
from emu.accelerator.distributed.symmetric.memory import bytes_of, storage_at, tensor_in
from emu.accelerator.nvshmem.buffers import Buffer, NvshmemResource
from emu.accelerator.nvshmem.context import Allocation, Context, active, check_reach
from emu.accelerator.nvshmem.errors import NvshmemInvalid
from emu.accelerator.nvshmem.operands import (
    ALLOCATION,
    allocation_of,
    check_alive,
    check_pe,
    operand,
)
from emu.accelerator.nvshmem.refusals import refuse_multicast
from emu.comm.errors import ArgumentError
from emu.kernels.core.messages import shown

__all__ = [
    "bytetensor",
    "free_tensor",
    "get_multicast_tensor",
    "get_peer_tensor",
    "tensor",
    "tensor_get_buffer",
]


def tensor(
    shape: int | Sequence[int],
    dtype: torch.dtype | None = None,
    release: bool = False,
    except_on_del: bool = True,
) -> Tensor:
    """Allocate a tensor in symmetric memory; every PE calls it with the same arguments, and it waits for all.

    Args:
        shape: Its shape.
        dtype: Its dtype. Default: float32.
        release: No effect: memory is freed by :func:`free_tensor` or ``finalize``.
        except_on_del: No effect.

    Returns:
        A contiguous tensor on the device of ``init``, zeroed (or poisoned, where the run was asked for it).

    Raises:
        NvshmemInvalid: A bad shape or dtype.
        NvshmemError: NVSHMEM is not initialised, there is no room, or PEs gave different sizes.
    """
    op = "nvshmem.core.tensor"
    here = active(op)
    extents, kind = _shape(op, shape), _dtype(op, dtype)
    nbytes = _bytes(op, extents, kind)
    made = here.allocate(op, max(nbytes, 1), "tensor")
    return tensor_in(_storage(here, made, here.world.my_pe, nbytes), extents, None, kind)


def empty(shape: int | Sequence[int], dtype: torch.dtype | None = None) -> Tensor:
    """Return :func:`tensor`, under the name by which the documentation's text calls it."""
    return tensor(shape, dtype)


def bytetensor(
    shape: int | Sequence[int],
    dtype: torch.dtype | None = None,
    release: bool = False,
    except_on_del: bool = True,
) -> Tensor:
    """Allocate the bytes of a tensor of this shape and dtype, as a flat tensor of uint8; else as :func:`tensor`."""
    op = "nvshmem.core.bytetensor"
    here = active(op)
    nbytes = _bytes(op, _shape(op, shape), _dtype(op, dtype))
    made = here.allocate(op, max(nbytes, 1), "bytes")
    storage = _storage(here, made, here.world.my_pe, nbytes)
    return tensor_in(storage, (nbytes,), None, torch.uint8)


def get_peer_tensor(tensor: Tensor, peer_pe: int) -> Tensor:
    """Return a tensor over the same place of another PE's memory, on this PE's device.

    Args:
        tensor: A tensor of :func:`tensor`, or a view of one.
        peer_pe: The other PE.

    Raises:
        NvshmemInvalid: It is no such tensor, or was freed; or there is no such PE, or it is on another host.
        NvshmemError: NVSHMEM is not initialised.
    """
    op = "nvshmem.core.get_peer_tensor"
    here = active(op)
    allocation = _allocation(op, tensor)
    peer = check_pe(op, "peer_pe", peer_pe, here.world)
    check_reach(f"{op}: peer_pe", peer, here.world)
    with torch._C.DisableTorchFunction():
        nbytes = tensor.untyped_storage().nbytes()
        place, shape, stride = tensor.storage_offset(), tuple(tensor.shape), tensor.stride()
        made = torch.empty(0, dtype=tensor.dtype, device="cpu")
        return made.set_(_storage(here, allocation, peer, nbytes), place, shape, stride)


def get_multicast_tensor(team: Any, tensor: Any) -> NoReturn:
    """Refuse: there are no multicast addresses here.

    Raises:
        NotEmulatedError: Always.
    """
    refuse_multicast("nvshmem.core.get_multicast_tensor")


def free_tensor(tensor: Tensor) -> None:
    """Free a tensor; every PE calls it, and it waits for all. A peer's tensor is let be: it owns nothing.

    Raises:
        NvshmemInvalid: It is none of :func:`tensor`, a view of one, or was freed.
        NvshmemError: NVSHMEM is not initialised.
    """
    op = "nvshmem.core.free_tensor"
    here = active(op)
    allocation = _allocation(op, tensor)
    given = operand(here, op, "tensor", tensor)
    if given.pe != here.world.my_pe:
        return
    if given.offset != allocation.offset:
        raise NvshmemInvalid(
            f"{op}: tensor must be one that nvshmem.core.tensor() returned, but got a view that begins "
            f"{given.offset - allocation.offset} bytes into {allocation.label}"
        )
    here.free(allocation)


def tensor_get_buffer(tensor: Tensor) -> tuple[Buffer, int, str]:
    """Return a tensor's memory as a buffer, its number of bytes, and the name of its dtype.

    Args:
        tensor: A contiguous tensor of :func:`tensor`, a view of one, or a peer's.

    Raises:
        NvshmemInvalid: It is no such tensor, or was freed.
        NvshmemError: NVSHMEM is not initialised.
    """
    op = "nvshmem.core.tensor_get_buffer"
    here = active(op)
    allocation = _allocation(op, tensor)
    given = operand(here, op, "tensor", tensor)
    made = Buffer(
        given.address,
        given.nbytes,
        NvshmemResource(here.device.index),
        allocation=allocation,
        tensor=tensor,
    )
    return made, given.nbytes, str(tensor.dtype).removeprefix("torch.")


def _allocation(op: str, tensor: Any) -> Allocation:
    """Return the allocation of a tensor.

    Raises:
        NvshmemInvalid: It has none, or one that was freed.
    """
    if not isinstance(tensor, torch.Tensor):
        raise NvshmemInvalid(f"{op}: tensor must be a tensor, but got {shown(tensor)}")
    found = allocation_of(tensor)
    if found is None:
        raise NvshmemInvalid(
            f"{op}: tensor must be one of nvshmem.core.tensor(), but got a tensor of shape {tuple(tensor.shape)} and "
            f"{tensor.dtype} that is not"
        )
    check_alive(f"{op}: tensor", found)
    return found


def _storage(here: Context, allocation: Allocation, pe: int, nbytes: int) -> Storage:
    """Return a PE's part of an allocation as a storage."""
    made = storage_at(
        here.world.segment, pe, allocation.offset, nbytes, here.device, allocation.array
    )
    setattr(made, ALLOCATION, allocation)
    return made


def _shape(op: str, shape: Any) -> tuple[int, ...]:
    """Return a shape as a tuple.

    Raises:
        NvshmemInvalid: It is none.
    """
    try:
        return (
            tuple(map(operator.index, shape))
            if hasattr(shape, "__iter__")
            else (operator.index(shape),)
        )
    except TypeError:
        raise NvshmemInvalid(f"{op}: shape must be integers, but got {shown(shape)}") from None


def _dtype(op: str, dtype: Any) -> torch.dtype:
    if dtype is None:
        return torch.float32
    if not isinstance(dtype, torch.dtype):
        raise NvshmemInvalid(f"{op}: dtype must be a dtype of torch, but got {shown(dtype)}")
    return dtype


def _bytes(op: str, shape: tuple[int, ...], dtype: torch.dtype) -> int:
    try:
        return bytes_of(shape, dtype)
    except ArgumentError:
        raise NvshmemInvalid(f"{op}: shape must not be negative, but got {shape}") from None
