"""``nvshmem.core.memory``: buffers in symmetric memory."""

from __future__ import annotations

from typing import Any, NoReturn

from emu.accelerator.nvshmem.buffers import Buffer, NvshmemResource
from emu.accelerator.nvshmem.context import active, check_reach
from emu.accelerator.nvshmem.errors import NvshmemInvalid, check
from emu.accelerator.nvshmem.operands import address_of, check_pe, operand
from emu.accelerator.nvshmem.refusals import refuse_multicast
from emu.kernels.core.messages import shown

__all__ = ["buffer", "free", "get_multicast_buffer", "get_peer_buffer"]


def buffer(size: int, release: bool = False, except_on_del: bool = True) -> Buffer:
    """Allocate symmetric memory; every PE calls it with the same size, and it waits for all.

    Args:
        size: Bytes, at least 1.
        release: No effect: memory is freed by :func:`free` or ``finalize``.
        except_on_del: No effect.

    Raises:
        NvshmemInvalid: A bad size.
        NvshmemError: NVSHMEM is not initialised, there is no room, or PEs gave different sizes.
    """
    op = "nvshmem.core.buffer"
    here = active(op)
    made = here.allocate(op, check.integer(f"{op}: size", size, 1), "buffer")
    start = address_of(here, here.world.my_pe, made.offset)
    return Buffer(start, made.nbytes, NvshmemResource(here.device.index), allocation=made)


def free(buffer: Buffer) -> None:
    """Free a buffer; every PE calls it, and it waits for all. What stands for another PE's memory is let be.

    Raises:
        NvshmemInvalid: It is no whole buffer of :func:`buffer`, or was freed.
        NvshmemError: NVSHMEM is not initialised.
    """
    op = "nvshmem.core.free"
    here = active(op)
    given = operand(here, op, "buffer", buffer)
    allocation = getattr(buffer, "allocation", None) or here.find(given.offset)
    if given.pe >= 0 and given.pe != here.world.my_pe:
        return
    if given.pe < 0 or allocation is None or allocation.offset != given.offset:
        raise NvshmemInvalid(
            f"{op}: buffer must be one that nvshmem.core.buffer() returned, but got {shown(buffer)}"
        )
    here.free(allocation)


def get_peer_buffer(buffer: Buffer, pe: int) -> Buffer:
    """Return the same place of another PE's memory.

    Args:
        buffer: A buffer in this PE's memory.
        pe: The other PE.

    Raises:
        NvshmemInvalid: It is no buffer in symmetric memory, or there is no such PE, or it is on another host.
        NvshmemError: NVSHMEM is not initialised.
    """
    op = "nvshmem.core.get_peer_buffer"
    here = active(op)
    given = operand(here, op, "buffer", buffer)
    if given.pe < 0:
        raise NvshmemInvalid(f"{op}: buffer must be in symmetric memory, but got {shown(buffer)}")
    peer = check_pe(op, "pe", pe, here.world)
    check_reach(f"{op}: pe", peer, here.world)
    start, allocation = address_of(here, peer, given.offset), getattr(buffer, "allocation", None)
    return Buffer(start, given.nbytes, NvshmemResource(here.device.index), allocation=allocation)


def get_multicast_buffer(team: Any, buffer: Any) -> NoReturn:
    """Refuse: there are no multicast addresses here.

    Raises:
        NotEmulatedError: Always.
    """
    refuse_multicast("nvshmem.core.get_multicast_buffer")
