"""Symmetric memory as torch tensors: allocated in the World's heap, found again by a tensor's storage, and freed.

Torch asks of an allocation only that the ranks which meet in a rendezvous have made it; others need not have. So calls
match by their order among those of the same size: where all ranks make the same calls, as NVSHMEM demands, an
allocation lies at the same offset on each, and where they do not, the rendezvous finds out where it lies.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch.distributed import distributed_c10d

from emu.accelerator.annotations import Storage, Tensor
from emu.accelerator.device_tags import tag_storage
from emu.accelerator.distributed import spawned
from emu.accelerator.distributed.process_group import WorldProcessGroup
from emu.accelerator.distributed.symmetric.checks import a_device
from emu.accelerator.distributed.symmetric.errors import SymmetricArgumentError
from emu.comm.errors import CommError
from emu.comm.process.alone import world_of_one
from emu.comm.world.current import check_one_host, world

if TYPE_CHECKING:  # they load Numba, and a process that is no PE needs neither
    from emu.comm.world.array import SymmetricArray
    from emu.comm.world.group import Group
    from emu.comm.world.world import World

BLOCK = "_emu_symmetric"
"""Attribute of a storage that holds the :class:`Block` of this PE in which it lies."""
OWNER = "_emu_owner"
"""Attribute of a storage that holds what owns its memory."""


class Block:
    """One allocation, as long as a tensor or a handle uses it.

    Attributes:
        array: Its bytes in the World.
        nbytes: Bytes asked for.
        device: Device of its tensors.
        pad_bytes: Size of the signal pads that a rendezvous makes for it.
        group_name: Group that the allocation named, or None.
        meetings: What each group's rendezvous has found.
    """

    def __init__(
        self,
        array: SymmetricArray,
        nbytes: int,
        device: torch.device,
        pad_bytes: int,
        group_name: str | None,
    ) -> None:
        self.array = array
        self.nbytes = nbytes
        self.device = device
        self.pad_bytes = pad_bytes
        self.group_name = group_name
        self.meetings: dict[Group, Any] = {}
        free_with(self, array)

    @property
    def address(self) -> int:
        """Address of the first byte in this PE's heap."""
        group = self.array.group
        return address_of(group.segment, group.members[group.my_pe], self.array.offset)


_unused: deque[SymmetricArray] = deque()
"""Arrays to free: not by finalisers themselves, which may run while the heap's table is locked."""


def free_with(owner: object, array: SymmetricArray) -> None:
    """Free an array some time after ``owner`` has gone: at the next allocation."""
    weakref.finalize(owner, _unused.append, array).atexit = False


def free_unused() -> None:
    """Free the arrays whose owners have gone."""
    while _unused:
        array = _unused.popleft()
        if not array.freed:
            array.free()


def everyone() -> Group:
    """Return the group of all PEs.

    Raises:
        CommError: This process is no PE.
    """
    found = _world_or_none()
    if found is None:
        raise CommError(
            "symmetric memory of several ranks must be used in a PE, but this process is none: run the script with "
            "`emu run -n N script.py`"
        )
    return found


def _everyone_or_alone() -> Group:
    """Return the group of all PEs; in a process that is none, that of a World of its own."""
    return _world_or_none() or world_of_one()


def _world_or_none() -> World | None:
    try:
        return world()
    except CommError:
        return spawned.accept()


def group_of(group_name: str) -> Group:
    """Return the World's group behind a process group.

    Raises:
        SymmetricArgumentError: Its backend is none of ours.
        HostsError: It has members on several hosts.
    """
    module: Any = distributed_c10d
    found = module._resolve_process_group(group_name)
    if not isinstance(found, WorldProcessGroup):
        found = found._get_backend(torch.device("cuda"))
    if not isinstance(found, WorldProcessGroup):
        raise SymmetricArgumentError(
            f"group must have the backend nccl for symmetric memory, but group {group_name!r} has {found.name()!r}"
        )
    check_one_host("Symmetric memory of torch", found.emu_group)
    return found.emu_group


def _group_or_all(group_name: str) -> Group:
    """Return the group of an allocation; torch looks for it at the rendezvous only."""
    try:
        return group_of(group_name)
    except (RuntimeError, LookupError):
        return _everyone_or_alone()


_counts: WeakKeyDictionary[Group, dict[int, Any]] = WeakKeyDictionary()


