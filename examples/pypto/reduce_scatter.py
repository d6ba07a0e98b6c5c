"""ReduceScatter: block p of every PE's rows is added up in PE p's memory.

Run with: emu run -n 8 examples/pypto/reduce_scatter.py
"""

import numpy as np
import pypto

import emu
from emu.pypto.testing import assert_close, random_array

dist = pypto.distributed


@pypto.frontend.jit()
def reduce_scatter(x, out):
    rows, columns = out.shape
    n_pes = x.shape[0] // rows
    me = dist.my_symbolic_pe("tp")
    data = dist.create_shmem_tensor("tp", n_pes, x.dtype, [rows, columns])
    pypto.set_vec_tile_shapes(4, 8)
    for pe in pypto.loop(n_pes):
        block = x[pe * rows : (pe + 1) * rows, :]
        added = dist.shmem_put(block, [0, 0], data, pe, put_op=pypto.AtomicType.ADD)
        # All PEs count in the same slots: the row of slots is a number, not a sender.
        dist.shmem_signal(data, 0, 1, target_pe=pe, sig_op=pypto.AtomicType.ADD, pred=[added])
    all_added = dist.shmem_wait_until(data, 0, n_pes)
    out[:, :] = dist.shmem_get(data, me, pred=[all_added])


def check(dtype, rows=6, columns=10):
    """Run it and compare; return the largest relative error."""
    world = emu.world()
    n_pes, me = world.n_pes, world.my_pe
    inputs = [random_array(pe, (n_pes * rows, columns), dtype) for pe in range(n_pes)]
    out = np.zeros((rows, columns), dtype.np_dtype)
    reduce_scatter(inputs[me], out)
    total = sum(x.astype(np.float64) for x in inputs)
    return assert_close(out, total[me * rows : (me + 1) * rows], n_pes)


if __name__ == "__main__":
    for dtype in (pypto.DT_FP32, pypto.DT_FP16, pypto.DT_BF16, pypto.DT_INT32):
        check(dtype)
    if emu.world().my_pe == 0:
        print(f"reduce_scatter: {emu.world().n_pes} PEs, 4 data types: right")
