"""Compiles the Python source of a kernel to the tile IR."""

from emu.triton.compiler.errors import (
    CompilationError,
    CompileTimeAssertionFailure,
    UnsupportedLanguageConstruct,
)
from emu.triton.runtime.ahead import ASTSource, compile
from emu.triton.runtime.compiled import CompiledKernel

__all__ = [
    "ASTSource",
    "CompilationError",
    "CompileTimeAssertionFailure",
    "CompiledKernel",
    "UnsupportedLanguageConstruct",
    "compile",
]
