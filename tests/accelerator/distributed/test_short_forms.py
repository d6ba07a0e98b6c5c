"""Methods of a process group with one tensor, and the root or the operation, instead of lists and options."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from distributed_tensors import begin, combine, everything, given, same

import emu

pytest.importorskip("torch.distributed")


def run_short_forms() -> None:
    torch, dist, on_device = begin("nccl")
    rank, n = dist.get_rank(), dist.get_world_size()
    group = dist.group.WORLD
    ops = dist.ReduceOp
    timeout = datetime.timedelta(seconds=9)
    mine, every = given(rank, (2, 3)), everything(n, (2, 3))

    def zeros(*shape: int) -> object:
        return torch.zeros(*shape, device="cuda")

    x = on_device(mine)
    group.broadcast(x, n - 1).wait()
    same(x, given(n - 1, (2, 3)))
    x = on_device(mine)
    group.broadcast(tensor=x, root=0, timeout=timeout).wait()
    same(x, given(0, (2, 3)))
    for call in (lambda x: group.allreduce(x), lambda x: group.allreduce([x], ops.SUM)):
        x = on_device(mine)
        call(x).wait()
        same(x, combine("SUM", every))
    x = on_device(mine)
    group.allreduce(x, op=ops.MAX, timeout=timeout).wait()
    same(x, combine("MAX", every))
    x = on_device(mine)
    group.reduce(x, 0, ops.MIN).wait()
    same(x, combine("MIN", every) if rank == 0 else mine)
    rows = [zeros(2, 3) for _ in range(n)]
    group.allgather(rows, on_device(mine)).wait()
    same(torch.stack(rows), np.stack(list(every)))
    rows = [zeros(2, 3) for _ in range(n)] if rank == 1 % n else []
    group.gather(rows, on_device(mine), 1 % n).wait()
    if rank == 1 % n:
        same(torch.stack(rows), np.stack(list(every)))
    out = zeros(2, 3)
    parts = [on_device(given(p, (2, 3), seed=5)) for p in range(n)] if rank == 0 else []
    group.scatter(out, parts, root=0).wait()
    same(out, given(rank, (2, 3), seed=5))
    out = zeros(3)
    group.reduce_scatter(out, [on_device(given(rank, 3, seed=p)) for p in range(n)], ops.SUM).wait()
    same(out, combine("SUM", everything(n, 3, seed=rank)))
    group.barrier().wait()
    x = on_device(mine)
    for wrong in (1.5, True, "0", None):
        with pytest.raises(TypeError, match="root must be an int, but got"):
            group.broadcast(x, wrong)
    with pytest.raises(TypeError):
        group.broadcast(x)
    same(x, mine)
    with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
        dist.all_reduce(torch.zeros(2))
    dist.destroy_process_group()


@pytest.mark.parametrize("n_pes", [1, 3])
def test_one_tensor_and_a_root_or_an_operation(n_pes: int) -> None:
    emu.launch(run_short_forms, n_pes)
