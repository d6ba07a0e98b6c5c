"""Processes that a program starts itself become PEs when they make a group by an address or a store."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import warnings
from datetime import timedelta

import numpy as np
import pytest

import emu
import emu.accelerator
from emu.comm.errors import ArgumentError, CommError, PEDiedError, PeerFailedError

torch = pytest.importorskip("torch")
mp = torch.multiprocessing

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="they find each other by /proc")


def prepare():
    """Prepare a PE that starts processes, as `emu run` does."""
    warnings.simplefilter("ignore")  # of forks where there are threads
    os.environ.pop("EMU_DEVICES", None)
    emu.accelerator.install()


def report(function, queue, rank, args):
    queue.put((rank, function(rank, *args)))


def run(function, *args, ranks=(0, 1), method="fork"):
    """Return what a function returns in processes of their own, by rank, and their exit statuses."""
    context = mp.get_context(method)
    queue = context.SimpleQueue()
    started = [context.Process(target=report, args=(function, queue, rank, args)) for rank in ranks]
    for each in started:
        each.start()
    for each in started:
        each.join()
    found = {}
    while not queue.empty():
        rank, value = queue.get()
        found[rank] = value
    return found, [each.exitcode for each in started]


def in_all(function, *args, **options):
    found, statuses = run(function, *args, **options)
    assert not any(statuses)
    return found


def total(rank):
    """Sum over the ranks on this one's device, in memory that they share as well."""
    import torch.distributed as dist
    import torch.distributed._symmetric_memory as symm_mem

    n = dist.get_world_size()
    x = torch.full((2,), rank + 1.0, device=f"cuda:{rank}")
    dist.all_reduce(x)
    mine = symm_mem.empty(2, device=f"cuda:{rank}")
    handle = symm_mem.rendezvous(mine, dist.group.WORLD)
    mine.fill_(rank)
    handle.barrier()
    there = handle.get_buffer((rank + 1) % n, (2,), torch.float32).tolist()
    handle.barrier()
    assert there == [(rank + 1) % n] * 2
    assert emu.world().my_pe == rank
    return x.tolist(), torch.cuda.device_count()


def by_method(rank, n, method):
    import torch.distributed as dist

    torch.cuda.set_device(rank)  # before it is known how many there will be
    torch.randn(2, device="cuda")
    dist.init_process_group("nccl", init_method=method, rank=rank, world_size=n)
    found = total(rank)
    dist.destroy_process_group()
    return found


def by_environment(rank, n):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(n))
    import torch.distributed as dist

    dist.init_process_group()
    return total(rank)


def by_store(rank, n, path):
    import torch.distributed as dist

    dist.init_process_group("nccl", store=dist.FileStore(path, n), rank=rank, world_size=n)
    return total(rank)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_way(folder, way):
    prepare()
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    function, *args = {
        "file": (by_method, f"file://{folder}/a"),
        "tcp": (by_method, f"tcp://127.0.0.1:{free_port()}"),
        "store": (by_store, f"{folder}/a"),
        "environment": (by_environment,),
    }[way]
    for n in (1, 3):  # one after the other in the same place
        found = in_all(function, n, *args, ranks=range(n))
        assert found == dict.fromkeys(range(n), ([n * (n + 1) / 2] * 2, n))
    assert emu.world().n_pes == 1


@pytest.mark.parametrize("way", ["file", "tcp", "store", "environment"])
def test_processes_with_an_address_or_a_store_are_pes(way, tmp_path) -> None:
    emu.launch(run_way, 1, args=(str(tmp_path), way), preload=["torch"])


def run_spawned(folder):
    prepare()
    for method in ("spawn", "forkserver"):
        found = in_all(by_method, 2, f"file://{folder}/{method}", method=method)
        assert found == dict.fromkeys(range(2), ([3.0, 3.0], 2))


@pytest.mark.slow
def test_it_does_not_matter_how_they_are_started(tmp_path, monkeypatch) -> None:
    from emu.commands import stand_ins

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([stand_ins.FOLDER, *filter(None, sys.path)]))
    emu.launch(run_spawned, 1, args=(str(tmp_path),), preload=["torch"])


SCRIPT = """
import os, torch, torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
x = torch.ones(2, device="cuda")
dist.all_reduce(x)
assert x.tolist() == [2, 2] and torch.cuda.device_count() == 2
if dist.get_rank() == 1:
    raise ValueError("bad input")
dist.barrier()
"""


@pytest.mark.slow
def test_programs_that_subprocess_starts_are_pes(monkeypatch) -> None:
    from emu.commands import stand_ins

    monkeypatch.delenv("EMU_DEVICES", raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([stand_ins.FOLDER, *filter(None, sys.path)]))
    several = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, **several, "RANK": rank, "LOCAL_RANK": rank},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in "01"
    ]
    errors = [each.communicate()[1] for each in started]
    assert "has failed: ValueError: bad input" in errors[0]
    assert "ValueError: bad input" in errors[1]


