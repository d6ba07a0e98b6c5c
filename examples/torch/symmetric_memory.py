"""A one-shot all-reduce over symmetric memory, written for H100s: every rank reads the memory of all others.

Each rank fills its own buffer, waits for the others in a barrier, adds the buffers in the order of the ranks,
so that all get the same bits, and compares the sum with NumPy's.

Run with: emu run -n 8 examples/torch/symmetric_memory.py
"""

import os

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

ELEMENTS = 4096


def values(rank):
    """Return what a rank contributes: the same numbers on each rank that asks."""
    return np.random.default_rng(rank).standard_normal(ELEMENTS).astype(np.float32)


def one_shot_all_reduce(handle, elements):
    """Return the sum of the first elements of all ranks' buffers."""
    handle.barrier(channel=0)  # everybody has written
    total = torch.zeros(elements, device=handle.device)
    for rank in range(handle.world_size):
        total += handle.get_buffer(rank, (elements,), torch.float32)
    handle.barrier(channel=0)  # everybody has read: buffers may be written again
    return total


def main():
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    ranks = dist.get_world_size()

    buffer = symm_mem.empty(ELEMENTS, dtype=torch.float32, device="cuda")
    handle = symm_mem.rendezvous(buffer, dist.group.WORLD)
    buffer.copy_(torch.from_numpy(values(rank)))
    total = one_shot_all_reduce(handle, ELEMENTS)
    operator = torch.ops.symm_mem.one_shot_all_reduce(buffer, "sum", dist.group.WORLD.group_name)

    expected = np.zeros(ELEMENTS, np.float32)
    for each in range(ranks):
        expected += values(each)
    assert np.array_equal(total.cpu().numpy(), expected)
    assert np.array_equal(operator.cpu().numpy(), expected)
    if rank == 0:
        print(f"{ELEMENTS} elements of {ranks} ranks: the bits of NumPy's sum on each")
    dist.destroy_process_group()


main()
