"""The description of a device that kernels are compiled for."""

from emu.triton.runtime.driver import GPUTarget

__all__ = ["GPUTarget"]
