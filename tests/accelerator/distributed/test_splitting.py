"""``split_group``, and device meshes of a process group that is bound to a device, which split it."""

from __future__ import annotations

from typing import Any

import pytest
from emulated_devices import LOADED_ONCE

import emu
from emu.comm.errors import ArgumentError

pytest.importorskip("torch.distributed")


def _begin(backend: str) -> tuple[Any, Any, str]:
    import torch
    import torch.distributed as dist

    import emu.accelerator

    emu.accelerator.install()
    kind = {"nccl": "cuda", "hccl": "npu"}[backend]
    dist.init_process_group(backend, device_id=torch.device(kind, emu.world().my_pe))
    return torch, dist, kind


def _sum_of_ranks(torch: Any, dist: Any, group: Any, kind: str) -> int:
    total = torch.tensor([dist.get_rank()], device=kind)
    dist.all_reduce(total, group=group)
    return int(total.item())


def run_mesh() -> None:
    torch, dist, kind = _begin("nccl")
    rank = dist.get_rank()
    mesh = dist.device_mesh.init_device_mesh(kind, (2, 2), mesh_dim_names=("row", "column"))
    assert list(mesh.get_coordinate()) == [rank // 2, rank % 2]
    row, column = mesh.get_group("row"), mesh.get_group("column")
    assert dist.get_process_group_ranks(row) == [rank % 2, rank % 2 + 2]
    assert dist.get_process_group_ranks(column) == [rank - rank % 2, rank - rank % 2 + 1]
    assert _sum_of_ranks(torch, dist, row, kind) == 2 * (rank % 2) + 2
    assert _sum_of_ranks(torch, dist, column, kind) == 4 * (rank // 2) + 1
    assert dist.get_backend(row) == "nccl"
    assert type(row) is type(dist.group.WORLD)
    dist.destroy_process_group()


def test_the_dimensions_of_a_mesh_are_groups_split_from_that_of_all() -> None:
    emu.launch(run_mesh, 4, preload=LOADED_ONCE)


def run_parts() -> None:
    torch, dist, kind = _begin("nccl")
    rank = dist.get_rank()
    some = dist.split_group(split_ranks=[[3, 1]], group_desc="odd ones")
    assert (some is None) == (rank % 2 == 0)
    if some is not None:
        assert dist.get_process_group_ranks(some) == [1, 3]
        assert some.group_desc == "odd ones"
        assert _sum_of_ranks(torch, dist, some, kind) == 4
        some.get_group_store().set(f"{rank}", "here")
        some.get_group_store().wait(["1", "3"])
    # Two parts of one split, split again: both call their members 0 and 1, and mean others.
    half = dist.split_group(split_ranks=[[0, 1], [2, 3]])
    for turn in range(2):
        pair = dist.split_group(half, split_ranks=[[0, 1]])
        assert dist.get_process_group_ranks(pair) == dist.get_process_group_ranks(half)
        assert _sum_of_ranks(torch, dist, pair, kind) == (1 if rank < 2 else 5), turn
    assert half.comm_split_count() == 2
    alone = dist.split_group(half, split_ranks=[[0], [1]])
    assert _sum_of_ranks(torch, dist, alone, kind) == rank
    everyone = dist.group.WORLD
    with pytest.raises(ArgumentError, match=r"ranks must be in \[0, 4\), but got 4"):
        everyone.split_group([4])
    with pytest.raises(ArgumentError, match=r"distinct and not empty, but got \[1, 1\]"):
        everyone.split_group([1, 1])
    with pytest.raises(
        ArgumentError, match=r"device_types must be some of cuda, but got \['cpu'\]"
    ):
        everyone.split_group([0], device_types=[torch.device("cpu")])
    dist.destroy_process_group()


def run_hccl() -> None:
    torch, dist, kind = _begin("hccl")
    part = dist.group.WORLD.split_group([dist.get_rank()], group_name="mine")
    assert (type(part), part.name(), part.group_name) == (type(dist.group.WORLD), "hccl", "mine")
    value = torch.ones(1, device=kind)
    part.allreduce([value]).wait()
    assert value.item() == 1
    dist.destroy_process_group()


def test_a_group_of_the_other_backend_splits_into_its_like() -> None:
    emu.launch(run_hccl, 2, preload=LOADED_ONCE)


def test_parts_of_groups_are_told_apart() -> None:
    emu.launch(run_parts, 4, preload=LOADED_ONCE)
