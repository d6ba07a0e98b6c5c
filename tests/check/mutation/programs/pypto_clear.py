"""One set of signals for three rounds: all have read before the slots are cleared and used again."""

import numpy as np
import pypto

import emu

dist = pypto.distributed


@pypto.frontend.jit
def rounds(x, out, n_pes):
    me = int(dist.my_symbolic_pe("all"))
    peer = (me + 1) % n_pes
    data = dist.create_shmem_tensor("all", n_pes, pypto.DT_FP32, [2, 8])
    pypto.set_vec_tile_shapes(2, 8)
    ready = []
    for _ in range(3):
        stored = dist.shmem_put(x, [0, 0], data, peer, pred=ready)
        dist.shmem_signal(data, 0, 1, target_pe=peer, pred=[stored])
        came = dist.shmem_wait_until(data, 0, 1, pred=ready)
        x = dist.shmem_get(data, me, pred=[came]) + 1.0
        cleared = dist.shmem_clear_signal(data, pred=[x])
        ready = [dist.shmem_barrier_all(data, pred=[cleared])]
    out[:, :] = x


world = emu.world()
out = np.zeros((2, 8), np.float32)
rounds(np.full((2, 8), world.my_pe, np.float32), out, world.n_pes)
assert (out == (world.my_pe - 3) % world.n_pes + 3).all()
