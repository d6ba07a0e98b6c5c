"""Programs of the tile IR as kernels for NVIDIA devices, through Numba."""

from emu.tile.cuda.coverage import NotCoveredError
from emu.tile.cuda.kernel import CudaKernel, compile_kernel

__all__ = ["CudaKernel", "NotCoveredError", "compile_kernel"]
