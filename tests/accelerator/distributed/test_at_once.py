"""``all_reduce`` that runs at once meets calls that take the long way, and is the same for the caller."""

from __future__ import annotations

import numpy as np
import pytest
from distributed_tensors import begin, values

import emu

pytest.importorskip("torch.distributed")


def mixed() -> None:
    torch, dist, on_device = begin("nccl")
    rank, n = dist.get_rank(), dist.get_world_size()
    for turn in range(6):
        x = on_device(np.full((3, 5), rank + turn, np.float32))
        version = x._version
        if (turn + rank) % 2:
            dist.all_reduce(x)
        else:
            dist.all_reduce(x, async_op=True).wait()
        assert (values(x) == sum(range(n)) + n * turn).all()
        assert x._version > version
    # What was deferred before comes first.
    x, y = on_device(np.ones(4, np.float32)), on_device(np.ones(4, np.float32))
    work = dist.all_reduce(x, async_op=True)
    dist.all_reduce(y, op=dist.ReduceOp.MAX)
    assert work.is_completed()
    assert (values(x) == n).all()
    assert (values(y) == 1).all()
    scalar = torch.tensor(float(rank + 1), device="cuda")
    for op, expected in (
        (dist.ReduceOp.MIN, 1),
        (dist.ReduceOp.PRODUCT, 1),
        (dist.ReduceOp.AVG, 1),
    ):
        dist.all_reduce(scalar, op=op)
        assert scalar.item() == expected
    other = dist.new_group(list(range(n)))
    dist.all_reduce(scalar, group=other)
    assert scalar.item() == n


def wrong() -> None:
    torch, dist, on_device = begin("nccl")
    x = on_device(np.ones(4, np.float32))
    with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
        dist.all_reduce(torch.ones(4))
    with pytest.raises(ValueError, match="must be contiguous"):
        dist.all_reduce(x.reshape(2, 2).T)
    with pytest.raises(TypeError, match="not supported for a reduction"):
        dist.all_reduce(x.to(torch.float8_e5m2))
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        dist.all_reduce("x")
    dist.all_reduce(x)
    assert (values(x) == dist.get_world_size()).all()


@pytest.mark.parametrize("program", [mixed, wrong])
def test_all_reduce_at_once(program: object) -> None:
    assert callable(program)
    emu.launch(program, 2, timeout=60)
