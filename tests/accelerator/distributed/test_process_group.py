"""Collectives of ``torch.distributed`` on the World, with backends "nccl" and "hccl", against NumPy."""

from __future__ import annotations

import datetime
import itertools
from typing import Any

import numpy as np
import pytest
from distributed_tensors import BF16, DEVICES, begin, combine, everything, given, same, values
from emulated_devices import LOADED_ONCE
from variants import thorough

import emu
from emu.comm.errors import ArgumentError, CommError, DeadlockError, PEDiedError

pytest.importorskip("torch.distributed")


def run_reductions(backend: str) -> None:
    torch, dist, on_device = begin(backend)
    rank, n = dist.get_rank(), dist.get_world_size()
    world = emu.world()
    assert (rank, n) == (world.my_pe, world.n_pes)
    assert dist.get_backend() == backend
    assert dist.is_nccl_available()
    assert dist.is_backend_available("hccl")
    kinds = (np.float32, np.float64, np.float16, BF16, np.int8, np.uint8, np.int32, np.int64)
    for dtype, op in itertools.product(kinds, ("SUM", "PRODUCT", "MIN", "MAX", "AVG")):
        if op == "AVG" and np.dtype(dtype).kind in "iu":
            continue
        x = on_device(given(rank, (3, 5), dtype))
        expected = combine(op, everything(n, (3, 5), dtype))
        assert dist.all_reduce(x, op=getattr(dist.ReduceOp, op)) is None
        same(x, expected)
        assert x.device.type == DEVICES[backend]
        y = on_device(given(rank, (3, 5), dtype))
        dist.reduce(y, n - 1, op=getattr(dist.ReduceOp, op))
        same(y, expected if rank == n - 1 else given(rank, (3, 5), dtype))
        z = on_device(given(rank, (n, 2), dtype))
        part = torch.empty(2, dtype=z.dtype, device=z.device)
        dist.reduce_scatter_tensor(part, z, op=getattr(dist.ReduceOp, op))
        same(part, combine(op, everything(n, (n, 2), dtype))[rank])
    flags = on_device(given(rank, 50, bool))
    dist.all_reduce(flags)
    same(flags, everything(n, 50, bool).any(0))
    big = on_device(given(rank, 300_001))
    dist.all_reduce(big)
    same(big, combine("SUM", everything(n, 300_001)))
    scalar = torch.tensor(float(rank), device=DEVICES[backend])
    dist.all_reduce(scalar)
    assert scalar.item() == sum(range(n))
    sizes = [rank_ + 1 for rank_ in range(n)]
    uneven = [on_device(given(rank, size, seed=size)) for size in sizes]
    mine = torch.empty(sizes[rank], device=DEVICES[backend])
    dist.reduce_scatter(mine, uneven)
    same(mine, combine("SUM", everything(n, sizes[rank], seed=sizes[rank])))
    last = torch.zeros(2, 3, 4, 4, device=DEVICES[backend]).to(memory_format=torch.channels_last)
    last += rank
    dist.all_reduce(last)
    assert (values(last) == sum(range(n))).all()
    version = last._version
    dist.all_reduce(last)
    assert last._version > version
    dist.destroy_process_group()


