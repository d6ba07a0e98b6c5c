"""What of an argument Triton's launches look at, as programs ask for it: ``native_specialize_impl``, ``mangle_type``.

emu's own launcher does not use it: its keys are made in generated code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.kernels.core.messages import shown
from emu.triton.language.constants import constexpr
from emu.triton.runtime.arguments import dtype_name, integer_key
from emu.triton.runtime.described_backends import BaseBackend
from emu.triton.source import JITCallable

Meaning = tuple[Any, Any]
"""Spelling of a type, and what a compiled kernel depends on besides it; of a tuple one of each for its items."""


def native_specialize_impl(
    backend: Any, arg: Any, is_const: bool, specialize_value: bool, align: bool
) -> Meaning:
    """Return the type of an argument and what a kernel is specialised for.

    Args:
        backend: Has ``get_int_specialization`` and ``get_tensor_specialization``.
        arg: The argument.
        is_const: Whether its memory is only read.
        specialize_value: Whether a kernel may depend on the value.
        align: Whether it may depend on divisibility by 16.

    Raises:
        TypeError: An argument of this type cannot be passed.
        OverflowError: An integer does not fit into 64 bits.
    """
    if arg is None:
        return "constexpr", None
    if isinstance(arg, (bool, np.bool_)):
        return "u1", None
    if isinstance(arg, int):
        key = backend.get_int_specialization(arg, align=align) if specialize_value else None
        return ("constexpr", 1) if arg == 1 and specialize_value else (integer_key(int(arg)), key)
    if isinstance(arg, float):
        return "fp32", None
    if isinstance(arg, JITCallable):
        return "constexpr", arg.cache_key
    if isinstance(arg, constexpr):
        return "constexpr", arg
    if isinstance(arg, tuple):
        found = [native_specialize_impl(backend, one, False, True, True) for one in arg]
        make = getattr(type(arg), "_make", tuple)
        return make([f[0] for f in found]), make([f[1] for f in found])
    if hasattr(arg, "block_shape") and hasattr(arg, "base"):
        return f"tensordesc<{_spelled(arg.base)}{list(arg.block_shape)}>", None
    if hasattr(arg, "data_ptr"):
        key = backend.get_tensor_specialization(arg, align=align) if specialize_value else None
        return f"{'*k' if is_const else '*'}{_spelled(arg)}", key
    raise TypeError(f"arg must be what a kernel takes, but got {shown(arg, with_type=True)}")


def mangle_type(arg: Any, specialize: bool = False) -> Any:
    """Return how a signature spells the type of an argument: ``*fp32``, ``i32``, ``constexpr``.

    Args:
        arg: The argument.
        specialize: Whether 1 is a constant.
    """
    return native_specialize_impl(BaseBackend, arg, False, specialize, specialize)[0]


def _spelled(tensor: Any) -> str:
    name = dtype_name(tensor.dtype)
    if name is None:
        raise TypeError(f"dtype must be one that kernels know, but got {tensor.dtype!r}")
    return "u1" if name == "i1" else name
