"""Compiling a kernel without launching it: ``triton.compile(triton.compiler.ASTSource(...))``."""

from __future__ import annotations

from typing import Any

from emu.triton import knobs
from emu.triton.runtime import options as launch_options
from emu.triton.runtime.arguments import CONSTANT
from emu.triton.runtime.compiled import CompiledKernel
from emu.triton.runtime.jit import JITFunction
from emu.triton.runtime.program import Request, build
from emu.triton.runtime.source import plain_value


class ASTSource:
    """A kernel with the types of its arguments.

    Args:
        fn: The kernel.
        signature: Spelling of the type of each parameter: ``*fp32``, ``i32``, ``constexpr``.
        constexprs: Values of the constants, by name or position (or a tuple of one position).
        attrs: Not looked at.

    Raises:
        TypeError: ``fn`` is no kernel.
        ValueError: A parameter has neither a type nor a value.
    """

    ext = "ttir"

    def __init__(
        self,
        fn: JITFunction[Any],
        signature: dict[str, Any],
        constexprs: dict[Any, Any] | None = None,
        attrs: dict[Any, Any] | None = None,
    ) -> None:
        if not isinstance(fn, JITFunction):
            raise TypeError(f"fn must be decorated with @triton.jit, but got {type(fn).__name__}")
        self.fn = fn
        self.name = fn.__name__
        self.attrs = attrs or {}
        self.constants: dict[str, Any] = {}
        for name, value in (constexprs or {}).items():
            where = name[0] if isinstance(name, tuple) else name
            named = fn.arg_names[where] if isinstance(where, int) else where
            self.constants[named] = plain_value(value)
        self.signature: dict[str, Any] = {}
        for name in fn.arg_names:
            if name not in signature and name not in self.constants:
                raise ValueError(f"signature must have the type of {name}, but got {signature!r}")
            self.signature[name] = CONSTANT if name in self.constants else signature[name]


def compile(
    src: ASTSource, target: Any = None, options: dict[str, Any] | None = None
) -> CompiledKernel:
    """Compile a kernel for this machine.

    Args:
        src: The kernel and its types.
        target: Not looked at: there is one CPU.
        options: As at a launch.

    Raises:
        CompilationError: The source breaks a rule of the language.
        TypeError: ``src`` is no :class:`ASTSource`, or there is no such option.
    """
    if not isinstance(src, ASTSource):
        raise TypeError(f"src must be an ASTSource, but got {type(src).__name__}")
    given = dict(options or {})
    launch_options.check(src.name, given)
    request = Request(
        src.fn,
        src.signature,
        src.constants,
        bool(given.get("debug") or src.fn.debug or knobs.runtime.debug),
        launch_options.backend_of(given),
        given.get("enable_fp_fusion") is True,
    )
    return CompiledKernel(build(request), given)


__all__ = ["ASTSource", "compile"]
