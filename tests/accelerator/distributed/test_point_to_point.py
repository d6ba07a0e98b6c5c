"""Messages between two ranks."""

from __future__ import annotations

import numpy as np
import pytest
from distributed_tensors import BF16, begin, given, same
from emulated_devices import LOADED_ONCE
from variants import thorough

import emu

pytest.importorskip("torch.distributed")


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


@pytest.mark.parametrize("n", thorough([2, 3], 3))
def test_messages_arrive_in_order(n: int) -> None:
    emu.launch(run_messages, n, preload=LOADED_ONCE)
