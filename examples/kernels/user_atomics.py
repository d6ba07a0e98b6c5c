"""Your own compiled loop on memory that all PEs share: a histogram, sums and extremes, no locks.

``histogram.on(0)`` is PE 0's part of a symmetric array as an ndarray, whichever PE asks. A compiled loop
may update it in place, with the atomics of ``emu.kernels``, as others do the same.

Run with: emu run -n 4 examples/kernels/user_atomics.py
"""

import ml_dtypes
import numpy as np

import emu
from emu.kernels import atomics
from emu.kernels.jit import jit

SAMPLES, BINS = 50_000, 32


@jit
def count(samples, histogram, totals, extremes, rare):
    """Count samples in [0, 1) by bins, add them up, and keep the least and the greatest of each bin."""
    for sample in samples:
        where = int(sample * BINS)
        atomics.add(histogram, where, 1)
        atomics.add(totals, where, sample)
        atomics.minimum(extremes, (where, 0), sample)
        atomics.maximum(extremes, (where, 1), sample)
        if sample < 1e-4:
            atomics.add_bf16(rare, 0, 1.0)


def samples(pe):
    """Return the samples of one PE: multiples of 2**-20, whose sums are exact in any order."""
    return np.random.default_rng(pe).integers(0, 1 << 20, SAMPLES) / (1 << 20)


world = emu.world()
histogram = world.alloc(BINS, np.int32)
totals = world.alloc(BINS, np.float64)
extremes = world.alloc((BINS, 2), np.float64)
rare = world.alloc(1, ml_dtypes.bfloat16)
if world.my_pe == 0:
    extremes.local[:, 0] = np.inf
    extremes.local[:, 1] = -np.inf
world.barrier()

bits = rare.on(0).view(np.uint16)  # Numba has no bf16: its atomics take the bit patterns
count(samples(world.my_pe), histogram.on(0), totals.on(0), extremes.on(0), bits)
world.barrier()

together = np.concatenate([samples(pe) for pe in range(world.n_pes)])
bins = (together * BINS).astype(int)
assert np.array_equal(histogram.on(0), np.bincount(bins, minlength=BINS))
assert np.array_equal(totals.on(0), np.bincount(bins, together, minlength=BINS))
for where in range(BINS):
    mine = together[bins == where]
    assert extremes.on(0)[where].tolist() == [mine.min(), mine.max()]
assert float(rare.on(0)[0]) == np.count_nonzero(together < 1e-4)
print(f"PE {world.my_pe} of {world.n_pes}: {histogram.on(0).sum()} samples are counted")
