"""Fused operators on tensors of emulated devices: what comes back is there too, and nothing else is let in."""

from __future__ import annotations

import numpy as np
import pytest

import emu
from emu import torch_npu
from emu.comm.errors import ArgumentError

pytest.importorskip("torch")


def on_device():
    """Return this PE's number and torch, which from now on emulates devices."""
    import torch

    import emu.accelerator

    emu.accelerator.install()
    me = emu.world().my_pe
    return me, torch, f"npu:{me}"


def run_dense():
    me, torch, device = on_device()
    x = torch.full((4, 6), me + 1.0, dtype=torch.bfloat16).to(device)
    w = torch.eye(6, dtype=torch.bfloat16, device=device)
    results = [
        *torch_npu.npu_all_gather_base_mm(x, w, "world", 2, bias=w[0]),
        *torch_npu.npu_all_gather_base_mm(x, w.t(), "world", 2, gather_output=False),
        torch_npu.npu_mm_reduce_scatter_base(x, w, "world", 2),
        torch_npu.npu_mm_all_reduce_base(x, w, "world", x3=x),
        torch_npu.npu_matmul_all_to_all(x, w, "world", 2),
        torch_npu.npu_all_to_all_matmul(x, torch.cat([w, w]), "world", 2),
    ]
    assert [str(y.device) for y in results] == [device] * len(results)
    assert results[1].cpu().float()[:, 0].tolist() == [1.0] * 4 + [2.0] * 4
    assert (results[4].cpu() == 3).all()
    assert (results[5] == 6).all()

    residual = torch.ones(4, 6, dtype=torch.bfloat16, device=device)
    y, normal = torch_npu.npu_mm_all_reduce_add_rms_norm_(x, w, residual, w[0] + 1, "world")
    assert y is residual
    assert str(y.device) == str(normal.device) == device
    assert (residual.cpu() == 4).all()
    assert normal.cpu()[0].tolist() == [2.0, 1.0, 1.0, 1.0, 1.0, 1.0]

    for broken, text in (
        ({"bias": w[0].cpu()}, f"bias must be on {device} as input is, but got a tensor on cpu"),
        ({"x2": w.to(f"npu:{1 - me}")}, f"x2 must be on {device}"),
        ({"x2": w.to("cuda:0")}, "x2 must be on npu"),
        ({"input": x.cpu(), "x2": w.cpu()}, "input must be on an emulated device"),
    ):
        given = {"input": x, "x2": w, "hcom": "world", "world_size": 2, **broken}
        with pytest.raises(ArgumentError, match=text):
            torch_npu.npu_all_gather_base_mm(**given)
    return True


def test_results_of_products_are_on_the_device_of_the_operands():
    assert all(emu.launch(run_dense, 2, timeout=60, preload=["torch"]))


def run_layer():
    """A layer of experts as scripts write it, which hand each result to the next operator."""
    me, torch, device = on_device()
    x = torch.arange(4 * 8, dtype=torch.float16).reshape(4, 8).to(device) / 8
    ids = torch.tensor([[0, 3], [1, 2], [2, 0], [3, 1]], dtype=torch.int32, device=device)
    gates = torch.full((4, 2), 0.5, device=device)
    place = ("world", 2, me, 4)
    sent = torch_npu.npu_moe_distribute_dispatch(x, ids, *place)
    assert [str(y.device) for y in sent] == [device] * 7
    rows, _, index, _, counts, tp_counts, expand_scales = sent
    y = torch_npu.npu_moe_distribute_combine(
        rows, ids, index, counts, gates, *place, tp_send_counts=tp_counts,
        expand_scales=expand_scales,
    )  # fmt: skip
    assert str(y.device) == device
    assert torch.equal(y, x)

    weight = torch.eye(8, dtype=torch.float16, device=device).repeat(2, 1, 1)
    products, _, moved = torch_npu.npu_alltoallv_gmm(
        x, weight, "world", 2, [1] * 4, [1] * 4, permute_out_flag=True
    )
    assert torch.equal(products, moved)
    back, nothing = torch_npu.npu_gmm_alltoallv(products, weight, "world", 2, [1] * 4, [1] * 4)
    assert nothing is None
    assert str(back.device) == device
    assert torch.equal(back, x)
    numbers = torch.ones(4, dtype=torch.int64)
    again = torch_npu.npu_alltoallv_gmm(x, weight, "world", 2, numbers.to(device), numbers)
    assert torch.equal(again[0], products)
    with pytest.raises(ArgumentError, match="ep_send_counts must be on npu"):
        torch_npu.npu_moe_distribute_combine(rows, ids, index, counts.cpu(), gates, *place)
    assert np.all(y.cpu().numpy() == x.cpu().numpy())
    return True


def test_a_layer_of_experts_stays_on_its_device():
    assert all(emu.launch(run_layer, 2, timeout=60, preload=["torch"]))
