"""AllGather: every PE stores its rows to every PE and signals them tile by tile.

Run with: emu run -n 8 examples/pypto/allgather.py
"""

import numpy as np
import pypto

import emu
from emu.pypto.testing import assert_close, random_array

dist = pypto.distributed


@pypto.frontend.jit
def all_gather(
    x: pypto.Tensor([pypto.DYNAMIC, pypto.DYNAMIC]),
    out: pypto.Tensor([pypto.DYNAMIC, pypto.DYNAMIC]),
):
    rows, columns = x.shape
    n_pes = out.shape[0] // rows
    me = dist.my_symbolic_pe("tp")
    data = dist.create_shmem_tensor("tp", n_pes, x.dtype, [n_pes * rows, columns])
    pypto.set_vec_tile_shapes(4, columns)
    for pe in pypto.loop(n_pes, name="send", idx_name="pe"):
        stored = dist.shmem_put(x, [me * rows, 0], data, pe)
        mine = dist.shmem_view(data, [rows, columns], [me * rows, 0])
        dist.shmem_signal(mine, me, 1, target_pe=pe, pred=[stored])
    for pe in pypto.loop(n_pes, name="receive", idx_name="pe"):
        part = dist.shmem_view(data, [rows, columns], [pe * rows, 0])
        arrived = dist.shmem_wait_until(part, pe, 1)
        out[pe * rows :, :] = dist.shmem_get(part, me, pred=[arrived])


def check(dtype, rows=6, columns=10):
    """Run it and compare; return the largest relative error."""
    world = emu.world()
    parts = [random_array(pe, (rows, columns), dtype) for pe in range(world.n_pes)]
    expected = np.concatenate(parts)
    out = np.zeros_like(expected)
    all_gather(parts[world.my_pe], out)
    np.testing.assert_array_equal(out, expected)  # nothing is computed, so nothing rounds
    return assert_close(out, expected, world.n_pes)


if __name__ == "__main__":
    for dtype in (pypto.DT_FP32, pypto.DT_FP16, pypto.DT_BF16, pypto.DT_INT32):
        check(dtype)
    if emu.world().my_pe == 0:
        print(f"allgather: {emu.world().n_pes} PEs, 4 data types: right")
