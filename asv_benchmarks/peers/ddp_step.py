"""A step of training with DistributedDataParallel, the same for gloo's ranks and for our PEs."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import torch.distributed as dist
from link import Span, timed
from torch.nn.parallel import DistributedDataParallel

WIDTH, LAYERS, ROWS = 1024, 4, 64


@functools.cache
def make_step(device: str) -> Callable[[], float]:
    """Return a step of a model of 16 MiB of fp32 parameters; that its parameters stay equal on all ranks is checked.

    Args:
        device: Where the model lies, ``"cpu"`` or ``"cuda"``; the process group must have been initialised.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = [torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(1 + dist.get_rank())
    rows = torch.randn(ROWS, WIDTH, generator=generator).to(device)

    def step() -> float:
        optimizer.zero_grad()
        loss = model(rows).square().mean()
        loss.backward()
        optimizer.step()
        return float(loss)

    for _ in range(2):
        step()
    first = next(model.parameters()).detach()
    highest, lowest = first.clone(), first.clone()
    dist.all_reduce(highest, dist.ReduceOp.MAX)
    dist.all_reduce(lowest, dist.ReduceOp.MIN)
    if not torch.equal(highest, lowest):
        raise AssertionError("the ranks' parameters differ")
    return step


def ddp_step(calls: int, device: str = "cpu") -> Span:
    """All ranks train."""
    step = make_step(device)
    dist.barrier()
    return timed(step, calls)
