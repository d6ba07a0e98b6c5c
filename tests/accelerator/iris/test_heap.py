"""iris's allocator over the symmetric heap, with a stand-in for the class of iris that it takes the place of."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import emu
import emu.accelerator
from emu import triton
from emu.comm.errors import ArgumentError
from emu.triton import language as tl

torch = pytest.importorskip("torch")


class Base:
    """What iris's base class of allocators keeps."""

    def __init__(self, heap_size: int, device_id: int, cur_rank: int, num_ranks: int) -> None:
        self.heap_size, self.device_id = heap_size, device_id
        self.cur_rank, self.num_ranks = cur_rank, num_ranks
        self.heap_offset = 0


class Private(Base):
    """A bump allocator over private memory, as iris's is."""

    def __init__(self, heap_size: int, device_id: int, cur_rank: int, num_ranks: int) -> None:
        super().__init__(heap_size, device_id, cur_rank, num_ranks)
        self.memory_pool = torch.empty(heap_size, dtype=torch.int8)

    def allocate(self, num_elements: int, dtype: Any, alignment: int = 1024) -> Any:
        start, size = self.heap_offset, num_elements * dtype.itemsize
        if start + size > self.heap_size:
            raise MemoryError("full")
        self.heap_offset += -(-size // alignment) * alignment
        return self.memory_pool[start : start + size].view(dtype)

    def owns_tensor(self, tensor: Any) -> bool:
        return not tensor.numel()


def allocator(heap_size: int, rank: int | None = None) -> Any:
    emu.accelerator.install()
    from emu.accelerator.iris.heap import make_allocator

    world = emu.world()
    mine = world.my_pe if rank is None else rank
    made = make_allocator(Private)(heap_size, mine, mine, world.n_pes)
    made.establish_peer_access({}, {})
    return made


@triton.jit
def put(x_ptr, bases_ptr, mine, theirs, value):  # type: ignore[no-untyped-def]
    offset = tl.cast(x_ptr, tl.uint64) - tl.cast(tl.load(bases_ptr + mine), tl.uint64)
    there = tl.cast(tl.load(bases_ptr + theirs), tl.pointer_type(tl.int8)) + offset
    tl.store(tl.cast(there, tl.pointer_type(tl.float32)) + tl.arange(0, 8), value)


def _put_to_each_other() -> tuple[list[float], str, bool]:
    heap = allocator(1 << 20)
    heap.allocate(5, torch.int32)
    x = heap.allocate(8, torch.float32)
    x.zero_()
    bases = torch.from_numpy(heap.heap_bases_array.astype(np.int64)).cuda(heap.cur_rank)
    emu.world().barrier()
    put[(1,)](x, bases, heap.cur_rank, 1 - heap.cur_rank, heap.cur_rank + 5.0)
    emu.world().barrier()
    outside = torch.zeros(8, device="cuda")
    return x.tolist(), str(x.device), heap.owns_tensor(x) and not heap.owns_tensor(outside)


def test_a_base_of_another_rank_is_that_pes_memory() -> None:
    found = emu.launch(_put_to_each_other, 2, timeout=100)
    assert found == [([6.0] * 8, "cuda:0", True), ([5.0] * 8, "cuda:1", True)]


def _make_many(count: int, nbytes: int) -> int:
    """Make heaps that would not fit at once, each kept alive by a tensor until the next is there."""
    kept = None
    for _ in range(count):
        heap = allocator(nbytes)
        kept = heap.allocate(16, torch.float32)
        del heap
        gc.collect()
        kept.fill_(1)
    assert kept is not None
    return int(kept.sum())


def test_heaps_that_nothing_uses_are_given_back() -> None:
    assert emu.launch(_make_many, 2, args=(12, 1 << 22), heap_size=1 << 24, timeout=100) == [16, 16]


def _ask_for_more_than_there_is() -> tuple[int, str]:
    heap = allocator(1 << 40)
    first = heap.allocate(1000, torch.float32)
    first.fill_(2)
    with pytest.raises(MemoryError) as caught:
        heap.allocate(1 << 30, torch.int8)
    return int(first.sum()), str(caught.value)


def test_a_heap_may_be_larger_than_the_memory_until_a_tensor_does_not_fit() -> None:
    for total, text in emu.launch(_ask_for_more_than_there_is, 2, heap_size=1 << 24, timeout=100):
        assert total == 2000
        assert f"of the {1 << 40} bytes that were asked for" in text
        assert f"{1 << 30} more are needed" in text


def _fill(nbytes: int) -> str:
    heap = allocator(nbytes)
    with pytest.raises(MemoryError) as caught:
        heap.allocate(nbytes + 1, torch.int8)
    return str(caught.value)


def test_a_full_heap_is_an_error_in_iriss_words() -> None:
    assert emu.launch(_fill, 2, args=(4096,), timeout=100) == ["full"] * 2


def _give(sizes: tuple[int, int], rank: int | None) -> None:
    allocator(sizes[emu.world().my_pe], rank)


@pytest.mark.parametrize(
    ("sizes", "rank", "text"),
    [
        ((4096, 8192), None, r"heap_size must be the same on every rank, but got \[4096, 8192\]"),
        ((4096, 4096), 0, r"must be those of the launch, 1 and 2, but got 0 and 2"),
    ],
)
def test_ranks_must_agree(sizes: tuple[int, int], rank: int | None, text: str) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(_give, 2, args=(sizes, rank), timeout=100)
    assert caught.group_contains(ArgumentError, match=text)
