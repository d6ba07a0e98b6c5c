"""One-shot AllReduce: everyone adds to everyone's memory.

Run with: emu run -n 8 examples/pypto/allreduce_one_shot.py
"""

import numpy as np
import pypto

import emu
from emu.pypto.testing import assert_close, random_array

dist = pypto.distributed


@pypto.frontend.jit
def all_reduce(x, out, n_pes):
    me = dist.my_symbolic_pe("tp")
    data = dist.create_shmem_tensor("tp", n_pes, x.dtype, list(x.shape))
    pypto.set_vec_tile_shapes(4, 8)
    added = [
        dist.shmem_put(x, [0, 0], data, pe, put_op=pypto.AtomicType.ADD) for pe in pypto.loop(n_pes)
    ]
    dist.shmem_signal(data, 0, 1, target_pe=-1, sig_op=pypto.AtomicType.ADD, pred=added)
    all_added = dist.shmem_wait_until(data, 0, n_pes)
    out[:, :] = dist.shmem_get(data, me, pred=[all_added])


def check(dtype, rows=6, columns=10):
    """Run it and compare; return the largest relative error."""
    world = emu.world()
    inputs = [random_array(pe, (rows, columns), dtype) for pe in range(world.n_pes)]
    out = np.zeros((rows, columns), dtype.np_dtype)
    all_reduce(inputs[world.my_pe], out, world.n_pes)
    return assert_close(out, sum(x.astype(np.float64) for x in inputs), world.n_pes)


if __name__ == "__main__":
    for dtype in (pypto.DT_FP32, pypto.DT_FP16, pypto.DT_BF16, pypto.DT_INT32):
        check(dtype)
    if emu.world().my_pe == 0:
        print(f"allreduce_one_shot: {emu.world().n_pes} PEs, 4 data types: right")