def again_and_again(rank, path):
    """Make groups one after the other: with the same store, and of fewer ranks, in another order."""
    import torch.distributed as dist

    found = []
    for _ in range(2):
        dist.init_process_group("nccl", store=dist.FileStore(path, 6), rank=rank, world_size=3)
        found.append(total(rank)[0][0])
        dist.destroy_process_group()
    if rank:
        new = 2 - rank
        dist.init_process_group("nccl", init_method=f"file://{path}-2", rank=new, world_size=2)
        found.append(total(new)[0][0])
        alone = [dist.new_group([member]) for member in range(2)][new]
        x = torch.ones(1, device="cuda")
        dist.all_reduce(x, group=alone)
        found.append(x.item())
    return found


def run_again(folder):
    prepare()
    found = in_all(again_and_again, f"{folder}/a", ranks=(0, 1, 2))
    assert found == {0: [6.0, 6.0], 1: [6.0, 6.0, 3.0, 1.0], 2: [6.0, 6.0, 3.0, 1.0]}


def test_processes_make_one_group_after_the_other(tmp_path) -> None:
    emu.launch(run_again, 1, args=(str(tmp_path),), preload=["torch"])


def in_pairs(rank, folder):
    """Make two groups of two at the same time."""
    pair, place = divmod(rank, 2)
    return by_method(place, 2, f"file://{folder}/{pair}")[0][0] + 10 * pair


def run_pairs(folder):
    prepare()
    assert in_all(in_pairs, folder, ranks=range(4)) == {0: 3.0, 1: 3.0, 2: 13.0, 3: 13.0}


def test_groups_of_other_processes_are_others(tmp_path) -> None:
    emu.launch(run_pairs, 1, args=(str(tmp_path),), preload=["torch"])


def linked(rank, path):
    """Make a group whose World takes its options from the environment."""
    import torch.distributed as dist

    os.environ.update(EMU_LINK="1GB/s,1us", EMU_POISON="1")
    dist.init_process_group("nccl", init_method=f"file://{path}", rank=rank, world_size=2)
    world = emu.world()
    poisoned = bool(np.isnan(world.alloc(2, np.float32).local).all())
    return type(world).__name__, world.segment.link.bandwidth, poisoned, total(rank)[0]


def run_linked(folder):
    prepare()
    expected = ("LinkedWorld", 1e9, True, [3.0, 3.0])
    assert in_all(linked, f"{folder}/a") == {0: expected, 1: expected}


def test_processes_take_a_link_from_the_environment(tmp_path) -> None:
    emu.launch(run_linked, 1, args=(str(tmp_path),), preload=["torch"])


def ends_early(rank, path, how):
    import torch.distributed as dist

    dist.init_process_group("nccl", init_method=f"file://{path}", rank=rank, world_size=3)
    if rank == 0 and how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 0:
        raise ValueError("bad input")
    try:
        dist.all_reduce(torch.ones(1, device=f"cuda:{rank}"))
    except CommError as error:
        return type(error), str(error)


def run_deaths(folder):
    prepare()
    sys.stderr = io.StringIO()  # of the children, which print tracebacks
    for how, kind, text, status in (
        ("die", PEDiedError, "has ended before it had finished", -9),
        ("raise", PeerFailedError, "has failed: ValueError: bad input", 1),
    ):
        found, statuses = run(ends_early, f"{folder}/{how}", how, ranks=(0, 1, 2))
        assert [found[rank][0] for rank in (1, 2)] == [kind] * 2
        assert text in found[1][1]
        assert statuses == [status, 0, 0]


def test_an_end_too_early_ends_the_waits_of_the_others(tmp_path) -> None:
    emu.launch(run_deaths, 1, args=(str(tmp_path),), preload=["torch"])


def refusal(**given):
    import torch.distributed as dist

    if "path" in given:
        given["store"] = dist.FileStore(given.pop("path"), 2)
    with pytest.raises((CommError, ValueError, dist.DistStoreError)) as raised:
        dist.init_process_group("nccl", timeout=timedelta(seconds=2), **given)
    assert not dist.is_initialized()
    return type(raised.value).__name__, str(raised.value)


