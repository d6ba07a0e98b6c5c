"""What PyPTO programs compute, written for torch with torch.distributed: tasks of a rank of gloo."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from link import Span, timed

Step = Callable[[], Any]


def _random(seed: int, shape: tuple[int, ...], half: int) -> torch.Tensor:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return values.bfloat16() if half else values


@functools.cache
def _allgather_matmul(rows: int, depth: int, columns: int, half: int) -> Step:
    pes, me = dist.get_world_size(), dist.get_rank()
    x, w = _random(me, (rows // pes, depth), half), _random(9 + me, (depth, columns // pes), half)
    gathered = torch.empty((rows, depth), dtype=x.dtype)
    out = torch.empty((rows, columns // pes), dtype=x.dtype)

    def step() -> None:
        dist.all_gather_into_tensor(gathered, x)
        torch.matmul(gathered, w, out=out)

    return step


@functools.cache
def _matmul_allreduce_rmsnorm(rows: int, depth: int, columns: int, half: int) -> Step:
    pes, me = dist.get_world_size(), dist.get_rank()
    x, w = _random(me, (rows, depth // pes), half), _random(9 + me, (depth // pes, columns), half)
    residual, gamma = _random(7, (rows, columns), half), _random(8, (columns,), half)
    total = torch.empty((rows, columns), dtype=x.dtype)

    def step() -> torch.Tensor:
        torch.matmul(x, w, out=total)
        dist.all_reduce(total)
        total.add_(residual)
        return torch.nn.functional.rms_norm(total, (columns,), gamma, 1e-6)

    return step


@functools.cache
def _moe(tokens: int, hidden: int, half: int) -> Step:
    """Exchange counts, then rows sorted by expert; multiply; exchange back; weigh and sum."""
    pes, me = dist.get_world_size(), dist.get_rank()
    share = tokens // pes
    x, gates = _random(me, (share, hidden), half), _random(50 + me, (share, 2), half)
    generator = torch.Generator().manual_seed(me)
    experts = torch.stack([torch.randperm(pes, generator=generator)[:2] for _ in range(share)])
    weight = _random(100 + me, (hidden, hidden), half)

    def step() -> torch.Tensor:
        order = torch.argsort(experts.reshape(-1), stable=True)
        mine = torch.bincount(experts.reshape(-1), minlength=pes)
        theirs = torch.empty_like(mine)
        dist.all_to_all_single(theirs, mine)
        sent, got = mine.tolist(), theirs.tolist()
        there = torch.empty((sum(got), hidden), dtype=x.dtype)
        dist.all_to_all_single(there, x[order // 2], got, sent)
        back = torch.empty((2 * share, hidden), dtype=x.dtype)
        dist.all_to_all_single(back, there @ weight, sent, got)
        sorted_back = torch.empty_like(back)
        sorted_back[order] = back
        return (sorted_back.reshape(share, 2, hidden) * gates[..., None]).sum(1)

    return step


def _run(step: Step, calls: int) -> Span:
    dist.barrier()
    return timed(step, calls)


def allgather_matmul(calls: int, **sizes: int) -> Span:
    """Gather rows and multiply."""
    return _run(_allgather_matmul(**sizes), calls)


def matmul_allreduce_rmsnorm(calls: int, **sizes: int) -> Span:
    """Multiply, sum, add, normalise."""
    return _run(_matmul_allreduce_rmsnorm(**sizes), calls)


def moe(calls: int, **sizes: int) -> Span:
    """Dispatch, multiply, combine."""
    return _run(_moe(**sizes), calls)


TASKS = {task.__name__: task for task in (allgather_matmul, matmul_allreduce_rmsnorm, moe)}
