"""``triton.runtime.interpreter``: names that programs test kernels with.

Kernels that run as Python are launched by emu's own interpreter, and remain a ``JITFunction``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.triton.language.constants import base_value
from emu.triton.runtime import arguments
from emu.triton.runtime.jit import JITFunction

__all__ = ["InterpretedFunction"]


class InterpretedFunction(JITFunction[Any]):
    """Class of Triton's interpreted kernels; none of emu's kernels is of it, as ``isinstance`` then tells."""


def _implicit_cvt(arg: object) -> Any:
    """Return a number, a tensor or a tuple of these as kernels that run as Python hold it; others as they are."""
    from emu.triton.interpreter.grid import given
    from emu.triton.runtime.build import type_of

    if isinstance(arg, tuple):
        make = getattr(type(arg), "_make", tuple)
        return make(map(_implicit_cvt, arg))
    if isinstance(arg, base_value) or not (
        isinstance(arg, int | np.integer | np.bool_) or hasattr(arg, "data_ptr")
    ):
        return arg
    key, value = arguments.describe(arg)
    spelled = "i32" if key == 1 else arguments.pointer_spelling(key) or str(key)
    return given("arg", type_of(spelled, None), value)
