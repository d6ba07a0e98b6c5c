"""A two-shot all-reduce built from puts, compared with the collective and with NumPy.

First every PE adds its part i into PE i's memory (reduce-scatter), then PE i puts the finished part
to everyone (all-gather).

Run with: emu run -n 4 examples/comm/allreduce.py
"""

import numpy as np

import emu

PART = 1000

world = emu.world()
me, n = world.my_pe, world.n_pes

mine = np.random.default_rng(me).standard_normal((n, PART)).astype(np.float32)
part = world.alloc((1, PART), np.float32)
result = world.alloc((n, PART), np.float32)

for step in range(n):
    pe = (me + step) % n  # everyone begins elsewhere, so that no PE is hit by all at once
    world.put(part, mine[pe : pe + 1], pe, op=emu.AtomicOp.ADD)
world.barrier()
for pe in range(n):
    world.put(result, part.local, pe, offsets=(me, 0))
world.barrier()

inputs = [
    np.random.default_rng(pe).standard_normal((n, PART)).astype(np.float32) for pe in range(n)
]
expected = np.sum(inputs, axis=0, dtype=np.float64)
np.testing.assert_allclose(result.local, expected, atol=1e-5 * n)
np.testing.assert_allclose(world.all_reduce(mine), expected, atol=1e-5 * n)
print(f"agrees on {n * PART} sums")