def run_movements(backend: str) -> None:
    torch, dist, on_device = begin(backend)
    rank, n = dist.get_rank(), dist.get_world_size()
    device = DEVICES[backend]
    for dtype in (np.float32, BF16, np.float16, np.int64, np.uint8, bool, np.complex64):
        all_ = everything(n, (2, 3), np.float32 if dtype is np.complex64 else dtype).astype(dtype)
        mine = on_device(all_[rank])
        x = on_device(all_[rank])
        dist.broadcast(x, n - 1)
        same(x, all_[n - 1])
        outs = [torch.zeros_like(mine) for _ in range(n)]
        dist.all_gather(outs, mine)
        for out, expected in zip(outs, all_, strict=True):
            same(out, expected)
        if dtype is np.complex64:
            continue
        joined = torch.zeros(n * 2, 3, dtype=mine.dtype, device=device)
        dist.all_gather_into_tensor(joined, mine)
        same(joined, all_.reshape(n * 2, 3))
        outs = [torch.zeros_like(mine) for _ in range(n)]
        dist.gather(mine, outs if rank == 1 else None, dst=1)
        for out, expected in zip(outs, all_, strict=True):
            same(out, expected if rank == 1 else np.zeros_like(expected))
        got = torch.zeros_like(mine)
        dist.scatter(got, [on_device(a) for a in all_] if rank == 0 else None, src=0)
        same(got, all_[rank])
    eighth = torch.arange(4, device=device).to(torch.float8_e4m3fn) if rank == 0 else None
    if eighth is None:
        eighth = torch.zeros(4, device=device).to(torch.float8_e4m3fn)
    dist.broadcast(eighth, 0)
    assert eighth.to(torch.float32).tolist() == [0, 1, 2, 3]
    outs = [torch.zeros(p + 1, device=device) for p in range(n)]
    dist.all_gather(outs, on_device(given(rank, rank + 1)))
    for p, out in enumerate(outs):
        same(out, given(p, p + 1))
    run_all_to_all(torch, dist, on_device, device)
    dist.destroy_process_group()


def run_all_to_all(torch: Any, dist: Any, on_device: Any, device: str) -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    all_ = everything(n, (n * 2, 3))
    out = torch.zeros(n * 2, 3, device=device)
    dist.all_to_all_single(out, on_device(all_[rank]))
    same(out, np.concatenate([a[2 * rank : 2 * rank + 2] for a in all_]))
    sends = [[(p + q) % 3 for q in range(n)] for p in range(n)]  # rows from p to q
    rows = [given(p, (sum(sends[p]), 2), np.int32) for p in range(n)]
    receives = [sends[p][rank] for p in range(n)]
    out = torch.zeros(sum(receives), 2, dtype=torch.int32, device=device)
    dist.all_to_all_single(out, on_device(rows[rank]), receives, sends[rank])
    starts = [sum(sends[p][:rank]) for p in range(n)]
    blocks = [rows[p][starts[p] : starts[p] + receives[p]] for p in range(n)]
    same(out, np.concatenate(blocks))
    outs = [torch.zeros(count, 2, dtype=torch.int32, device=device) for count in receives]
    splits = np.split(rows[rank], np.cumsum(sends[rank])[:-1])
    dist.all_to_all(outs, [on_device(part) for part in splits])
    for got, expected in zip(outs, blocks, strict=True):
        same(got, expected)


