"""Memory pools: tensors that are made in that of symmetric memory are symmetric."""

from __future__ import annotations

import pytest
from distributed_tensors import begin

import emu

pytest.importorskip("torch.distributed")


def run_pools() -> None:
    torch, dist, _ = begin()
    import torch.distributed._symmetric_memory as symm_mem

    rank, n = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(rank)
    left, right = torch.ones(4, 8, device="cuda"), torch.ones(8, 2, device="cuda")
    with torch.cuda.use_mem_pool(symm_mem.get_mem_pool(torch.device("cuda", rank))):
        made = torch.arange(6.0, device="cuda") + 1
        product = torch.mm(left, right)
        view, host = made[2:], torch.ones(3)
    for tensor in (made, product, view):
        assert symm_mem.is_symm_mem_tensor(tensor)
        assert tensor.device == torch.device("cuda", rank)
    assert not symm_mem.is_symm_mem_tensor(host)
    assert not symm_mem.is_symm_mem_tensor(left)
    assert product.eq(8).all()
    assert torch.ops.symm_mem.one_shot_all_reduce(product, "sum", "0").eq(8 * n).all()
    assert torch.ops.symm_mem.one_shot_all_reduce(view, "sum", "0").tolist() == [
        n * each for each in (3.0, 4.0, 5.0, 6.0)
    ]
    with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
        assert not symm_mem.is_symm_mem_tensor(torch.ones(2, device="cuda"))
    assert not symm_mem.is_symm_mem_tensor(torch.ones(2, device="cuda"))


def test_tensors_of_the_pool_are_symmetric() -> None:
    emu.launch(run_pools, 2, preload=["torch"])
