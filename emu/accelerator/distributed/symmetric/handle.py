"""``SymmetricMemory``: the class that torch calls ``_SymmetricMemory``, with its functions for all allocations."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
import torch

from emu.accelerator.annotations import Storage, Tensor
from emu.accelerator.device_tags import assign_device, device_count
from emu.accelerator.distributed import works
from emu.accelerator.distributed.symmetric import stream_writes
from emu.accelerator.distributed.symmetric.checks import (
    a_device,
    a_tensor,
    check,
    extents,
    text_or_none,
    torch_dtype,
)
from emu.accelerator.distributed.symmetric.errors import SymmetricArgumentError
from emu.accelerator.distributed.symmetric.memory import (
    BLOCK,
    Block,
    address_of,
    allocate,
    block_of,
    bytes_of,
    check_device,
    first_byte,
    free_with,
    group_of,
    storage_at,
    tensor_in,
)
from emu.accelerator.distributed.symmetric.pools import SymmetricAllocator
from emu.accelerator.distributed.symmetric.signals import Signals
from emu.accelerator.state import state

if TYPE_CHECKING:  # it loads Numba
    from emu.comm.world.group import Group

BACKENDS = ("CUDA", "NVSHMEM", "NCCL")
_OVERLAP = "TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES"
_WORD = 4  # bytes of a signal


@dataclass(eq=False)  # a rendezvous is itself alone, and has weak references
class Meeting:
    """What the members of a group know of each other's part of an allocation after a rendezvous."""

    block: weakref.ref[Block]  # which has its meetings
    group: Group
    offsets: tuple[int, ...]
    """Where the allocation lies in each member's heap."""
    signals: Signals
    buffer_table: Tensor
    pad_table: Tensor

    @property
    def buffer_ptrs(self) -> list[int]:
        """Addresses of the members' allocations."""
        found: list[int] = self.buffer_table.tolist()
        return found


class _Settings(type):
    """Class of :class:`SymmetricMemory`, whose attribute ``signal_pad_size`` is checked when it is set."""

    pad_bytes: ClassVar[int] = 9216

    @property
    def signal_pad_size(cls) -> int:
        """Bytes of the signal pads of allocations made from now on."""
        return _Settings.pad_bytes

    @signal_pad_size.setter
    def signal_pad_size(cls, size: int) -> None:
        if isinstance(size, bool) or not isinstance(size, int) or size <= 0 or size % _WORD:
            raise SymmetricArgumentError(
                f"signal_pad_size must be a positive multiple of {_WORD}, but got {size!r}"
            )
        _Settings.pad_bytes = size


def adopt_pad_size(size: object) -> None:
    """Take torch's own size of signal pads as the one to begin with, where it has one."""
    if isinstance(size, int) and size > 0:
        _Settings.pad_bytes = size


class _Backend:
    """The backend that the program has chosen; all mean the same memory."""

    name = "CUDA"
    is_fixed = False