def run_groups_and_objects(backend: str) -> None:
    torch, dist, on_device = begin(backend)
    rank, n = dist.get_rank(), dist.get_world_size()
    device = DEVICES[backend]
    objects: list[Any] = [None] * n
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * rank})
    assert objects == [{"rank": p, "text": "x" * p} for p in range(n)]
    shared = [["from 1", 2.5] if rank == 1 else None]
    dist.broadcast_object_list(shared, src=1)
    assert shared == [["from 1", 2.5]]
    # Inductor calls this when it finds compiled code in its cache.
    dist.distributed_c10d._add_ephemeral_timeout_for_all_pgs(datetime.timedelta(seconds=3))
    halves = [dist.new_group(ranks) for ranks in ([0], [n - 1, 0], list(range(n)))]
    first = halves[1]
    if rank in (0, n - 1):
        x = on_device(given(rank, 9))
        dist.all_reduce(x, group=first)
        same(x, combine("SUM", np.stack([given(0, 9), given(n - 1, 9)])))
        assert dist.get_rank(first) == [0, n - 1].index(rank)
        assert dist.get_process_group_ranks(first) == [0, n - 1]
        name = first._get_backend(torch.device(device)).get_hccl_comm_name(0)
        assert emu.world().group(name).members == (0, n - 1)
    else:
        assert first is dist.GroupMember.NON_GROUP_MEMBER
    default = dist.group.WORLD._get_backend(torch.device(device))
    assert default.get_hccl_comm_name(rank, init_comm=True) == "world"
    tensors = [on_device(given(rank, size)) for size in (3, 8)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    for tensor in tensors:
        same(tensor, combine("SUM", everything(n, tensor.numel())))
    plain = torch.full((3,), float(rank))
    dist.all_reduce(plain, group=dist.new_group(list(range(n)), backend="gloo"))
    assert plain.tolist() == [sum(range(n))] * 3
    dist.barrier()
    dist.destroy_process_group()
    # Another time, with other members under torch's name of the first group.
    dist.init_process_group(backend, rank=rank, world_size=n, init_method="env://")
    again = dist.new_group([0, 1])
    if rank < 2:
        x = torch.ones(2, device=device)
        dist.all_reduce(x, group=again)
        assert x.tolist() == [2.0, 2.0]
    dist.destroy_process_group()


@pytest.mark.parametrize(("backend", "n"), thorough([("nccl", 2), ("hccl", 4)], ("nccl", 2)))
def test_collectives_give_what_numpy_gives(backend: str, n: int) -> None:
    emu.launch(run_all, n, preload=LOADED_ONCE, args=(backend,))


def run_all(backend: str) -> None:
    run_reductions(backend)
    run_movements(backend)
    run_groups_and_objects(backend)


def run_data_parallel(backend: str) -> None:
    torch, dist, on_device = begin(backend)
    rank, n = dist.get_rank(), dist.get_world_size()

    def make(seed: int) -> Any:
        torch.manual_seed(seed)
        layers = torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)
        return torch.nn.Sequential(*layers).to(DEVICES[backend])

    model = torch.nn.parallel.DistributedDataParallel(make(rank))
    alone = make(0)  # what rank 0 has is given to all
    for step in range(2):
        for net, inputs in ((model, [rank]), (alone, range(n))):
            net.zero_grad()
            for p in inputs:
                x = on_device(given(p, (5, 8), seed=step))
                net(x).square().sum().backward()
        for got, summed in zip(model.parameters(), alone.parameters(), strict=True):
            np.testing.assert_allclose(values(got.grad), values(summed.grad) / n, 1e-5, 1e-6)
            assert got.grad.device.type == DEVICES[backend]
    dist.destroy_process_group()


def run_functional() -> None:
    torch, dist, on_device = begin()
    import torch.distributed._functional_collectives as functional
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    rank, n = dist.get_rank(), dist.get_world_size()
    total = functional.all_reduce(on_device(given(rank, 5)), "sum", dist.group.WORLD)
    same(functional.wait_tensor(total), combine("SUM", everything(n, 5)))
    from torch.distributed.nn.functional import all_reduce

    leaf = on_device(given(rank, 5)).requires_grad_()
    all_reduce(leaf).square().sum().backward()
    expected = combine("SUM", everything(n, 5)) * 2 * n
    np.testing.assert_allclose(values(leaf.grad), expected, 1e-5)
    whole = np.arange(24, dtype=np.float32).reshape(6, 4)
    mesh = init_device_mesh("cuda", (n,))
    rows = distribute_tensor(on_device(whole), mesh, [Shard(0)])
    same(rows.to_local(), np.split(whole, n)[rank])
    same(rows.full_tensor(), whole)
    same(rows.redistribute(mesh, [Shard(1)]).to_local(), np.split(whole, n, 1)[rank])
    columns = distribute_tensor(on_device(whole.T), mesh, [Replicate()])
    same((rows @ columns).full_tensor(), whole @ whole.T)
    weights = torch.nn.Parameter(on_device(whole))
    weights.grad = on_device(np.ones_like(whole))
    ZeroRedundancyOptimizer([weights], torch.optim.SGD, lr=0.5).step()
    same(weights, whole - np.float32(0.5))
    dist.destroy_process_group()


@pytest.mark.slow
def test_functional_collectives_and_dtensor_work() -> None:
    emu.launch(run_functional, 2, preload=LOADED_ONCE)


@pytest.mark.parametrize(("backend", "n"), thorough([("nccl", 2), ("hccl", 3)], ("hccl", 3)))
def test_distributed_data_parallel_averages_the_gradients(backend: str, n: int) -> None:
    emu.launch(run_data_parallel, n, preload=LOADED_ONCE, args=(backend,))


