"""Compiling kernels: ``triton.compiler``.

Internal: names may change in any release.
"""

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
