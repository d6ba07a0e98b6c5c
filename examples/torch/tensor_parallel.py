"""A row-parallel linear layer written for CUDA and NCCL, as `torchrun` would start it.

Every rank holds some of the layer's input features; the partial products are summed by an all-reduce.
The result, and the gradients of the rank's own weights, are those of the whole layer on one device.

Run with: emu run -n 4 examples/torch/tensor_parallel.py
"""

import os

import torch
import torch.distributed as dist
from torch import nn

BATCH, INPUT, OUTPUT = 32, 256, 64


class RowParallelLinear(nn.Module):
    """`whole`, of which this rank keeps an equal share of the columns of the weights."""

    def __init__(self, whole, rank, ranks):
        super().__init__()
        self.weight = nn.Parameter(whole.weight.detach().chunk(ranks, dim=1)[rank].clone())
        self.bias = nn.Parameter(whole.bias.detach().clone())

    def forward(self, share):
        partial = nn.functional.linear(share, self.weight)
        total = partial.detach().clone()
        dist.all_reduce(total)
        # The other ranks' part is a constant here: each rank's gradient is that of its own part.
        return partial + (total - partial.detach()) + self.bias


def main():
    rank = int(os.environ["RANK"])
    device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}")
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    ranks = dist.get_world_size()

    torch.manual_seed(0)  # the same whole layer and batch everywhere
    whole = nn.Linear(INPUT, OUTPUT)
    batch = torch.randn(BATCH, INPUT)
    layer = RowParallelLinear(whole, rank, ranks).to(device)
    result = layer(batch.chunk(ranks, dim=1)[rank].to(device))
    result.square().sum().backward()

    expected = whole(batch)
    expected.square().sum().backward()
    gradient = whole.weight.grad.chunk(ranks, dim=1)[rank]
    assert result.is_cuda
    torch.testing.assert_close(result.detach().cpu(), expected.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(layer.weight.grad.cpu(), gradient, rtol=1e-4, atol=1e-3)
    torch.cuda.synchronize()
    if rank == 0:
        print(f"{INPUT}x{OUTPUT} over {ranks} {device.type} devices: as on one, gradients too")
    dist.destroy_process_group()


main()
