"""``torch.distributed`` on the World, with backends "nccl" and "hccl", against NumPy."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from variants import thorough

import emu
from emu.comm.errors import ArgumentError, CommError, DeadlockError, PEDiedError

pytest.importorskip("torch.distributed")

DEVICES = {"nccl": "cuda", "hccl": "npu"}
BF16 = np.dtype(ml_dtypes.bfloat16)


def begin(backend: str = "nccl") -> Any:
    """Return torch, its distributed package, and a function that makes device tensors."""
    import emu.accelerator

    emu.accelerator.install()
    import torch
    import torch.distributed as dist

    # Names that scripts use and that the newest torch calls deprecated.
    warnings.simplefilter("ignore", FutureWarning)
    if not dist.is_initialized():
        dist.init_process_group(backend)
    device = DEVICES[backend]

    def on_device(array: Any) -> Any:
        array = np.ascontiguousarray(array)
        if array.dtype == BF16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).to(device)
        return torch.from_numpy(array).to(device)

    return torch, dist, on_device


def values(tensor: Any) -> np.ndarray:
    """Return what a device tensor holds."""
    import torch

    tensor = tensor.detach().cpu()
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(BF16)
    return tensor.numpy()


def given(rank: int, shape: Any, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    """What rank ``rank`` gives."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng([seed, rank])
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def everything(n: int, shape: Any, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    return np.stack([given(rank, shape, dtype, seed) for rank in range(n)])


def same(tensor: Any, expected: np.ndarray) -> None:
    got = values(tensor)
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    assert got.tobytes() == np.ascontiguousarray(expected).tobytes()


def combine(op: str, arrays: np.ndarray) -> np.ndarray:
    """The meaning of a reduction: in rank order, 16 bits in fp32 with one rounding."""
    step = {"MAX": np.maximum, "MIN": np.minimum, "PRODUCT": np.multiply}.get(op, np.add)
    wide = arrays.astype(np.float32) if arrays.dtype in (np.float16, BF16) else arrays
    total = wide[0]
    for array in wide[1:]:
        total = step(total, array)
    if op == "AVG":
        total = total / total.dtype.type(len(arrays))
    return total.astype(arrays.dtype)


# --- collectives ----------------------------------------------------------------------------


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
    emu.launch(run_all, n, args=(backend,))


def run_all(backend: str) -> None:
    run_reductions(backend)
    run_movements(backend)
    run_groups_and_objects(backend)


# --- deferred work --------------------------------------------------------------------------


def run_deferred() -> None:
    torch, dist, _ = begin()
    from emu.accelerator.distributed import flush_all

    rank, n = dist.get_rank(), dist.get_world_size()

    def fresh() -> Any:
        return torch.full((4,), float(rank + 1), device="cuda")

    total = float(sum(range(n + 1)))
    x = fresh()
    work = dist.all_reduce(x, async_op=True)
    dist.barrier(group=dist.new_group(list(range(n))))  # another group's work is no reason
    assert x.tolist() == [rank + 1.0] * 4
    assert work.wait()
    assert x.tolist() == [total] * 4
    first, second, later = fresh(), fresh(), fresh()
    works = [dist.all_reduce(first, async_op=True), dist.all_reduce(second, async_op=True)]
    dist.all_reduce(later)  # the same group's work is: the order counts
    assert first.tolist() == second.tolist() == later.tolist() == [total] * 4
    assert all(w.is_completed() and w.is_success() for w in works)
    y, z = fresh(), fresh()
    held = dist.all_reduce(y, async_op=True)
    assert held.is_completed()
    assert y.tolist() == [total] * 4
    future = dist.all_reduce(z, async_op=True).get_future()
    assert future.wait()[0].tolist() == [total] * 4
    x = fresh()
    work = dist.all_reduce(x, async_op=True)
    received = torch.zeros(2, device="cuda")
    sent = dist.isend(torch.full((2,), float(rank), device="cuda"), (rank + 1) % n)
    dist.irecv(received, (rank - 1) % n)
    assert received.tolist() == [0.0, 0.0]
    flush_all()
    assert x.tolist() == [total] * 4
    assert received.tolist() == [(rank - 1) % n] * 2
    assert sent.is_completed()
    # Left over at the end of the PE: the other ranks' calls need this one's part.
    x = fresh()
    if rank == 0:
        dist.all_reduce(x, async_op=True)
    else:
        dist.all_reduce(x)
        assert x.tolist() == [total] * 4


def run_messages() -> None:
    torch, dist, on_device = begin()
    rank, n = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % n, (rank - 1) % n
    shapes = [(0,), (1,), (3, 7), (100_003,), (5,)]
    for dtype in (np.float32, BF16, np.int8):
        sends = [
            dist.P2POp(dist.isend, on_device(given(rank, shape, dtype, i)), right)
            for i, shape in enumerate(shapes)
        ]
        into = [on_device(np.zeros(shape, dtype)) for shape in shapes]
        receives = [dist.P2POp(dist.irecv, tensor, left) for tensor in into]
        for work in dist.batch_isend_irecv(receives + sends):
            work.wait()
        for i, (shape, tensor) in enumerate(zip(shapes, into, strict=True)):
            same(tensor, given(left, shape, dtype, i))
    # What was sent may be overwritten at once; the second receive's wait does the first too.
    out = torch.full((3,), float(rank), device="cuda")
    first = dist.isend(out, right)
    out += 10
    second = dist.isend(out, right)
    a, b = torch.zeros(3, device="cuda"), torch.zeros(3, device="cuda")
    dist.irecv(a, left, tag=5)
    dist.irecv(b, left, tag=6).wait()
    assert (a.tolist(), b.tolist()) == ([left] * 3, [left + 10.0] * 3)
    assert first.wait()
    assert second.wait()
    # A rank whose receive is asked for and who is busy in a collective holds nobody up.
    x = torch.full((2,), float(rank), device="cuda")
    if rank == 0:
        waiting = dist.irecv(x, 1)
        dist.barrier()
        waiting.wait()
        assert x.tolist() == [1.0, 1.0]
    else:
        if rank == 1:
            dist.send(x, 0)
        dist.barrier()
    for i in range(3000):  # more than the ring holds
        counter = torch.full((1,), i, device="cuda")
        if rank == 0:
            dist.isend(counter, 1)
        elif rank == 1:
            assert dist.recv(counter, 0) == 0
            assert counter.item() == i
    if rank < 2:
        dist.send(x, 1) if rank == 0 else dist.recv(x, 0)
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.parametrize("n", thorough([2, 4], 2))
def test_work_is_kept_back_until_it_is_needed(n: int) -> None:
    emu.launch(run_deferred, n)


@pytest.mark.parametrize("n", thorough([2, 3], 3))
def test_messages_arrive_in_order(n: int) -> None:
    emu.launch(run_messages, n)


# --- what torch builds on it ----------------------------------------------------------------


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


def test_functional_collectives_and_dtensor_work() -> None:
    emu.launch(run_functional, 2)


@pytest.mark.parametrize(("backend", "n"), thorough([("nccl", 2), ("hccl", 3)], ("hccl", 3)))
def test_distributed_data_parallel_averages_the_gradients(backend: str, n: int) -> None:
    emu.launch(run_data_parallel, n, args=(backend,))


# --- errors ---------------------------------------------------------------------------------


def run_errors() -> None:
    import emu.accelerator

    emu.accelerator.install()
    import torch
    import torch.distributed as dist

    rank, n = emu.world().my_pe, emu.world().n_pes
    with pytest.raises(ArgumentError, match=rf"rank must be {rank}, .* but got {rank + 5}"):
        dist.init_process_group("nccl", rank=rank + 5, world_size=n)
    with pytest.raises(ArgumentError, match=r"world_size must be 2, .* but got 7"):
        dist.init_process_group("hccl", rank=rank, world_size=7)
    with pytest.raises(ArgumentError, match=r"backend must pair cuda with nccl"):
        dist.init_process_group("cpu:nccl")
    with pytest.raises(ArgumentError, match=r"device_id must be a device of type cuda"):
        dist.init_process_group("nccl", device_id=torch.device("npu", 0))
    assert not dist.is_initialized()
    dist.init_process_group(device_id=torch.device("cuda", 0))
    assert dist.get_backend() == "nccl"
    with pytest.raises(ValueError, match=r"twice"):
        dist.init_process_group("nccl")
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
    emu.launch(run_errors, 2)


def run_two_sends() -> None:
    torch, dist, _ = begin()
    dist.send(torch.ones(1, device="cuda"), 1 - dist.get_rank())


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
        emu.launch(run, 2, timeout=2)
    assert caught.group_contains(error)
    assert text in str(caught.value)


def test_a_process_that_is_no_pe_is_told_how_to_become_one() -> None:
    assert emu.launch(run_without_world, 1) == [True]


def run_without_world() -> bool:
    import emu.accelerator

    emu.accelerator.install()
    import torch.distributed as dist

    from emu.comm.world.current import set_world

    mine = emu.world()
    set_world(None)  # as in a process that was not launched
    try:
        for backend in ("nccl", "hccl", None):
            with pytest.raises(CommError, match=r"must be called in a PE.*emu run -n N"):
                dist.init_process_group(backend)
    finally:
        set_world(mine)
    return True
