"""torch.distributed's gloo as a peer: ``python gloo_worker.py ADDRESS N`` forks N ranks."""

from __future__ import annotations

import functools
import multiprocessing
import os
import sys

os.environ["OMP_NUM_THREADS"] = "1"

# Imported before the fork, once for all ranks; nothing is computed before it.
import torch
import torch.distributed as dist
from ddp_step import ddp_step
from gloo_programs import TASKS
from link import Span, die_with_parent, serve, timed


def rank_main(address: str, rank: int, count: int) -> None:
    """Serve as rank ``rank``."""
    die_with_parent()
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "gloo", init_method=f"file://{address}.gloo", rank=rank, world_size=count
    )

    @functools.cache
    def zeros(nbytes: int, name: str) -> torch.Tensor:
        return torch.zeros(nbytes // 4)

    def all_gather(nbytes: int, calls: int) -> Span:
        source, out = zeros(nbytes // count, "source"), zeros(nbytes, "out")
        dist.barrier()
        return timed(lambda: dist.all_gather_into_tensor(out, source), calls)

    def all_reduce(nbytes: int, calls: int) -> Span:
        """Sum in place, the only form there is."""
        tensor = zeros(nbytes, "tensor")
        dist.barrier()
        return timed(lambda: dist.all_reduce(tensor), calls)

    tasks = {"all_gather": all_gather, "all_reduce": all_reduce, "small_all_reduce": all_reduce}
    tasks["ddp_step"] = ddp_step
    serve(address, rank, tasks | TASKS)


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    ranks = [
        context.Process(target=rank_main, args=(sys.argv[1], rank, int(sys.argv[2])))
        for rank in range(int(sys.argv[2]))
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
