"""The kernels as ``@cuda.jit`` kernels: the same names, on device memory.

``tiles``, ``quant``, ``matmul`` and ``atomics`` do there what their namesakes in ``emu.kernels`` do
on NumPy arrays; ``arrays`` brings data there and back. They work with Numba's own CUDA target and
with the package numba-cuda, and without a GPU in Numba's simulator (``NUMBA_ENABLE_CUDASIM=1``).

What is known of them: their results in the simulator; that every kernel compiles for devices of
compute capability 8.0 and 9.0, to the instructions that the tests name; and that the compiled code,
run by an interpreter of PTX, gives the same results. They have not run on a GPU yet, so nothing is
known of their speed.

Internal: names may change in any release.
"""
