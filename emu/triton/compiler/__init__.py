"""Compiling kernels: ``triton.compiler``.

Internal: names may change in any release.
"""

from emu.triton.compiler.compiler import (
    ASTSource,
    CompiledKernel,
    GPUTarget,
    IRSource,
    LazyDict,
    compile,
    make_backend,
    max_shared_mem,
)
from emu.triton.compiler.errors import (
    CompilationError,
    CompileTimeAssertionFailure,
    UnsupportedLanguageConstruct,
)

__all__ = [
    "ASTSource",
    "CompilationError",
    "CompileTimeAssertionFailure",
    "CompiledKernel",
    "GPUTarget",
    "IRSource",
    "LazyDict",
    "UnsupportedLanguageConstruct",
    "compile",
    "make_backend",
    "max_shared_mem",
]
