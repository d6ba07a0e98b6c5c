"""Backends of ``torch.distributed`` and their initialisation."""

from __future__ import annotations

import pytest
from emulated_devices import LOADED_ONCE

import emu
from emu.comm.errors import ArgumentError, CommError

pytest.importorskip("torch.distributed")


def run_initialisations() -> None:
    import emu.accelerator

    emu.accelerator.install()
    import torch
    import torch.distributed as dist

    rank, n = emu.world().my_pe, emu.world().n_pes
    with pytest.raises(ArgumentError, match=rf"rank must be {rank}, .* but got {rank + 5}"):
        dist.init_process_group("nccl", rank=rank + 5, world_size=n)
    with pytest.raises(ArgumentError, match=r"world_size must be 2, .* but got 7"):
        dist.init_process_group("hccl", rank=rank, world_size=7)
    with pytest.raises(ArgumentError, match=r"backend must pair cuda with nccl"):
        dist.init_process_group("cpu:nccl")
    with pytest.raises(ArgumentError, match=r"device_id must be a device of type cuda"):
        dist.init_process_group("nccl", device_id=torch.device("npu", 0))
    assert not dist.is_initialized()
    dist.init_process_group(device_id=torch.device("cuda", 0))
    assert dist.get_backend() == "nccl"
    with pytest.raises(ValueError, match=r"twice"):
        dist.init_process_group("nccl")
    dist.destroy_process_group()


def test_an_initialisation_that_contradicts_the_launch_is_refused() -> None:
    emu.launch(run_initialisations, 2, preload=LOADED_ONCE)


def test_a_process_that_is_no_pe_is_told_how_to_become_one() -> None:
    assert emu.launch(run_without_world, 1, preload=LOADED_ONCE) == [True]


def run_without_world() -> bool:
    import emu.accelerator

    emu.accelerator.install()
    import torch.distributed as dist

    from emu.comm.world.current import set_world

    mine = emu.world()
    set_world(None)  # as in a process that was not launched
    try:
        for backend in ("nccl", "hccl", None):
            with pytest.raises(CommError, match=r"must be called in a PE.*emu run -n N"):
                dist.init_process_group(backend)
    finally:
        set_world(mine)
    return True
