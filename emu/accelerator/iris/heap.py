"""iris's allocator over the symmetric heap: one symmetric array for each heap, of which every rank has its part.

An array costs nothing where it was never touched, so a heap may be larger than what its tensors take. Where the
World's heaps or shared memory have no room for all of it, the array is as large as they allow, and the tensor that
does not fit any more is the error.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from emu.accelerator.device_tags import assign_device
from emu.accelerator.hip.memory import BLOCKS, Block
from emu.comm.errors import ArgumentError
from emu.comm.world.current import check_one_host, current, world

if TYPE_CHECKING:
    from emu.comm.world.array import SymmetricArray

_ended: deque[SymmetricArray] = deque()
_lock = threading.Lock()


class Pool:
    """The part of a heap that this rank's tensors lie in, as a source of NumPy arrays; kept alive by these.

    Args:
        array: The symmetric array.
    """

    def __init__(self, array: SymmetricArray) -> None:
        self.array = array
        self.__array_interface__ = array.local.__array_interface__
        self._end = weakref.finalize(self, _end, array)
        self._end.atexit = False  # the launcher gives all memory back


def _end(array: SymmetricArray) -> None:
    """Note that nothing uses an array any more. It may be the garbage collector that calls: nothing is locked here."""
    _ended.append(array)


def _free_ended() -> None:
    """Give back what is not used any more, and forget its addresses."""
    with _lock:
        while _ended:
            array = _ended.popleft()
            for start in _addresses(array):
                BLOCKS.take(start)
            array.free()


def _addresses(array: SymmetricArray) -> list[int]:
    """Return where each PE's part is in this process."""
    segment = array.group.segment
    first = segment.address + segment.layout.heaps + array.offset
    return [first + pe * segment.layout.stride for pe in array.group.members]


def make_pool(heap_size: int) -> Pool:
    """Return memory for a heap; every PE calls it, with the same size.

    Args:
        heap_size: Bytes that are wanted. The array has fewer where there is no room for them.

    Raises:
        ArgumentError: PEs gave different sizes.
    """
    check_one_host("Iris")
    here = world()
    _free_ended()
    sizes = here.all_gather(np.array([heap_size]))  # what it needs of the heap is there from now on
    if (sizes != heap_size).any():
        raise ArgumentError(
            f"heap_size must be the same on every rank, but got {sizes.ravel().tolist()}"
        )
    if here.heap.room() < heap_size:
        gc.collect()
        _free_ended()
    here.barrier()
    rooms = here.all_gather(np.array([here.heap.room()]))
    size = min(heap_size, int(rooms.min()))
    array = here.alloc((size,), np.int8, name="iris heap")
    for start in _addresses(array):
        BLOCKS.add(start, Block(size))
    return Pool(array)


def make_allocator(theirs: Any) -> Any:
    """Return iris's class ``TorchAllocator``, with its pool in the symmetric heap.

    Args:
        theirs: The class.
    """

    class TorchAllocator(theirs):  # type: ignore[misc] # its base is Any
        __doc__ = theirs.__doc__

        def __init__(self, heap_size: int, device_id: int, cur_rank: int, num_ranks: int) -> None:
            if num_ranks == 1 and current() is None:  # nothing is shared
                super().__init__(heap_size, device_id, cur_rank, num_ranks)
                self._emu_pool: Pool | None = None
                return
            check_one_host("Iris")
            here = world()
            if (cur_rank, num_ranks) != (here.my_pe, here.n_pes):
                raise ArgumentError(
                    f"cur_rank and num_ranks must be those of the launch, {here.my_pe} and {here.n_pes}, but got "
                    f"{cur_rank} and {num_ranks}"
                )
            super(theirs, self).__init__(heap_size, device_id, cur_rank, num_ranks)
            self.device = f"cuda:{device_id}"
            self.rank_bools = None
            self._peer_ext_mem_handles: dict[int, object] = {}
            self._emu_pool = make_pool(heap_size)
            self.memory_pool = torch.from_numpy(np.asarray(self._emu_pool))
            assign_device(self.memory_pool, torch.device(self.device))

        def allocate(
            self, num_elements: int, dtype: torch.dtype, alignment: int = 1024
        ) -> torch.Tensor:
            if self._emu_pool is not None:
                self._check_room(self._emu_pool.array.nbytes, num_elements * dtype.itemsize)
            tensor: torch.Tensor = super().allocate(num_elements, dtype, alignment)
            return tensor

        def _check_room(self, have: int, nbytes: int) -> None:
            if have < self.heap_offset + nbytes <= self.heap_size:
                raise MemoryError(
                    f"a heap of iris has {have} of the {self.heap_size} bytes that were asked for, of which "
                    f"{self.heap_offset} are taken, but {nbytes} more are needed: the symmetric heap and shared memory "
                    "had no room for more (enlarge /dev/shm, or use fewer PEs or smaller tensors)"
                )

        def establish_peer_access(self, all_bases: Any, connections: Any = None) -> None:
            if self._emu_pool is None:
                super().establish_peer_access(all_bases, connections)
                return
            self.heap_bases_array = np.array(_addresses(self._emu_pool.array), np.uint64)

        def owns_tensor(self, tensor: torch.Tensor) -> bool:
            if self._emu_pool is None or not tensor.numel():
                return bool(super().owns_tensor(tensor))
            start = self.memory_pool.data_ptr()
            return start <= tensor.data_ptr() < start + self._emu_pool.array.nbytes

    TorchAllocator.__module__ = theirs.__module__
    TorchAllocator.__qualname__ = theirs.__qualname__
    return TorchAllocator
