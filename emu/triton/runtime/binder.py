"""What a launch makes of its arguments before it looks for a kernel, as programs that compile by themselves ask for it.

It is the last item of ``kernel.device_caches[device]``. emu's own launcher does not use it.
"""

from __future__ import annotations

import inspect
from typing import Any

from emu.triton.runtime.specialization import Meaning, native_specialize_impl
from emu.triton.source import JITCallable, plain_value


class Binder:
    """Binds arguments to the parameters of a kernel.

    Args:
        kernel: The kernel.
        backend: Says what kernels are specialised for.
    """

    def __init__(self, kernel: JITCallable, backend: Any) -> None:
        self._kernel = kernel
        self._backend = backend

    def __call__(
        self, *args: object, **kwargs: object
    ) -> tuple[dict[str, object], list[Meaning], dict[str, object]]:
        """Return the arguments by name, what each means to a kernel, and the options among the keywords.

        Args:
            *args: Arguments.
            **kwargs: Arguments by name, and options of a launch.

        Raises:
            TypeError: An argument is missing, or given twice, or of a type that kernels don't take.
        """
        params = self._kernel.params
        names = {param.name for param in params}
        given = {name: value for name, value in kwargs.items() if name in names}
        signature = inspect.Signature([param.parameter for param in params])
        try:
            bound = signature.bind(*args, **given)
        except TypeError as error:
            raise TypeError(f"arguments of kernel {self._kernel.__name__}: {error}") from None
        bound.apply_defaults()
        found = dict(bound.arguments)
        meanings = [self._meaning(param, found[param.name]) for param in params]
        return found, meanings, {n: v for n, v in kwargs.items() if n not in names}

    def _meaning(self, param: Any, value: object) -> Meaning:
        if param.is_constexpr:
            return "constexpr", plain_value(value)
        specialises = not param.do_not_specialize
        aligned = specialises and not param.do_not_specialize_on_alignment
        kind, key = native_specialize_impl(
            self._backend, value, param.is_const, specialises, aligned
        )
        named = param.annotation_type
        if named and isinstance(kind, str) and kind != "constexpr" and not kind.startswith("*"):
            return named, None if named in ("u1", "fp16", "bf16", "fp32", "fp64") else key
        return kind, key
