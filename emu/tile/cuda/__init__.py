"""Programs of the tile IR as kernels for NVIDIA devices, through Numba.

``compile_kernel`` writes a Python module with one ``@cuda.jit`` function; Numba compiles it when it is
first launched, or runs it in its simulator. One program of the grid is one block of T threads. Thread t
holds the elements t, t + T, t + 2T ... of a tile in registers; a tile of which threads need each other's
elements lies in shared memory, or, where 48 KiB are not enough, in global memory. Scalars are computed by
every thread, so that control flow is the same for all threads of a block.

All operations are covered, for all dtypes that the tile IR allows each:

==========================================  ==============================================================
constant, arange, splat                     computed where used
broadcast, reshape, permute, join, split,   changes of the index where used; held in memory of the block
cat, gather, flip                           only if that would compute much again
element by element: neg .. fma, cast,       fused into the loop of who uses them; f16, bf16 and fp8 in
bitcast, ptr_add                            fp32 and rounded after each
load, store                                 an element at a time, masked ones not touched; of lanes of one
                                            store with one address *any* is kept, as on a GPU
atomic_rmw, atomic_cas                      one instruction, or a loop of compare-and-swap (floats but add,
                                            8 and 16 bits); the order of a tile's lanes is open; of a
                                            scalar with a fence on either side
for, while, if, call                        of scalar conditions; calls are inlined
reduce                                      a thread combines elements t, t + T ..., threads by halving
scan                                        in log2 steps
histogram                                   atomic counts in memory of the block
dot                                         one chain of FMAs an element, k increasing; no tensor cores
barrier, join_tokens, after                 the first also as a fence
assert                                      ends the program; ``launch`` raises with the message
print                                       through CUDA's printf; not in hexadecimal: NotCoveredError
==========================================  ==============================================================
"""

from emu.tile.cuda.coverage import NotCoveredError
from emu.tile.cuda.kernel import CudaKernel, compile_kernel

__all__ = ["CudaKernel", "NotCoveredError", "compile_kernel"]
