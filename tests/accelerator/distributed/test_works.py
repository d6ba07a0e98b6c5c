"""Deferred operations of ``torch.distributed``."""

from __future__ import annotations

from typing import Any

import pytest
from distributed_tensors import begin
from emulated_devices import LOADED_ONCE
from variants import thorough

import emu

pytest.importorskip("torch.distributed")


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


@pytest.mark.parametrize("n", thorough([2, 4], 2))
def test_work_is_kept_back_until_it_is_needed(n: int) -> None:
    emu.launch(run_deferred, n, preload=LOADED_ONCE)
