"""Handles of symmetric memory: allocation, rendezvous, buffers, signal pads and signals, and what goes wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from distributed_tensors import begin, given, values
from emulated_devices import refused

import emu
from emu import CheckError, Checks, DeadlockError
from emu.comm.errors import SymmetricMemoryError

pytest.importorskip("torch.distributed")


def start() -> tuple[Any, Any, Any, int, int]:
    """Return torch, its modules of groups and of symmetric memory, the rank and the number of ranks."""
    torch, dist, _ = begin()
    import torch.distributed._symmetric_memory as symm_mem

    torch.cuda.set_device(dist.get_rank())
    return torch, dist, symm_mem, dist.get_rank(), dist.get_world_size()


def run_buffers() -> None:
    torch, dist, symm_mem, rank, n = start()
    mine = symm_mem.empty(3, 8, dtype=torch.float32, device="cuda")
    assert mine.device == torch.device("cuda", rank)
    assert not mine.any()
    handle = symm_mem.rendezvous(mine, dist.group.WORLD)
    assert (handle.rank, handle.world_size, handle.offset) == (rank, n, 0)
    assert (handle.buffer_size, handle.multicast_ptr) == (96, 0)
    assert handle.device == mine.device
    mine.copy_(torch.from_numpy(given(rank, (3, 8))))
    handle.barrier()
    for other in range(n):
        buffer = handle.get_buffer(other, (3, 8), torch.float32)
        assert buffer.is_cuda
        assert buffer.data_ptr() == handle.buffer_ptrs[other]
        np.testing.assert_array_equal(values(buffer), given(other, (3, 8)))
        row = handle.get_buffer(other, (8,), torch.float32, 16)
        np.testing.assert_array_equal(values(row), given(other, (3, 8))[2])
    handle.barrier(channel=1)
    if rank == 0:
        handle.get_buffer(n - 1, (2,), torch.float32).fill_(7)
    handle.barrier()
    assert mine.view(-1)[:2].eq(7).all() == (rank == n - 1)
    part = symm_mem.rendezvous(mine[1:], dist.group.WORLD)
    assert part.offset == 32
    theirs = part.get_remote_tensor((rank + 1) % n, (16,), torch.float32)
    np.testing.assert_array_equal(values(theirs), given((rank + 1) % n, (3, 8))[1:].ravel())
    assert symm_mem.rendezvous(mine, "0").buffer_ptrs == handle.buffer_ptrs
    assert symm_mem.is_symm_mem_tensor(mine[1])
    assert symm_mem.rendezvous(torch.ones(2, device="cuda"), "0") is None


def run_links() -> None:
    _torch, dist, _, _, n = start()
    from torch._C import _distributed_c10d as c10d
    from torch._C._autograd import DeviceType

    links = c10d._detect_dma_connectivity(DeviceType.CUDA, "nvlink")
    assert (links.device_type, links.connection_type) == (DeviceType.CUDA, "nvlink")
    assert links.matrix == [[int(one != other) for other in range(n)] for one in range(n)]
    detect = c10d._detect_dma_connectivity
    refused(lambda: detect(DeviceType.CPU, "nvlink"), RuntimeError, "for cpu over nvlink is not")
    refused(lambda: detect(DeviceType.CUDA, "pcie"), RuntimeError, "for cuda over pcie is not")
    dist.destroy_process_group()


def run_tables() -> None:
    """The pointers on the device are those of the host: a kernel finds each rank's memory by them."""
    import ctypes

    torch, dist, symm_mem, rank, n = start()
    mine = symm_mem.empty(4, dtype=torch.int32, device="cuda").fill_(rank + 5)
    handle = symm_mem.rendezvous(mine, dist.group.WORLD)
    handle.barrier()
    for address, addresses in (
        (handle.buffer_ptrs_dev, handle.buffer_ptrs),
        (handle.signal_pad_ptrs_dev, handle.signal_pad_ptrs),
    ):
        assert list((ctypes.c_uint64 * n).from_address(address)) == addresses
    assert [ctypes.c_int32.from_address(a).value for a in handle.buffer_ptrs] == [
        5 + other for other in range(n)
    ]