def run_errors() -> None:
    torch, dist, _ = begin()
    rank = dist.get_rank()
    here = torch.ones(4, device="cuda")
    for wrong, kind in ((torch.ones(4), "cpu"), (torch.ones(4, device="npu"), "npu")):
        with pytest.raises(RuntimeError, match=rf"No backend type .* device type {kind}"):
            dist.all_reduce(wrong)
        with pytest.raises(RuntimeError, match=rf"No backend type .* device type {kind}"):
            dist.isend(wrong, 0)
    with pytest.raises(ValueError, match=r"Tensors must be contiguous"):
        dist.all_reduce(torch.ones(4, 4, device="cuda")[:, 1])
    with pytest.raises(ValueError, match=r"op must be SUM.*but got BAND"):
        dist.all_reduce(here, op=dist.ReduceOp.BAND)
    with pytest.raises(TypeError, match=r"not supported for a reduction"):
        dist.all_reduce(torch.ones(4, device="cuda").to(torch.float8_e5m2))
    with pytest.raises(TypeError, match=r"AVG"):
        dist.all_reduce(here > 0, op=dist.ReduceOp.AVG)
    with pytest.raises((TypeError, ValueError)):
        dist.all_gather_into_tensor(torch.ones(8, device="cuda", dtype=torch.int32), here)
    with pytest.raises(ArgumentError, match=r"output tensor must have 8 elements, but got 9"):
        dist.all_gather_into_tensor(torch.ones(9, device="cuda"), here)
    with pytest.raises(ArgumentError, match=r"must have 2 tensors"):
        dist.all_gather([here], here)
    with pytest.raises(ArgumentError, match=r"input_split_sizes must be 2 numbers .* 4 rows"):
        dist.all_to_all_single(torch.ones(4, device="cuda"), here, [2, 2], [1, 1])
    with pytest.raises(RuntimeError, match=r"any source is not supported"):
        dist.recv(torch.zeros(1, device="cuda"))
    with pytest.raises(ValueError, match=r"monitored_barrier"):
        dist.monitored_barrier()
    # Members that disagree: all of them hear of it, and go on.
    with pytest.raises(ArgumentError, match=r"called alike .*by every member"):
        dist.all_reduce(torch.ones(4 + rank, device="cuda"))
    if rank == 0:
        dist.isend(here, 1)
    else:
        with pytest.raises(ArgumentError, match=r"4 elements of float32 .* but got 5 of float32"):
            dist.recv(torch.zeros(5, device="cuda"), 0)
    dist.destroy_process_group()
    dist.init_process_group("cpu:gloo,cuda:nccl")
    for tensor in (torch.ones(2), torch.ones(2, device="cuda")):
        dist.all_reduce(tensor)
        assert tensor.tolist() == [2.0, 2.0]
    dist.destroy_process_group()


def test_what_breaks_a_rule_says_so() -> None:
    emu.launch(run_errors, 2, preload=LOADED_ONCE)


def run_missing_rank() -> None:
    torch, dist, _ = begin()
    if dist.get_rank() == 0:
        dist.all_reduce(torch.ones(1, device="cuda"))


def run_dying_rank() -> None:
    torch, dist, _ = begin()
    if dist.get_rank() == 1:
        import os

        os._exit(3)
    dist.all_reduce(torch.ones(1, device="cuda"))


def run_two_sends() -> None:
    torch, dist, _ = begin()
    dist.send(torch.ones(1, device="cuda"), 1 - dist.get_rank())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "error", "text"),
    [
        (run_two_sends, DeadlockError, "receives asked for"),
        (run_missing_rank, DeadlockError, "all_reduce"),
        (run_dying_rank, PEDiedError, "1 of 2 PEs failed"),
    ],
)
def test_what_never_ends_is_reported(run: Any, error: type[CommError], text: str) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(run, 2, preload=LOADED_ONCE, timeout=2)
    assert caught.group_contains(error)
    assert text in str(caught.value)
