"""Compiled functions whose collectives take symmetric memory, which the compiled code allocates."""

from __future__ import annotations

import pytest

import emu

pytest.importorskip("torch.distributed")


def run_compiled() -> None:
    import emu.accelerator
    import emu.inductor

    emu.accelerator.install()
    emu.inductor.install()
    import torch
    import torch.distributed as dist
    import torch.distributed._symmetric_memory as symm_mem
    from torch._inductor.utils import run_and_get_code

    from emu.accelerator.device_tags import emulated_device

    dist.init_process_group("nccl")
    rank, n = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(rank)
    places = []
    make = symm_mem._SymmetricMemory.empty_strided_p2p

    def noted(*args: object, **kwargs: object) -> object:
        made = make(*args, **kwargs)
        places.append(emulated_device(made))  # compiled code runs outside of the mode
        return made

    symm_mem._SymmetricMemory.empty_strided_p2p = staticmethod(noted)

    def total(x):
        return torch.ops.symm_mem.one_shot_all_reduce(x * 2, "sum", "0") + 1

    x = torch.full((3, 5), rank + 1.0, device="cuda")
    result, (code,) = run_and_get_code(torch.compile(total, fullgraph=True), x)
    assert "empty_strided_p2p(" in code, code
    assert result.device == x.device
    assert result.eq(n * (n + 1) + 1).all()
    assert places == [x.device], places
    dist.destroy_process_group()


@pytest.mark.slow
def test_compiled_code_allocates_on_the_device_of_its_rank() -> None:
    emu.launch(run_compiled, 2, preload=["torch"])