def run_pads() -> None:
    torch, dist, symm_mem, rank, n = start()
    before = symm_mem.get_signal_pad_size()
    symm_mem.set_signal_pad_size(256)
    mine = symm_mem.empty(0, device="cuda")
    symm_mem.set_signal_pad_size(before)
    handle = symm_mem.rendezvous(mine, dist.group.WORLD)
    assert (handle.signal_pad_size, symm_mem.get_signal_pad_size()) == (256, before)
    pad = handle.get_signal_pad(rank)
    assert (pad.dtype, pad.shape, pad.data_ptr()) == (
        torch.uint32,
        (64,),
        handle.signal_pad_ptrs[rank],
    )
    assert handle.get_signal_pad(rank, dtype=torch.int64, storage_offset=2).shape == (30,)
    handle.get_signal_pad((rank + 1) % n, (1,), torch.uint32, 40).fill_(9)
    handle.barrier()
    assert pad[40] == 9
    pad[40] = 0
    if rank == 0:
        for other in range(1, n):
            handle.put_signal(other, channel=2)
    else:
        handle.wait_signal(0, channel=2)
    handle.barrier()
    assert not pad.view(torch.int32).any()


def run_groups() -> None:
    """One allocation in two groups; and allocations that not all ranks make."""
    torch, dist, symm_mem, rank, n = start()
    halves = [dist.new_group(range(n // 2)), dist.new_group(range(n // 2, n))]
    half = halves[rank >= n // 2]
    mine = symm_mem.empty(2, device="cuda").fill_(rank)
    world, inner = (symm_mem.rendezvous(mine, group) for group in (dist.group.WORLD, half))
    assert (inner.rank, inner.world_size) == (rank % (n // 2), n // 2)
    world.barrier()
    inner.barrier()
    first = inner.get_buffer(0, (1,), torch.float32)
    assert first.item() == (n // 2 if rank >= n // 2 else 0)
    if rank == 1:
        symm_mem.empty(5, device="cuda")  # of no other rank
        kept = symm_mem.empty(2, device="cuda")
    last = symm_mem.empty(2, device="cuda").fill_(rank + 100)
    found = symm_mem.rendezvous(last, dist.group.WORLD)
    found.barrier()
    for other in range(n):
        assert found.get_buffer(other, (2,), torch.float32).eq(other + 100).all()
    found.barrier()
    assert rank != 1 or not kept.any()


def run_lifetimes() -> None:
    torch, dist, symm_mem, _, _n = start()
    used = emu.world().segment.allocations

    def live() -> int:
        return int((used["used"] == 1).sum())

    make = symm_mem._SymmetricMemory.empty_strided_p2p
    options = {"dtype": torch.float32, "device": torch.device("cuda"), "group_name": "0"}
    tensor = make((4,), (1,), **options, alloc_id=7)
    address = tensor.data_ptr()
    refused(lambda: make((4,), (1,), **options, alloc_id=7), RuntimeError, "memory in use")
    del tensor
    assert make((4,), (1,), **options, alloc_id=7).data_ptr() == address
    assert make((8,), (1,), **options, alloc_id=7).data_ptr() != address
    handle = symm_mem.rendezvous(symm_mem.empty(6, device="cuda").fill_(3), "0")
    assert handle.get_buffer(handle.rank, (6,), torch.float32).eq(3).all()  # the tensor has gone
    dist.barrier()
    before = live()
    for _ in range(5):
        view = symm_mem.rendezvous(symm_mem.empty(1000, device="cuda"), "0").get_buffer(
            0, (1000,), torch.float32
        )
        del view
        dist.barrier()
    symm_mem.empty(1, device="cuda")
    dist.barrier()
    assert live() <= before + 5


def run_errors() -> None:
    torch, dist, symm_mem, rank, n = start()
    mine = symm_mem.empty(8, device="cuda")
    handle = symm_mem.rendezvous(mine, dist.group.WORLD)
    channels = handle.signal_pad_size // 4 // n
    for call, text in (
        (lambda: handle.get_buffer(n, (1,), torch.float32), rf"rank must be in \[0, {n}\)"),
        (lambda: handle.get_buffer(0, (9,), torch.float32), "exceeds the allocated size"),
        (lambda: handle.get_buffer(0, (1,), torch.float32, -1), "exceeds the allocated size"),
        (lambda: handle.get_signal_pad(-1), r"rank must be in"),
        (lambda: handle.get_signal_pad(0, (1 << 20,)), "exceeds the allocated size"),
        (lambda: handle.barrier(channels), "maximum supported channel"),
        (lambda: handle.put_signal(n), r"dst_rank must be in"),
        (lambda: handle.wait_signal(-1), r"src_rank must be in"),
        (lambda: handle.barrier(timeout_ms=-1), "timeout_ms"),
        (lambda: symm_mem.set_backend("X"), "does not find"),
        (lambda: symm_mem.set_backend("NCCL"), "before the first allocation"),
        (lambda: symm_mem.set_signal_pad_size(-4), "positive multiple"),
        (lambda: symm_mem.empty(2), "does not support device type cpu"),
        (lambda: symm_mem._SymmetricMemory.rendezvous(mine), "group_name must be given"),
    ):
        refused(call, RuntimeError, text)
    unequal = symm_mem.empty(4 + rank, device="cuda")
    refused(lambda: symm_mem.rendezvous(unequal, "0"), RuntimeError, "one size on all ranks")
    shared = symm_mem.empty(4, device="cuda:0")
    refused(lambda: symm_mem.rendezvous(shared, "0"), RuntimeError, "overlapping devices")
    os.environ["TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES"] = "1"
    assert symm_mem.rendezvous(shared, "0").device.index == 0
    refused(lambda: symm_mem.empty(1 << 38, device="cuda"), SymmetricMemoryError, "room|heap|bytes")
    if rank == 0:
        refused(lambda: handle.barrier(timeout_ms=50), RuntimeError, "timed out after 50 ms")
        refused(lambda: handle.put_signal(1, 0, 50), RuntimeError, "put_signal to rank 1")
        refused(lambda: handle.wait_signal(1, 3, 50), RuntimeError, "wait_signal from rank 1")


@pytest.mark.parametrize(
    ("run", "n"),
    [
        (run_buffers, 3),
        (run_links, 2),
        (run_tables, 2),
        (run_pads, 3),
        (run_groups, 4),
        (run_lifetimes, 2),
        (run_errors, 2),
    ],
)
def test_symmetric_memory(run: Callable[[], None], n: int) -> None:
    emu.launch(run, n, preload=["torch"])


def run_missing_rank() -> None:
    _torch, dist, symm_mem, rank, _ = start()
    handle = symm_mem.rendezvous(symm_mem.empty(1, device="cuda"), dist.group.WORLD)
    if rank == 0:
        handle.barrier()


def test_a_barrier_that_never_ends_is_reported() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(run_missing_rank, 2, preload=["torch"], timeout=20)
    assert caught.group_contains(DeadlockError)
    assert "signal pad of symmetric memory" in str(caught.value)


def run_race(repaired: bool) -> None:
    torch, dist, symm_mem, rank, _ = start()
    mine = symm_mem.empty(16, device="cuda")
    handle = symm_mem.rendezvous(mine, dist.group.WORLD)
    mine.fill_(rank)
    if repaired:
        handle.barrier()
    handle.get_buffer(1 - rank, (16,), torch.float32).sum()
    handle.barrier()
    torch.ops.symm_mem.one_shot_all_reduce(mine, "sum", "0")
    mine.fill_(3)
    handle.barrier()
    torch.ops.symm_mem.two_shot_all_reduce_(mine, "sum", "0")
    assert mine.eq(6).all()


@pytest.mark.timeout(400)  # the first to come compiles the listener's kernels
def test_reading_before_the_barrier_is_a_race() -> None:
    emu.launch(run_race, 2, args=(True,), preload=["torch"], checks=Checks(race=True))
    with pytest.raises(CheckError, match="sum of PE"):
        emu.launch(run_race, 2, args=(False,), preload=["torch"], checks=Checks(race=True))
