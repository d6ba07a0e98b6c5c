"""Sums by ADD between barriers: the memory is cleared first, and read when all have added."""

import numpy as np
import pypto

import emu

dist = pypto.distributed


@pypto.frontend.jit
def total(x, out, n_pes):
    me = dist.my_symbolic_pe("all")
    sums = dist.create_shmem_tensor("all", n_pes, pypto.DT_FP32, [4, 4])
    pypto.set_vec_tile_shapes(2, 4)
    cleared = dist.shmem_clear_data(sums)
    ready = dist.shmem_barrier_all(sums, pred=[cleared])
    added = [
        dist.shmem_put(x, [0, 0], sums, pe, put_op=pypto.AtomicType.ADD, pred=[ready])
        for pe in range(n_pes)
    ]
    complete = dist.shmem_barrier_all(sums, pred=added)
    out[:, :] = dist.shmem_get(sums, me, pred=[complete])


world = emu.world()
out = np.zeros((4, 4), np.float32)
total(np.full((4, 4), world.my_pe + 1, np.float32), out, world.n_pes)
assert (out == sum(range(1, world.n_pes + 1))).all()
