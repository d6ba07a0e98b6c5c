"""Compiling a kernel without launching it: ``triton.compile(triton.compiler.ASTSource(...))``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from emu.kernels.core.messages import shown
from emu.triton import knobs
from emu.triton.language.types import TypeSpelling
from emu.triton.runtime import checks, hooks
from emu.triton.runtime import options as launch_options
from emu.triton.runtime.arguments import CONSTANT
from emu.triton.runtime.build import Request, build
from emu.triton.runtime.compiled import CompiledKernel
from emu.triton.runtime.jit import JITFunction
from emu.triton.source import plain_value


class ASTSource:
    """A kernel with the types of its arguments.

    Args:
        fn: The kernel.
        signature: Spelling of the type of each parameter: ``*fp32``, ``i32``, ``constexpr``.
        constexprs: Values of the constants, by name or position (or a tuple of one position). Default: those that
            the kernel's parameters have.
        attrs: Ignored.

    Raises:
        TypeError: ``fn`` is not a kernel.
        ValueError: A parameter has neither a type nor a value.
    """

    ext = "ttir"

    def __init__(
        self,
        fn: JITFunction[Any],
        signature: Mapping[str, TypeSpelling],
        constexprs: Mapping[Any, object] | None = None,
        attrs: Mapping[Any, object] | None = None,
    ) -> None:
        if not isinstance(fn, JITFunction):
            raise TypeError(f"fn must be decorated with @triton.jit, but got {type(fn).__name__}")
        self.fn = fn
        self.name = fn.__name__
        self.attrs = {} if attrs is None else attrs
        self.constants: dict[str, object] = {}
        if constexprs is not None and not isinstance(constexprs, dict):
            raise TypeError(
                f"constexprs must be a dict, but got {shown(constexprs, with_type=True)}"
            )
        for name, value in (constexprs or {}).items():
            self.constants[_parameter(fn, name)] = plain_value(value)
        types = checks.as_mapping("signature", signature)
        self.signature: dict[str, TypeSpelling] = {}
        for param in fn.params:
            if param.is_constexpr and param.has_default:
                self.constants.setdefault(param.name, plain_value(param.default))
        for name in fn.arg_names:
            if name not in types and name not in self.constants:
                raise ValueError(f"signature must have the type of {name}, but got {types!r}")
            # A value wins over a type, as programs list constants in both, in any spelling.
            spelled = CONSTANT if name in self.constants else types[name]
            _check_spelling(name, spelled, name in self.constants)
            self.signature[name] = spelled


def _check_spelling(name: str, spelled: object, has_value: bool) -> None:
    """Check that a type is spelled as a text, or as a tuple of them.

    Raises:
        TypeError: It is not.
        ValueError: A constant has no value.
    """
    if isinstance(spelled, tuple) and spelled:
        for i, item in enumerate(spelled):
            _check_spelling(f"{name}[{i}]", item, True)
    elif not isinstance(spelled, str):
        given = shown(spelled, with_type=True)
        raise TypeError(
            f"signature must spell the type of {name} as a text such as '*fp32', but got {given}"
        )
    elif spelled == CONSTANT and not has_value:
        raise ValueError(
            f"constexprs must have the value of {name}, as the signature calls it a constant"
        )


def _parameter(fn: JITFunction[Any], name: object) -> str:
    """Return the parameter that a key of the constants names.

    Raises:
        ValueError: The kernel has no such parameter.
    """
    # Triton's own paths are tuples: (position, index inside of a tuple, ...).
    where = name[0] if isinstance(name, tuple) and name else name
    if isinstance(where, int) and -len(fn.arg_names) <= where < len(fn.arg_names):
        return fn.arg_names[where]
    if where not in fn.arg_names:
        raise ValueError(
            f"constexprs must be of parameters of {fn.__name__} ({', '.join(fn.arg_names)}), but one is "
            f"of {name!r:.60}"
        )
    return str(where)


def compile(
    src: ASTSource, target: object = None, options: Mapping[str, object] | None = None
) -> CompiledKernel:
    """Compile a kernel for this machine.

    Args:
        src: The kernel and its types.
        target: Ignored: there is one CPU.
        options: As at a launch.

    Raises:
        CompilationError: The source breaks a rule of the language.
        TypeError: ``src`` is not an :class:`ASTSource`, or there is no such option.
    """
    if not isinstance(src, ASTSource):
        raise TypeError(f"src must be an ASTSource, but got {type(src).__name__}")
    given = checks.as_mapping("options", options)
    launch_options.check(src.name, given)
    backend = launch_options.backend_of(given)
    request = Request(
        src.fn,
        src.signature,
        src.constants,
        bool(given.get("debug") or src.fn.debug or knobs.runtime.debug),
        backend,
        given.get("enable_fp_fusion") is True,
        launch_options.checked_by(
            backend, launch_options.check_of(given.get("check"), src.fn.check)
        ),
        input_precision=launch_options.input_precision_of(given),
        sanitize=given.get("sanitize_overflow") is not False,
        num_warps=launch_options.warps_of(given),
    )
    made = build(request)
    kernel = CompiledKernel(made, given)
    hooks.tell_listener(made, kernel, src)
    return kernel


JITFunction.ASTSource, JITFunction.compile = ASTSource, staticmethod(compile)
