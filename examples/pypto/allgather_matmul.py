"""AllGather+MatMul: rows are multiplied as they arrive.

Run with: emu run -n 8 examples/pypto/allgather_matmul.py
"""

import numpy as np
import pypto

import emu
from emu.pypto.testing import assert_close, random_array

dist = pypto.distributed


@pypto.frontend.jit
def allgather_matmul(x, w, out):
    rows, depth = x.shape
    n_pes = out.shape[0] // rows
    me = dist.my_symbolic_pe("tp")
    data = dist.create_shmem_tensor("tp", n_pes, x.dtype, [n_pes, rows, depth])
    pypto.set_vec_tile_shapes(1, 4, depth)
    pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
    mine = dist.shmem_view(data, [1, rows, depth], [me, 0, 0])
    block = pypto.reshape(x, [1, rows, depth])
    stored = [dist.shmem_put(block, [0, 0, 0], mine, pe) for pe in pypto.loop(n_pes)]
    dist.shmem_signal(mine, me, 1, target_pe=-1, pred=stored)
    for pe in pypto.loop(n_pes):
        part = dist.shmem_view(data, [1, rows, depth], [pe, 0, 0])
        arrived = dist.shmem_wait_until(part, pe, 1)
        gathered = pypto.reshape(dist.shmem_get(part, me, pred=[arrived]), [rows, depth])
        out[pe * rows :, :] = pypto.matmul(gathered, w, out.dtype, b_trans=True)


def check(dtype, rows=6, depth=12, columns=8):
    """Run it and compare; return the largest relative error."""
    world = emu.world()
    n_pes, me = world.n_pes, world.my_pe
    parts = [random_array(pe, (rows, depth), dtype) for pe in range(n_pes)]
    w = random_array(100 + me, (columns, depth), dtype)
    out = np.zeros((n_pes * rows, columns), dtype.np_dtype)
    allgather_matmul(parts[me], w, out)
    expected = np.concatenate(parts).astype(np.float64) @ w.astype(np.float64).T
    return assert_close(out, expected, n_pes)


if __name__ == "__main__":
    for dtype in (pypto.DT_FP32, pypto.DT_FP16, pypto.DT_BF16, pypto.DT_INT32):
        check(dtype)
    if emu.world().my_pe == 0:
        print(f"allgather_matmul: {emu.world().n_pes} PEs, 4 data types: right")
