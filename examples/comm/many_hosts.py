"""Heat that flows along a rod whose parts lie on all PEs, of one host or of several: the bits are the same.

Run with: emu run -n 4 examples/comm/many_hosts.py

Over two hosts, which `--hosts a,b` names, or on this machine as if it were two:
emu run --hosts localhost,127.0.0.1 --pes-per-node 2 examples/comm/many_hosts.py
"""

import hashlib

import numpy as np

import emu

POINTS, STEPS = 4096, 200

world = emu.world()
me, n = world.my_pe, world.n_pes
start = np.zeros(POINTS, np.float32)
start[POINTS // 3 : POINTS // 2] = 100
cuts = [POINTS * pe // n for pe in range(n + 1)]
mine = start[cuts[me] : cuts[me + 1]]

edges = world.alloc((2, 2), np.float32, poison=False)  # of two steps: the neighbours' points
arrived = world.alloc(2, np.int64, poison=False)  # from the left, and from the right
for step in range(STEPS):
    slot = step % 2
    if me > 0:
        world.put_signal(edges[slot, 1:], mine[:1], me - 1, arrived, step + 1, index=1)
    if me < n - 1:
        world.put_signal(edges[slot, :1], mine[-1:], me + 1, arrived, step + 1, index=0)
    if me > 0:
        world.wait_until(arrived, emu.Cmp.GE, step + 1, index=0)
    if me < n - 1:
        world.wait_until(arrived, emu.Cmp.GE, step + 1, index=1)
    left = edges.local[slot, 0] if me > 0 else mine[0]
    right = edges.local[slot, 1] if me < n - 1 else mine[-1]
    padded = np.concatenate([[left], mine, [right]])
    mine = mine + np.float32(0.25) * (padded[:-2] - 2 * mine + padded[2:])

part = np.zeros(POINTS // n + 1, np.float32)  # of the same size on all PEs
part[: mine.size] = mine
parts = world.all_gather(part)
rod = np.concatenate([parts[pe, : cuts[pe + 1] - cuts[pe]] for pe in range(n)])
warmest = world.all_reduce(mine.max(keepdims=True), "max")[0]

expected = start
for _ in range(STEPS):
    padded = np.concatenate([expected[:1], expected, expected[-1:]])
    expected = expected + np.float32(0.25) * (padded[:-2] - 2 * expected + padded[2:])
assert np.array_equal(rod, expected)
assert warmest == expected.max()
if me == 0:
    print(f"{STEPS} steps on {n} PEs, bits {hashlib.sha256(rod.tobytes()).hexdigest()[:12]}")
