"""Compiling ahead of a launch, where programs look for it."""

from emu.triton.runtime.ahead import ASTSource, compile
from emu.triton.runtime.cache import sources_digest
from emu.triton.runtime.compiled import CompiledKernel
from emu.triton.runtime.driver import GPUTarget

__all__ = ["ASTSource", "CompiledKernel", "GPUTarget", "compile", "triton_key"]


def triton_key() -> str:
    """Return a text that identifies this compiler; torch uses it in the keys of its caches."""
    return f"emu-{sources_digest()}"
