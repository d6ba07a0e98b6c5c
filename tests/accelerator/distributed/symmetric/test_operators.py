"""Operators of ``torch.ops.symm_mem`` against NumPy: sums in the order of the ranks, all-to-alls, puts and signals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from distributed_tensors import BF16, begin, everything, given, same, values
from emulated_devices import refused

import emu

pytest.importorskip("torch.distributed")


def start() -> tuple[Any, Any, Any, int, int]:
    torch, dist, on_device = begin()
    import torch.distributed._symmetric_memory as symm_mem

    torch.cuda.set_device(dist.get_rank())

    def symmetric(array: Any) -> Any:
        """Return a symmetric tensor of an array's values."""
        source = on_device(array)
        made = symm_mem.empty(*source.shape, dtype=source.dtype, device="cuda")
        symm_mem.rendezvous(made, "0")
        return made.copy_(source)

    return torch, torch.ops.symm_mem, symmetric, dist.get_rank(), dist.get_world_size()


def stepwise(arrays: np.ndarray) -> np.ndarray:
    """The meaning of a sum: from zero, in the order of the ranks, rounded after each step."""
    total = np.zeros_like(arrays[0])
    for array in arrays:
        total = (total + array).astype(arrays.dtype)
    return total


def once(arrays: np.ndarray) -> np.ndarray:
    """The meaning of a sum by multicast: in fp32, rounded once."""
    total = np.zeros(arrays[0].shape, np.float32)
    for array in arrays:
        total = total + array.astype(np.float32)
    return total.astype(arrays.dtype)


def run_sums() -> None:
    torch, ops, symmetric, rank, n = start()
    for dtype, shape in ((np.float32, (5, 4)), (BF16, (6, 7)), (np.float32, (0,)), (BF16, (2,))):
        expected, wide = (f(everything(n, shape, dtype)) for f in (stepwise, once))
        x = symmetric(given(rank, shape, dtype))
        result = ops.one_shot_all_reduce(x, "sum", "0")
        assert result.is_cuda
        same(result, expected)
        out = torch.empty_like(x)
        assert ops.one_shot_all_reduce_out(x, "sum", "0", out) is out
        same(out, expected)
        same(x, given(rank, shape, dtype))
        same(ops.multimem_one_shot_all_reduce(x, "sum", "0"), wide)
        same(ops.multimem_one_shot_all_reduce_out(x, "sum", "0", out), wide)
        root = torch.full_like(x, -1)
        ops.multimem_one_shot_reduce_out(x, "sum", n - 1, "0", root)
        same(root, wide if rank == n - 1 else np.full(shape, -1, dtype))
        if 0 not in shape:
            local = symmetric(np.zeros(shape, dtype))
            same(ops.one_shot_all_reduce_copy(local, x.clone(), "sum", "0"), expected)
            same(local, given(rank, shape, dtype))
        ops.two_shot_all_reduce_out(symmetric(given(rank, shape, dtype)), "sum", "0", out)
        same(out, expected)
        same(ops.multimem_all_reduce_(symmetric(given(rank, shape, dtype)), "sum", "0"), wide)
        assert ops.two_shot_all_reduce_(x, "sum", "0") is x
        same(x, expected)