class SymmetricMemory(metaclass=_Settings):
    """A tensor's allocation as a group knows it: what ``rendezvous`` returns.

    Args:
        block: The allocation on this PE.
        meeting: What is known of the others.
        offset: Bytes from the allocation's beginning to the tensor's.

    Attributes:
        rank: This PE's number in the group.
        world_size: Number of members.
        offset: Bytes from the allocation's beginning to the tensor's.
        buffer_size: Bytes of the allocation.
        signal_pad_size: Bytes of each member's signal pad.
        device: The tensor's device.
        multicast_ptr: 0: there is no multicast.
    """

    multicast_ptr = 0

    def __init__(self, block: Block, meeting: Meeting, offset: int) -> None:
        self.block = block
        self.meeting = meeting
        self.rank = meeting.group.my_pe
        self.world_size = meeting.group.n_pes
        self.offset = offset
        self.buffer_size = block.nbytes
        self.device = block.device
        vars(self)["signal_pad_size"] = block.pad_bytes  # the class has a property of this name

    def boxed(self) -> SymmetricMemory:
        """Return the handle as operators take it: itself."""
        return self

    # --- addresses -------------------------------------------------------------------------

    @property
    def buffer_ptrs(self) -> list[int]:
        """Addresses of the members' allocations, in this process."""
        return self.meeting.buffer_ptrs

    @property
    def buffer_ptrs_dev(self) -> int:
        """Address of an array of them in the device's memory."""
        with torch._C.DisableTorchFunction():
            return self.meeting.buffer_table.data_ptr()

    @property
    def signal_pad_ptrs(self) -> list[int]:
        """Addresses of the members' signal pads."""
        found: list[int] = self.meeting.pad_table.tolist()
        return found

    @property
    def signal_pad_ptrs_dev(self) -> int:
        """Address of an array of them in the device's memory."""
        with torch._C.DisableTorchFunction():
            return self.meeting.pad_table.data_ptr()

    # --- memory ----------------------------------------------------------------------------

    def get_buffer(
        self, rank: int, sizes: Sequence[int], dtype: torch.dtype, storage_offset: int = 0
    ) -> Tensor:
        """Return a tensor over a member's allocation, on this PE's device.

        Args:
            rank: The member.
            sizes: Its shape.
            dtype: Its dtype.
            storage_offset: Elements from the allocation's beginning.

        Raises:
            SymmetricArgumentError: There is no such member, or the allocation is smaller.
        """
        size = torch_dtype("dtype", dtype).itemsize
        start = check.integer("storage_offset", storage_offset) * size
        return self._tensor("rank", rank, sizes, dtype, start)

    def get_remote_tensor(self, peer: int, sizes: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Return the tensor of a member that lies where this handle's lies here.

        Raises:
            SymmetricArgumentError: There is no such member, or the allocation is smaller.
        """
        return self._tensor("peer", peer, sizes, torch_dtype("dtype", dtype), self.offset)

    def _tensor(
        self, name: str, rank: int, sizes: Sequence[int], dtype: torch.dtype, start: int
    ) -> Tensor:
        meeting = self.meeting
        rank, shape = self._check_rank(name, rank), extents("sizes", sizes)
        wanted = start + bytes_of(shape, dtype)
        if start < 0 or wanted > self.buffer_size:
            raise SymmetricArgumentError(
                f"SymmetricMemory::{'get_buffer' if name == 'rank' else 'get_remote_tensor'}: the requested size ({wanted} "
                f"bytes, from byte {start}) exceeds the allocated size ({self.buffer_size} bytes)"
            )
        group, block = meeting.group, self.block
        offset = meeting.offsets[rank] + start
        storage = storage_at(
            group.segment, group.members[rank], offset, wanted - start, self.device, block
        )
        if rank == self.rank:
            setattr(storage, BLOCK, block)
        return tensor_in(storage, shape, None, dtype)

    def get_signal_pad(
        self,
        rank: int,
        sizes: Sequence[int] = (),
        dtype: torch.dtype | None = None,
        storage_offset: int = 0,
    ) -> Tensor:
        """Return a tensor over a member's signal pad.

        Args:
            rank: The member.
            sizes: Its shape. Default: the rest of the pad.
            dtype: Its dtype. Default: uint32.
            storage_offset: Elements from the pad's beginning.

        Raises:
            SymmetricArgumentError: There is no such member, or the pad is smaller.
        """
        rank = self._check_rank("rank", rank)
        kind = torch.uint32 if dtype is None else torch_dtype("dtype", dtype)
        start = check.integer("storage_offset", storage_offset) * kind.itemsize
        size = self.block.pad_bytes
        shape = extents("sizes", sizes) or (max(size - start, 0) // kind.itemsize,)
        wanted = start + bytes_of(shape, kind)
        if start < 0 or wanted > size:
            raise SymmetricArgumentError(
                f"SymmetricMemory::get_signal_pad: the requested size ({wanted} bytes, from byte {start}) exceeds "
                f"the allocated size ({size} bytes)"
            )
        group, offset = self.meeting.group, self.meeting.signals.pad.offset + start
        storage = storage_at(
            group.segment, group.members[rank], offset, wanted - start, self.device, self.meeting
        )
        return tensor_in(storage, shape, None, kind)

    def _check_rank(self, name: str, rank: object) -> int:
        return check.index(name, rank, self.world_size)

    # --- signals ---------------------------------------------------------------------------

    def barrier(self, channel: int = 0, timeout_ms: int = 0) -> None:
        """Wait for every member, on a channel of the signal pads.

        Args:
            channel: Barriers on other channels are other barriers.
            timeout_ms: Milliseconds to wait; 0: without end.

        Raises:
            SymmetricArgumentError: The pads have no such channel.
            SignalTimeoutError: A member did not come in time.
            DeadlockError: It cannot come any more.
        """
        _submit(partial(self.meeting.signals.barrier, channel, timeout_ms))

    def put_signal(self, dst_rank: int, channel: int = 0, timeout_ms: int = 0) -> None:
        """Signal a member; wait until it has taken the last signal of this channel.

        Raises:
            SymmetricArgumentError: There is no such member or channel.
            SignalTimeoutError, DeadlockError: As :meth:`barrier`.
        """
        _submit(partial(self.meeting.signals.put, dst_rank, channel, timeout_ms))

    def wait_signal(self, src_rank: int, channel: int = 0, timeout_ms: int = 0) -> None:
        """Wait for a member's signal.

        Raises:
            SymmetricArgumentError: There is no such member or channel.
            SignalTimeoutError, DeadlockError: As :meth:`barrier`.
        """
        _submit(partial(self.meeting.signals.wait, src_rank, channel, timeout_ms))

    # --- all allocations -------------------------------------------------------------------

    @staticmethod
    def empty_strided_p2p(
        size: Sequence[int],
        stride: Sequence[int],
        dtype: torch.dtype,
        device: torch.device,
        group_name: str | None = None,
        alloc_id: int | None = None,
    ) -> Tensor:
        """Return a tensor in new symmetric memory.

        Args:
            size: Its shape.
            stride: Its strides.
            dtype: Its dtype.
            device: A CUDA device.
            group_name: Group of the ranks that make the call, in which ``rendezvous`` meets. Default: all ranks.
            alloc_id: Number under which the memory stays there when the tensor has gone, for the next call with it.

        Raises:
            RuntimeError: Not a CUDA device, or memory of this number is in use.
            SymmetricMemoryError: The heap has no room.
        """
        place = check_device(device)
        shape, steps = extents("size", size), extents("stride", stride)
        if len(shape) != len(steps):
            raise SymmetricArgumentError(
                f"size and stride must have the same length, but got {shape} and {steps}"
            )
        group_name = text_or_none("group_name", group_name)
        alloc_id = None if alloc_id is None else check.integer("alloc_id", alloc_id)
        nbytes = _bytes_of(shape, steps, torch_dtype("dtype", dtype))
        _Backend.is_fixed = True
        if alloc_id is None:
            block = allocate(nbytes, place, _Settings.pad_bytes, group_name)
        else:
            block = _Persistent.find((alloc_id, nbytes, place, group_name))
        group = block.array.group
        mine, offset = group.members[group.my_pe], block.array.offset
        storage = storage_at(group.segment, mine, offset, nbytes, place, block)
        setattr(storage, BLOCK, block)
        if alloc_id is not None:
            _Persistent.in_use[alloc_id, nbytes, place, group_name] = storage
        return tensor_in(storage, shape, steps, dtype)

    @staticmethod
    def rendezvous(tensor: Tensor, group_name: str | None = None) -> SymmetricMemory | None:
        """Meet the other members of a group, each with its tensor of the same size.

        Args:
            tensor: A tensor in symmetric memory.
            group_name: The group. Default: that of the allocation.

        Returns:
            The handle; None: the tensor is not in symmetric memory.

        Raises:
            SymmetricArgumentError: No group was named, or the members' allocations differ in size or are on one
                device.
        """
        block = block_of(a_tensor("tensor", tensor))
        if block is None:
            return None
        name = block.group_name if group_name is None else check.text("group_name", group_name)
        if name is None:
            raise SymmetricArgumentError(
                "group_name must be given to empty_strided_p2p or to rendezvous, but got None in both"
            )
        group = group_of(name)
        meeting = block.meetings.get(group)
        if meeting is None:
            meeting = block.meetings[group] = _meet(block, group)
        return SymmetricMemory(block, meeting, first_byte(tensor) - block.address)

    @staticmethod
    def is_symm_mem_tensor(tensor: Tensor) -> bool:
        """Return whether a tensor lies in symmetric memory."""
        return block_of(tensor) is not None

    @staticmethod
    def set_group_info(group_name: str, rank: int, world_size: int, store: object) -> None:
        """Do nothing: the World knows its groups."""

    @staticmethod
    def has_multicast_support(device_type: object, device_idx: int) -> bool:
        """Return False: no address stands for the memory of several devices."""
        return False

    @staticmethod
    def set_backend(name: str) -> None:
        """Choose a backend, of which all have the same memory here.

        Raises:
            RuntimeError: There is no such backend, or memory of another one was allocated.
        """
        if check.text("name", name) not in BACKENDS:
            raise RuntimeError(f"SymmetricMemory does not find allocation backend {name}")
        if _Backend.is_fixed and name != _Backend.name:
            raise RuntimeError(
                f"the backend must be set before the first allocation, but got {name} after one of "
                f"{_Backend.name}"
            )
        _Backend.name = name

    @staticmethod
    def get_backend(device: torch.device) -> str | None:
        """Return the backend for a device; None: there is no symmetric memory on it."""
        return _Backend.name if a_device("device", device).type == "cuda" else None

    @staticmethod
    def get_mempool_allocator(device: torch.device) -> SymmetricAllocator:
        """Return the allocator of memory pools whose tensors are symmetric."""
        check_device(device)
        return SymmetricAllocator(SymmetricMemory.empty_strided_p2p)

    memset32 = staticmethod(stream_writes.memset32)
    stream_write_value32 = staticmethod(stream_writes.stream_write_value32)


def _bytes_of(size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype) -> int:
    """Return the bytes from the first element of a tensor to behind its last, at least those of its elements.

    Raises:
        SymmetricArgumentError: More than an address can tell apart.
    """
    extent = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    nbytes = max(bytes_of(size, dtype), extent * dtype.itemsize if all(size) else 0)
    if nbytes >= 1 << 62:
        raise SymmetricArgumentError(
            f"size and stride must be of less than {1 << 62} bytes, but got {size} and {stride} of {dtype}"
        )
    return nbytes


class _Persistent:
    """Allocations that stay when their tensors have gone, by ``alloc_id``, size, device and group.

    Compiled functions draw the number at random, and two of them may draw the same: then the size tells them apart.
    """

    blocks: ClassVar[dict[tuple[object, ...], Block]] = {}
    in_use: ClassVar[WeakValueDictionary[tuple[object, ...], Storage]] = WeakValueDictionary()

    @classmethod
    def find(cls, key: tuple[int, int, torch.device, str | None]) -> Block:
        """Return the allocation of a number; make it first if there is none.

        Raises:
            SymmetricArgumentError: A tensor uses it.
        """
        alloc_id, nbytes, device, group_name = key
        if key in cls.in_use:
            raise SymmetricArgumentError(
                f"alloc_id must not be that of memory in use, but got {alloc_id}: delete its tensor first"
            )
        block = cls.blocks.get(key)
        if block is None:
            block = cls.blocks[key] = allocate(nbytes, device, _Settings.pad_bytes, group_name)
        return block


def _submit(run: Any) -> None:
    """Run a piece of work of the device; while a CUDA graph is captured, let the graph run it."""
    capture: Any = state.capture
    if capture is not None and capture.is_on_stack():
        capture.record(run)
    else:
        run()


def _meet(block: Block, group: Group) -> Meeting:
    """Exchange where the members' allocations lie, and make their signal pads."""
    if block.array.group.segment is not group.segment:
        raise SymmetricArgumentError(
            "tensor must be in symmetric memory of the World of the group, but got one of before its "
            "init_process_group, which made this process a PE: allocate it behind that"
        )
    works.flush_collectives()
    index = block.device.index
    row = np.array([block.array.offset, block.nbytes, block.pad_bytes, index], np.int64)
    table = group.all_gather(row).reshape(group.n_pes, row.size)
    _check_alike(table)
    number = _meetings[group] = _meetings.get(group, 0) + 1
    pad = group.alloc(
        block.pad_bytes // _WORD,
        np.int32,
        name="signal pad of symmetric memory",
        key=f"torch signal pad {number}",
        poison=False,
    )
    addresses = partial(address_of, group.segment)
    pairs = list(zip(group.members, table[:, 0].tolist(), strict=True))
    meeting = Meeting(
        weakref.ref(block),
        group,
        tuple(offset for _, offset in pairs),
        Signals(group, pad),
        _table([addresses(pe, offset) for pe, offset in pairs], block.device),
        _table([addresses(pe, pad.offset) for pe in group.members], block.device),
    )
    free_with(meeting, pad)
    return meeting


_meetings: WeakKeyDictionary[Group, int] = WeakKeyDictionary()
"""How many times each group has met."""


def _check_alike(table: np.ndarray[Any, Any]) -> None:
    """Check that the members' rows (offset, bytes, bytes of the pad, device) fit together.

    Raises:
        SymmetricArgumentError: They do not; on each member.
    """
    for column, what in ((1, "sizes"), (2, "sizes of signal pads")):
        found = table[:, column].tolist()
        if len(set(found)) > 1:
            raise SymmetricArgumentError(
                f"rendezvous must be called with allocations of one size on all ranks, but got {what} in bytes, by "
                f"rank: {found}"
            )
    devices = table[:, 3].tolist()
    may_overlap = os.environ.get(_OVERLAP) == "1" or device_count() < len(devices)
    if len(set(devices)) < len(devices) and not may_overlap:
        raise SymmetricArgumentError(
            "rendezvous must be called with allocations on a device of its own for each rank, but got overlapping "
            f"devices, by rank: {devices} (torch.cuda.set_device(rank) first, or set {_OVERLAP}=1)"
        )


def _table(addresses: list[int], device: torch.device) -> Tensor:
    with torch._C.DisableTorchFunction():
        made = torch.tensor(addresses, dtype=torch.int64, device="cpu")
    return assign_device(made, device)