def allocate(
    nbytes: int, device: torch.device, pad_bytes: int, group_name: str | None = None
) -> Block:
    """Allocate bytes on this PE, and so on the others that make the same call.

    Args:
        nbytes: Their number.
        device: Device of the tensors.
        pad_bytes: Size of the signal pads.
        group_name: Process group whose ranks make the call. Default: all.

    Raises:
        SymmetricMemoryError: The heap has no room.
    """
    free_unused()
    group = _everyone_or_alone() if group_name is None else _group_or_all(group_name)
    counts = _counts.setdefault(group, {})
    number = next(counts.setdefault(nbytes, itertools.count()))
    array = group.alloc(
        nbytes,
        np.uint8,
        name=f"symmetric memory of {nbytes} bytes",
        key=f"torch symmetric memory {nbytes}.{number}",
    )
    return Block(array, nbytes, device, pad_bytes, group_name)


def block_of(tensor: Tensor) -> Block | None:
    """Return the allocation that a tensor lies in; None: it is not in symmetric memory."""
    with torch._C.DisableTorchFunction():
        try:
            found: Block | None = getattr(tensor.untyped_storage(), BLOCK, None)
        except (NotImplementedError, RuntimeError):  # no storage
            return None
    return found


def address_of(segment: Any, world_pe: int, offset: int) -> int:
    """Return the address, in this process, of a byte of a PE's heap."""
    layout = segment.layout
    return int(segment.address + layout.heaps + world_pe * layout.stride + offset)


def storage_at(
    segment: Any, world_pe: int, offset: int, nbytes: int, device: torch.device, owner: object
) -> Storage:
    """Return bytes of a PE's heap as a storage.

    Args:
        segment: The World's memory.
        world_pe: The PE.
        offset: First byte in its heap.
        nbytes: Number of bytes.
        device: Device of the storage.
        owner: What the storage keeps alive: the owner of the memory.
    """
    start = segment.layout.heaps + world_pe * segment.layout.stride + offset
    array = np.ndarray((nbytes,), np.uint8, segment.bytes, start)
    with torch._C.DisableTorchFunction():
        storage = torch.from_numpy(array).untyped_storage()
    setattr(storage, OWNER, owner)
    tag_storage(storage, device)
    return storage


def heap_offset(tensor: Tensor, segment: Any) -> int:
    """Return where a tensor in some PE's heap begins there.

    Raises:
        SymmetricArgumentError: It lies in no heap.
    """
    address = first_byte(tensor)
    layout, base = segment.layout, address_of(segment, 0, 0)
    if not base <= address < base + layout.n_pes * layout.stride:
        raise SymmetricArgumentError(
            f"a tensor must be in symmetric memory, but got one of shape {tuple(tensor.shape)} that is not"
        )
    return int((address - base) % layout.stride)


def first_byte(tensor: Tensor) -> int:
    """Return the address at which a tensor begins; torch has none of tensors without elements."""
    with torch._C.DisableTorchFunction():
        start = tensor.untyped_storage().data_ptr()
        return int(start + tensor.storage_offset() * tensor.element_size())


def tensor_in(
    storage: Storage, shape: Sequence[int], stride: Sequence[int] | None, dtype: torch.dtype
) -> Tensor:
    """Return a tensor over a storage, contiguous unless strides are given."""
    with torch._C.DisableTorchFunction():
        made = torch.empty(0, dtype=dtype, device="cpu")
        steps = torch.empty(tuple(shape), device="meta").stride() if stride is None else stride
        return made.set_(storage, 0, tuple(shape), tuple(steps))


def bytes_of(shape: Sequence[int], dtype: torch.dtype) -> int:
    """Return the bytes of a contiguous tensor.

    Raises:
        SymmetricArgumentError: An extent is negative.
    """
    if any(extent < 0 for extent in shape):
        raise SymmetricArgumentError(f"sizes must not be negative, but got {tuple(shape)}")
    return math.prod(shape) * dtype.itemsize


def check_device(device: torch.device) -> torch.device:
    """Return a CUDA device with its index.

    Raises:
        RuntimeError: Symmetric memory is not there for its type; in torch's words.
    """
    found = a_device("device", device)
    if found.type != "cuda":
        raise RuntimeError(f"SymmetricMemory does not support device type {found.type}")
    return found
