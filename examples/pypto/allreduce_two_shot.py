"""Two-shot AllReduce: PE p sums share p, then stores the sum to everyone.

Run with: emu run -n 8 examples/pypto/allreduce_two_shot.py
"""

import numpy as np
import pypto

import emu
from emu.pypto.testing import assert_close, random_array

dist = pypto.distributed


@pypto.frontend.jit
def all_reduce(x, out, n_pes):
    rows, columns = x.shape
    share = rows // n_pes
    me = dist.my_symbolic_pe("tp")
    sums = dist.create_shmem_tensor("tp", n_pes, x.dtype, [share, columns])
    done = dist.create_shmem_tensor("tp", n_pes, x.dtype, [rows, columns])
    pypto.set_vec_tile_shapes(2, columns)
    for pe in pypto.loop(n_pes):
        block = pypto.view(x, [share, columns], [pe * share, 0])
        added = dist.shmem_put(block, [0, 0], sums, pe, put_op=pypto.AtomicType.ADD)
        dist.shmem_signal(sums, 0, 1, target_pe=pe, sig_op=pypto.AtomicType.ADD, pred=[added])
    summed = dist.shmem_wait_until(sums, 0, n_pes, clear_signal=True)
    own = dist.shmem_get(sums, me, pred=[summed])
    for pe in pypto.loop(n_pes):
        stored = dist.shmem_put(own, [me * share, 0], done, pe)
        dist.shmem_signal(
            done, me, 1, [share, columns], [me * share, 0], target_pe=pe, pred=[stored]
        )
    for pe in pypto.loop(n_pes):
        place = [pe * share, 0]
        arrived = dist.shmem_wait_until(done, pe, 1, [share, columns], place)
        out[pe * share :, :] = dist.shmem_get(done, me, [share, columns], place, pred=[arrived])


def check(dtype, share=3, columns=10):
    """Run it and compare; return the largest relative error."""
    world = emu.world()
    shape = (share * world.n_pes, columns)
    inputs = [random_array(pe, shape, dtype) for pe in range(world.n_pes)]
    out = np.zeros(shape, dtype.np_dtype)
    all_reduce(inputs[world.my_pe], out, world.n_pes)
    return assert_close(out, sum(x.astype(np.float64) for x in inputs), world.n_pes)


if __name__ == "__main__":
    for dtype in (pypto.DT_FP32, pypto.DT_FP16, pypto.DT_BF16, pypto.DT_INT32):
        check(dtype)
    if emu.world().my_pe == 0:
        print(f"allreduce_two_shot: {emu.world().n_pes} PEs, 4 data types: right")
