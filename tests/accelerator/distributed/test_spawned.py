"""Processes that a script starts with ``torch.multiprocessing`` become PEs."""

from __future__ import annotations

import os
import warnings

import pytest

import emu
import emu.accelerator

torch = pytest.importorskip("torch")
mp = torch.multiprocessing


def work(rank, n, queue, how):
    import torch.distributed as dist

    if how == "alone":
        queue.put((rank, dist.is_initialized(), torch.cuda.device_count()))
        return
    if how == "die" and rank == 1:
        os._exit(3)
    dist.init_process_group("nccl", rank=rank, world_size=n)
    if how == "raise" and rank == 1:
        raise ValueError("bad input")
    torch.cuda.set_device(rank)
    x = torch.ones(2, device="cuda") * (rank + 1)
    dist.all_reduce(x)
    assert emu.world().my_pe == rank
    queue.put((rank, x.tolist(), str(x.device)))
    dist.destroy_process_group()


def start(how, method, **options):
    """Start two processes from this one, which is a PE of another World."""
    warnings.simplefilter("ignore")
    emu.accelerator.install()
    queue = mp.get_context(method).SimpleQueue()
    made = mp.start_processes(work, (2, queue, how), 2, start_method=method, **options)
    return queue, made


def spawned():
    queue, made = start("reduce", "spawn")
    assert made is None
    found = sorted(queue.get() for _ in range(2))
    assert found == [(0, [3.0, 3.0], "cuda:0"), (1, [3.0, 3.0], "cuda:1")]
    assert emu.world().n_pes == 1


def forked():
    queue, context = start("reduce", "fork", join=False)
    while not context.join():
        pass
    assert sorted(queue.get()[1] for _ in range(2)) == [[3.0, 3.0]] * 2


def failing():
    for how, error, text in (
        ("raise", mp.ProcessRaisedException, "ValueError: bad input"),
        ("die", mp.ProcessExitedException, "exit code 3"),
    ):
        with pytest.raises(error, match=text) as raised:
            start(how, "fork")
        assert raised.value.error_index == 1


def without_world():
    queue, _ = start("alone", "fork")
    assert sorted(queue.get() for _ in range(2)) == [(0, False, 2), (1, False, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("check", [spawned, forked, failing, without_world])
def test_spawned_processes_are_pes(check, monkeypatch) -> None:
    monkeypatch.setenv("EMU_DEVICES", "2")
    emu.launch(check, 1, preload=["torch"])
