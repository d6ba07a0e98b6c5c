"""Compiling kernels: ``triton.compiler``."""

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