def run_parts() -> None:
    torch, ops, symmetric, rank, n = start()
    for shape, last in (((4 * n, 4), False), ((2, 8 * n), True)):
        axis = 1 if last else 0
        expected = np.split(stepwise(everything(n, shape)), n, axis)[rank]
        out = torch.empty(expected.shape, device="cuda")
        ops.reduce_scatter_out(symmetric(given(rank, shape)), "0", last, out)
        same(out, expected)
    gathered = symmetric(np.zeros((2 * n, 3), np.float32))
    ops.multimem_all_gather_out(torch.full((2, 3), float(rank), device="cuda"), "0", gathered)
    same(gathered, np.repeat(np.arange(n, dtype=np.float32), 6).reshape(2 * n, 3))
    matrix = symmetric(given(rank, (6, 8)))
    tile = torch.full((2, 4), -1.0, device="cuda")
    ops.tile_reduce(matrix[2:4, 4:], tile, 1, "0")
    expected = once(everything(n, (6, 8)))[2:4, 4:]
    same(tile, expected if rank == 1 else np.full((2, 4), -1, np.float32))
    tiles = [matrix[i : i + 2, :4] for i in range(n)]
    ops.multi_root_tile_reduce(tiles, tile, list(range(n)), "0")
    same(tile, once(everything(n, (6, 8)))[rank : rank + 2, :4])
    blocks = [torch.empty(6, 8 // n, device="cuda")]
    ops.nccl_reduce_scatter_offset(matrix, blocks, "0", 1)
    same(blocks[0], np.split(stepwise(everything(n, (6, 8))), n, 1)[rank])


def run_exchanges() -> None:
    _torch, ops, symmetric, rank, n = start()
    rng = np.random.default_rng(4)
    splits = rng.integers(0, 4, (n, n))  # of rank r to rank p
    sent = [given(r, (n * 4, 3), seed=1) for r in range(n)]
    pieces = [np.split(sent[r], np.cumsum(splits[r]))[rank] for r in range(n)]
    out, found = (
        symmetric(np.full((n * n * 4, 3), -1, np.float32)),
        symmetric(np.zeros((2, n), int)),
    )
    ops.all_to_all_vdev(symmetric(sent[rank]), out, symmetric(splits[rank]), found, "0")
    counts = splits[:, rank]
    np.testing.assert_array_equal(values(found), [counts, np.cumsum(counts) - counts])
    np.testing.assert_array_equal(values(out)[: counts.sum()], np.concatenate(pieces))
    assert (values(out)[counts.sum() :] == -1).all()
    for align in (None, 1, 8):
        run_experts(align, start())


def run_experts(align: int | None, parts: Any) -> None:
    """Dispatch rows to experts, and combine them again: everything comes back to its place."""
    _torch, ops, symmetric, rank, n = parts
    experts = 3  # of each rank
    splits = np.random.default_rng(5).integers(0, 4, (n, n * experts))
    splits[:, 1] = 0  # an expert without rows
    size = int(splits.sum()) + 8 * n * experts
    sent = [given(r, (size, 2), seed=2) for r in range(n)]
    source, out = symmetric(sent[rank]), symmetric(np.zeros((size, 2), np.float32))
    found = symmetric(np.zeros((2, n * experts), int))
    ops.all_to_all_vdev_2d(source, out, symmetric(splits[rank]), found, "0", align)
    counts, offsets = values(found)
    target = 0
    for expert in range(experts):
        begin = target
        for r in range(n):
            column, place = rank * experts + expert, expert * n + r
            first = splits[r][:column].sum()
            assert (counts[place], offsets[place]) == (splits[r][column], target)
            rows = sent[r][first : first + splits[r][column]]
            np.testing.assert_array_equal(values(out)[target : target + len(rows)], rows)
            target += len(rows)
        if align is not None:
            target = begin + max(-(-(target - begin) // align) * align, align)
    back, last = symmetric(np.zeros((size, 2), np.float32)), symmetric(np.zeros_like(found.cpu()))
    ops.all_to_all_vdev_2d_offset(out, back, found, last, "0")
    total = int(splits[rank].sum())
    np.testing.assert_array_equal(values(back)[:total], sent[rank][:total])
    np.testing.assert_array_equal(values(last)[0], splits[rank])


def run_one_sided() -> None:
    torch, ops, symmetric, rank, n = start()
    handle = torch.ops.symm_mem._rendezvous(symmetric(np.zeros(1, np.float32)), "0")
    mine = symmetric(np.full(4, rank, np.float32))
    ops._barrier(handle)
    if rank == 0:
        ops.nvshmem_put(mine.fill_(50), 1)
        ops.nccl_get(mine, n - 1)
        assert mine.eq(n - 1 if n > 2 else 50).all()
    ops._barrier(handle)
    assert rank != 1 or mine.eq(50).all()
    word = symmetric(np.zeros(1, int))
    data = symmetric(np.full(2, rank, np.float32))
    ops._barrier(handle)
    if rank == 0:
        ops.nvshmem_put_with_signal(data.fill_(9), word, 4, 1)
    if rank == 1:
        ops.nvshmem_wait_for_signal(word, 4, 0)
        assert data.eq(9).all()
    ops._barrier(handle)
    ops.nvshmem_broadcast(data.fill_(rank), n - 1, "0")
    assert data.eq(n - 1).all()
    out = torch.empty(n, 2, device="cuda")
    ops.nvshmem_all_to_all(symmetric(given(rank, (n, 2))), out, "0")
    same(out, everything(n, (n, 2))[:, rank])


def run_fused() -> None:
    torch, ops, symmetric, rank, n = start()
    shard, weights = torch.rand(4, 16, device="cuda"), torch.rand(16, 8, device="cuda")
    gathered, (product,) = ops.fused_all_gather_matmul(shard, [weights], 0, "0")
    assert gathered.is_cuda
    assert product.is_cuda
    torch.testing.assert_close(product, gathered @ weights)
    torch.testing.assert_close(gathered[4 * rank : 4 * rank + 4], shard)
    whole = symmetric(values(torch.rand(4 * n, 16, device="cuda") @ weights))
    expected = ops.one_shot_all_reduce(whole, "sum", "0")
    scattered = ops.fused_matmul_reduce_scatter(whole, torch.eye(8, device="cuda"), "sum", 0, "0")
    torch.testing.assert_close(scattered, expected[4 * rank : 4 * rank + 4])
    low = ops._low_contention_all_gather(shard, "0")
    torch.testing.assert_close(torch.ops._c10d_functional.wait_tensor(low), gathered)


def run_errors() -> None:
    torch, ops, symmetric, _rank, n = start()
    plain, x = torch.ones(8, device="cuda"), symmetric(np.ones(8, np.float32))
    half = symmetric(np.ones(8, np.float16))
    out = torch.empty(8, device="cuda")
    for call, text in (
        (lambda: ops.one_shot_all_reduce(plain, "sum", "0"), "allocated with empty_strided_p2p"),
        (lambda: ops.one_shot_all_reduce(x, "max", "0"), "only sum is supported"),
        (lambda: ops.one_shot_all_reduce(half, "sum", "0"), "not implemented for 'float16'"),
        (lambda: ops.one_shot_all_reduce(x[::2], "sum", "0"), "must be contiguous"),
        (lambda: ops.one_shot_all_reduce_out(x, "sum", "0", out[:4]), "out must have shape"),
        (lambda: ops.one_shot_all_reduce_copy(x, torch.ones(9, device="cuda"), "sum", "0"), "fit"),
        (lambda: ops.reduce_scatter_out(x[: n + 1], "0", False, out), "multiple of"),
        (lambda: ops.multimem_one_shot_reduce_out(x, "sum", n, "0", out), "root must be in"),
        (lambda: ops.nvshmem_put(x, n), "peer must be in"),
        (lambda: ops.nvshmem_wait_for_signal(half, 1, 0), "int64 or uint64"),
        (lambda: ops.all_to_all_vdev(x, x, x, x, "0"), "must be int64"),
        (lambda: ops.tile_reduce(x, out, 0, "0"), "must be matrices"),
    ):
        refused(call, RuntimeError, text)
    same(ops.one_shot_all_reduce(x, "sum", "0"), np.full(8, n, np.float32))


@pytest.mark.parametrize(
    ("run", "n"),
    [
        (run_sums, 3),
        (run_parts, 4),
        (run_exchanges, 3),
        (run_one_sided, 3),
        (run_fused, 2),
        (run_errors, 2),
    ],
)
def test_operators_give_what_numpy_gives(run: Callable[[], None], n: int) -> None:
    emu.launch(run, n, preload=["torch"])
