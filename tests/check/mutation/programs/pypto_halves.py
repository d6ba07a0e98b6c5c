"""Two views of one tensor, each with its own signal; what comes back depends on both."""

import numpy as np
import pypto

import emu

dist = pypto.distributed


@pypto.frontend.jit
def exchange(x, out, n_pes):
    me = int(dist.my_symbolic_pe("all"))
    peer = (me + 1) % n_pes
    data = dist.create_shmem_tensor("all", n_pes, pypto.DT_INT32, [8, 4])
    back = dist.create_shmem_tensor("all", n_pes, pypto.DT_INT32, [4, 4])
    pypto.set_vec_tile_shapes(2, 4)
    upper = dist.shmem_view(data, [4, 4], [0, 0])
    lower = dist.shmem_view(data, [4, 4], [4, 0])
    first = dist.shmem_put(x, [0, 0], upper, peer)
    dist.shmem_signal(upper, 0, 1, target_pe=peer, pred=[first])
    second = dist.shmem_put(x, [0, 0], lower, peer)
    dist.shmem_signal(lower, 0, 1, target_pe=peer, pred=[second])
    above = dist.shmem_wait_until(upper, 0, 1)
    below = dist.shmem_wait_until(lower, 0, 1)
    both = dist.shmem_get(data, me, pred=[above, below])
    answer = both[0:4, :] + both[4:8, :]
    returned = dist.shmem_put(answer, [0, 0], back, (me - 1) % n_pes)
    dist.shmem_signal(back, 0, 1, target_pe=(me - 1) % n_pes, pred=[returned])
    home = dist.shmem_wait_until(back, 0, 1)
    out[:, :] = dist.shmem_get(back, me, pred=[home])


world = emu.world()
x = np.full((4, 4), world.my_pe + 1, np.int32)
out = np.zeros_like(x)
exchange(x, out, world.n_pes)
assert (out == 2 * x).all()
