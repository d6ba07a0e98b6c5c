"""One histogram on PE 0, filled by all PEs with atomic ADDs; work is handed out by a counter.

Run with: emu run -n 4 examples/comm/histogram_atomics.py
"""

import numpy as np

import emu

BATCHES, BATCH, BINS = 24, 5000, 64

world = emu.world()
histogram = world.alloc((BINS,), np.int32)
next_batch = world.alloc((1,), np.int64)


def batch(number: int) -> np.ndarray:
    """Return the bins of one batch; the same on whichever PE draws it."""
    return np.random.default_rng(number).integers(0, BINS, BATCH)


done = 0
while (number := world.fetch_add(next_batch, 1, 0)) < BATCHES:
    counts = np.bincount(batch(number), minlength=BINS).astype(np.int32)
    world.put(histogram, counts, 0, op=emu.AtomicOp.ADD)
    done += 1
print(f"did {done} of {BATCHES} batches")
world.barrier()

expected = sum(np.bincount(batch(number), minlength=BINS) for number in range(BATCHES))
assert np.array_equal(world.get(histogram, 0), expected)
