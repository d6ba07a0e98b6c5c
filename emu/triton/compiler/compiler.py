"""Compiling ahead of a launch, where programs look for it."""

from emu.triton.runtime.ahead import ASTSource, compile
from emu.triton.runtime.cache import triton_key
from emu.triton.runtime.compiled import CompiledKernel
from emu.triton.runtime.driver import GPUTarget

__all__ = ["ASTSource", "CompiledKernel", "GPUTarget", "compile", "triton_key"]
