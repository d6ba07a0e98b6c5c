"""A heat equation on a ring, written with NVSHMEM4Py for GPUs: each rank puts its edges beside its neighbours' strips.

A strip has one more cell at each end, for the neighbour's edge. In each step a rank puts its edges, each with a
signal, waits for both of its neighbours', and advances. Two strips take turns, so that nobody overwrites what a
neighbour still reads. The result is NumPy's on the whole ring, bit by bit.

Run with: emu run -n 4 examples/torch/nvshmem_halo.py
"""

import os

import numpy as np
import nvshmem.core as nvshmem
import torch

CELLS, STEPS = 256, 20
LEFT, RIGHT = 0, 1


def advance(cells):
    """Return the inner cells after one step; for tensors and for arrays."""
    return cells[1:-1] + 0.25 * (cells[:-2] - 2 * cells[1:-1] + cells[2:])


def start(ranks):
    """Return the whole ring before the first step."""
    return np.random.default_rng(0).standard_normal(ranks * CELLS).astype(np.float32)


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    nvshmem.init(initializer_method="mpi")
    rank, ranks = nvshmem.my_pe(), nvshmem.n_pes()
    left, right = (rank - 1) % ranks, (rank + 1) % ranks
    stream = torch.cuda.current_stream()

    strips = nvshmem.tensor((2, CELLS + 2), dtype=torch.float32)
    arrived = nvshmem.tensor(
        2, dtype=torch.int64
    )  # how many edges came from the left, and from the right
    arrived.zero_()
    strips[0, 1:-1] = torch.from_numpy(start(ranks)[rank * CELLS : (rank + 1) * CELLS])
    nvshmem.barrier_all(stream=stream)

    add = nvshmem.SignalOp.SIGNAL_ADD
    from_left, from_right = (
        nvshmem.tensor_get_buffer(arrived[side : side + 1])[0] for side in (LEFT, RIGHT)
    )
    for step in range(STEPS):
        now, after = strips[step % 2], strips[(step + 1) % 2]
        nvshmem.put_signal(now[-1:], now[1:2], from_right, 1, add, remote_pe=left, stream=stream)
        nvshmem.put_signal(now[:1], now[-2:-1], from_left, 1, add, remote_pe=right, stream=stream)
        for word in (from_left, from_right):
            nvshmem.signal_wait(word, step + 1, nvshmem.ComparisonType.CMP_GE, stream=stream)
        after[1:-1] = advance(now)

    total = nvshmem.tensor(ranks * CELLS)
    mine = nvshmem.tensor(CELLS)
    mine.copy_(strips[STEPS % 2, 1:-1])
    nvshmem.fcollect(nvshmem.Teams.TEAM_WORLD, total, mine, stream=stream)

    expected = start(ranks)
    for _ in range(STEPS):
        expected = advance(np.concatenate([expected[-1:], expected, expected[:1]]))
    assert np.array_equal(total.cpu().numpy(), expected)
    if rank == 0:
        print(f"{ranks * CELLS} cells after {STEPS} steps: the bits of NumPy's on each rank")
    for each in (strips, arrived, total, mine):
        nvshmem.free_tensor(each)
    nvshmem.finalize()


main()
