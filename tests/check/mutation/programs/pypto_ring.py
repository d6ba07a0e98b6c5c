"""A block goes around a ring, PE by PE; each step uses one buffer, which must be free again."""

import numpy as np
import pypto

import emu

dist = pypto.distributed


@pypto.frontend.jit
def around(x, out, n_pes):
    me = int(dist.my_symbolic_pe("ring"))
    inbox = dist.create_shmem_tensor("ring", n_pes, pypto.DT_FP32, [4, 8])
    free = dist.create_shmem_signal("ring", n_pes)
    pypto.set_vec_tile_shapes(4, 8)
    block, taken = x, []
    for step in range(n_pes - 1):
        if step:
            taken = [dist.shmem_wait_until(free, 0, 1, clear_signal=True, pred=[block])]
        stored = dist.shmem_put(block, [0, 0], inbox, (me + 1) % n_pes, pred=taken)
        dist.shmem_signal(inbox, 0, 1, target_pe=(me + 1) % n_pes, pred=[stored])
        came = dist.shmem_wait_until(inbox, 0, 1, clear_signal=True, pred=[block])
        block = dist.shmem_get(inbox, me, pred=[came])
        if step < n_pes - 2:
            dist.shmem_signal(free, 0, 1, target_pe=(me - 1) % n_pes, pred=[block])
    out[:, :] = block


world = emu.world()
x = np.full((4, 8), world.my_pe, np.float32)
out = np.zeros_like(x)
around(x, out, world.n_pes)
assert (out == (world.my_pe + 1) % world.n_pes).all()
