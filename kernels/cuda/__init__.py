"""The kernels as ``@cuda.jit`` kernels: the same names, on device memory."""