def refused_alone(rank, path):
    import torch.distributed as dist

    for given, text in (
        ({"rank": 2, "world_size": 2}, r"rank must be in \[0, 2\), but got 2"),
        ({"rank": -1, "world_size": 2}, r"rank must be in \[0, 2\), but got -1"),
        ({"rank": 0, "world_size": 0}, r"world_size must be in \[1, 1024\], but got 0"),
        ({"rank": 0, "world_size": 2000}, r"world_size must be in \[1, 1024\], but got 2000"),
        ({"rank": "0", "world_size": 2}, "rank must be a whole number, but got '0'"),
    ):
        with pytest.raises(ArgumentError, match=text):
            dist.init_process_group("nccl", store=dist.FileStore(path, 2), **given)
    store = dist.FileStore(path, 2)
    with pytest.raises(ArgumentError, match="init_method must be None with a store"):
        dist.init_process_group("nccl", "env://", store=store, rank=0, world_size=1)
    with pytest.raises(ArgumentError, match=r"rank must be in \[0, 2\), but got 5"):
        dist.init_process_group("nccl", f"file://{path}", rank=5, world_size=2)
    with pytest.raises(ValueError, match="rank parameter missing"):
        dist.init_process_group("nccl", f"file://{path}", world_size=2)
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"):
        os.environ.pop(name, None)
    with pytest.raises(CommError, match="must be called in a PE, or with what lets"):
        dist.init_process_group("nccl")
    with pytest.raises(ValueError, match="MASTER_ADDR expected, but not set"):
        dist.init_process_group("nccl", rank=0, world_size=2)
    kind, text = refusal(path=path, rank=1, world_size=2)
    assert kind == "DistStoreError"
    assert "rank 0 of 2 must call init_process_group with the same store within 0:00:02" in text
    return True


def with_other_size(rank, path):
    import torch.distributed as dist

    store = dist.FileStore(path, 2)
    if rank:
        return refusal(store=store, rank=1, world_size=3)
    dist.init_process_group("nccl", store=store, rank=0, world_size=2)
    try:
        dist.all_reduce(torch.ones(1, device="cuda"))
    except CommError as error:
        return type(error).__name__, str(error)


def with_same_rank(rank, path):
    import torch.distributed as dist

    store = dist.FileStore(path, 2)
    if rank:
        store.wait(["first"])
        found = refusal(store=store, rank=0, world_size=1)
        store.set("second", "")
        return found[1]
    dist.init_process_group("nccl", store=store, rank=0, world_size=1)
    store.set("first", "")
    store.wait(["second"])


def run_refusals(folder):
    prepare()
    assert in_all(refused_alone, f"{folder}/a", ranks=(0,)) == {0: True}
    found = in_all(with_other_size, f"{folder}/b")
    text = "world_size must be 2, as rank 0 has it, but got 3"
    assert found[1] == ("ArgumentError", text)
    assert found[0] == ("PeerFailedError", f"rank 1 has not joined: {text}")
    found = in_all(with_same_rank, f"{folder}/c")
    assert "rank must be one that no other process has, but got 0, which process" in found[1]


def test_ranks_that_cannot_be_are_refused(tmp_path) -> None:
    emu.launch(run_refusals, 1, args=(str(tmp_path),), preload=["torch"])


def without_memory(rank, path):
    from emu.accelerator.distributed import joining
    from emu.comm.errors import SymmetricMemoryError

    def refuse(n_pes):
        raise SymmetricMemoryError("no memory")

    joining.host = refuse
    return refusal(path=path, rank=rank, world_size=2)


def run_without_memory(folder):
    prepare()
    found = in_all(without_memory, f"{folder}/a")
    assert found[0] == ("SymmetricMemoryError", "no memory")
    assert found[1] == ("CommError", "rank 0 could not make a World: no memory")


def test_what_rank_0_cannot_make_ends_the_others(tmp_path) -> None:
    emu.launch(run_without_memory, 1, args=(str(tmp_path),), preload=["torch"])


def in_child_of_spawned(rank, path):
    """Be a process that one of torch.multiprocessing.spawn has forked."""
    return by_method(rank, 2, f"file://{path}")[0]


def spawned(rank, folder, queue):
    queue.put(in_all(in_child_of_spawned, f"{folder}/{rank}"))


def run_below_spawned(folder):
    prepare()
    queue = mp.get_context("fork").SimpleQueue()
    mp.start_processes(spawned, (folder, queue), 2, start_method="fork")
    assert [queue.get() for _ in range(2)] == [{0: [3.0, 3.0], 1: [3.0, 3.0]}] * 2


def test_a_process_forked_from_an_invited_one_is_not_invited(tmp_path) -> None:
    emu.launch(run_below_spawned, 1, args=(str(tmp_path),), preload=["torch"])


def devices_of_child(rank):
    assert torch.cuda.device_count() == 1
    for kind in ("cuda", "npu"):
        assert torch.ones(2, device=f"{kind}:{rank}").sum().item() == 2
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            getattr(torch, kind).set_device(1024)
    torch.rand(2, device="cuda:7")
    os.environ["EMU_DEVICES"] = "2"
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ones(2, device="cuda:5")
    return True


def run_devices():
    prepare()
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ones(2, device="cuda:1")  # a PE knows how many there are
    assert in_all(devices_of_child, ranks=(5,)) == {5: True}


def test_a_child_may_use_any_device_unless_their_number_is_given() -> None:
    emu.launch(run_devices, 1, preload=["torch"])
