"""Compiled modules inside of PEs: trained with DDP and with fully_shard, beside the same modules run eagerly."""

from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Callable

import pytest

COMMON = """
    import copy
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel
    from emu.kernels.core.launch_count import Launches

    Launches.are_counted = True
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank)


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.LayerNorm(16))

        def forward(self, x):
            return x + self.body(x)


    def train(model):
        torch.manual_seed(1 + rank)
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.randn(8, 16, device="cuda")).square().mean().backward()
            optimizer.step()


    def modules():
        torch.manual_seed(0)
        return nn.Sequential(Block(), nn.Linear(16, 4)).cuda()
"""
DDP = """
    def wrapped(compiles):
        return DistributedDataParallel(compiles(modules()), device_ids=[rank])
"""
SHARDED = """
    def wrapped(compiles):
        model = modules()
        model[0].body = compiles(model[0].body)
        fully_shard(model[0])
        return fully_shard(model)
"""
CHECK = """
    def whole(parameter):
        return parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter


    eager, compiled = wrapped(lambda module: module), wrapped(torch.compile)
    train(eager)
    assert Launches.count == 0
    train(compiled)
    assert Launches.count >= 4, Launches.count  # two steps, forwards and backwards
    for found, expected in zip(compiled.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(whole(found), whole(expected), rtol=1e-4, atol=1e-5)
    print("trained")
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("wrapping", "workers"), [(DDP, 2), (SHARDED, 1)], ids=["ddp", "fully_shard"]
)
def test_compiled_modules_train_on_pes(
    run_alone: Callable[..., subprocess.CompletedProcess[str]], wrapping: str, workers: int
) -> None:
    text = "".join(map(textwrap.dedent, (COMMON, wrapping, CHECK)))
    found = run_alone(text, "-m", "emu", "run", "-n", "2", workers=workers, timeout=300)
    assert found.returncode == 0, found.stderr
    assert sorted(line for line in found.stdout.splitlines() if "trained" in line) == [
        "[0] trained",
        "[1] trained",
    ]
