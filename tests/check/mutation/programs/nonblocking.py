"""Gets and puts that go on until quiet, from and into memory that is used again."""

import numpy as np

import emu

world = emu.world()
me, n = world.my_pe, world.n_pes
peer = (me + 1) % n
source = world.alloc(128, np.float32)
target = world.alloc(128, np.float32)
result = world.alloc(128, np.float32)
source.local[:] = me
world.barrier()
world.get_nbi(source, peer, result)
world.quiet()
assert (result.local == peer).all()
world.barrier()
world.put_nbi(target, source.local, peer)
world.quiet()
source.local[:] = -1
world.barrier()
assert (target.local == (me - 1) % n).all()
