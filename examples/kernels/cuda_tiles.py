"""A kernel of your own next to those of `emu`: sums in bf16 that many CUDA blocks add to.

Each row of a matrix belongs to a class. The kernel adds rows to the sum of their class; several
threads add to one element at once, in bf16, which `cuda.atomic` cannot. `set_tile` then puts the
sums into a corner of a larger array.

It runs on a GPU, or in Numba's simulator, which must be asked for before Numba is imported:

Run with: NUMBA_ENABLE_CUDASIM=1 python examples/kernels/cuda_tiles.py
"""

import ml_dtypes
import numpy as np
from numba import cuda

from emu.kernels.cuda import arrays, atomics, tiles

ROWS, COLUMNS, CLASSES = 24, 6, 3
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@cuda.jit
def sum_by_class(rows, classes, sums):
    row = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    column = cuda.threadIdx.y
    if row < rows.shape[0]:
        # `sums` holds bf16 as bit patterns; the value is an fp32 number.
        atomics.add_bf16(sums, (classes[row], column), rows[row, column])


rng = np.random.default_rng(0)
rows = rng.integers(-4, 5, (ROWS, COLUMNS)).astype(np.float32)
classes = rng.integers(0, CLASSES, ROWS)

sums = arrays.to_device(np.zeros((CLASSES, COLUMNS), BFLOAT16))
# `.bits` is a Numba device array, which is what kernels take.
arguments = arrays.to_device(rows).bits, arrays.to_device(classes).bits, sums.bits
sum_by_class[3, (8, COLUMNS)](*arguments)

board = arrays.to_device(np.full((5, 10), -1, BFLOAT16))
tiles.set_tile(board[1:4, 2:8], sums)
tiles.add_tile(board[1:4, 2:8], sums)

expected = np.full((5, 10), -1.0)
expected[1:4, 2:8] = [2 * rows[classes == c].sum(axis=0) for c in range(CLASSES)]
found = board.copy_to_host().astype(float)
assert np.array_equal(found, expected), found
print(found)
