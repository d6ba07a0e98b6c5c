"""Errors of compilation, where programs look for them."""

from emu.triton.codegen.errors import (
    CompilationError,
    CompileTimeAssertionFailure,
    UnsupportedLanguageConstruct,
)

__all__ = ["CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct"]

# Tracebacks name this module, as Triton's do, not the one that raises the errors.
for _error in (CompilationError, CompileTimeAssertionFailure, UnsupportedLanguageConstruct):
    _error.__module__ = __name__
