"""``all_reduce`` that runs at once meets calls that take the long way, and is the same for the caller."""

from __future__ import annotations

import numpy as np
import pytest
from distributed_tensors import begin, values
from variants import thorough

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


def memory() -> None:
    """Elements are those that a tensor has at the call, whatever lay there before."""
    torch, dist, _ = begin("nccl")
    n = dist.get_world_size()
    for turn in range(3):
        for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.uint8):
            for size in (0, 1, 7, 4096):
                x = torch.full((size,), turn + 1, dtype=dtype, device="cuda")
                dist.all_reduce(x)
                assert x.cpu().tolist() == [n * (turn + 1)] * size
                half = x[size // 2 :]
                dist.all_reduce(half)
                assert half.cpu().tolist() == [n * n * (turn + 1)] * len(half)
                x.untyped_storage().resize_(0)
                x.untyped_storage().resize_(size * x.itemsize)
                dist.all_reduce(x.fill_(2))
                assert x.cpu().tolist() == [2 * n] * size
    turned = torch.full((1,), 1 + 2j, device="cuda").conj().imag
    assert turned.is_neg()
    with pytest.raises((ValueError, RuntimeError), match="neg"):
        dist.all_reduce(turned)


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


@pytest.mark.parametrize("program", thorough([mixed, memory, wrong], wrong))
def test_all_reduce_at_once(program: object) -> None:
    assert callable(program)
    emu.launch(program, 2, timeout=60)
