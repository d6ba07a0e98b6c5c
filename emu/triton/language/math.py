"""Mathematical functions under the name ``tl.math``.

Those of ``libdevice`` that have no other meaning here are found, too, as in older versions of Triton.
"""

from __future__ import annotations

from typing import Any

from emu.triton.language.arithmetic import div_rn, fdiv, fma
from emu.triton.language.extra import libdevice as _libdevice
from emu.triton.language.extra.signatures import NAMES as _NAMES
from emu.triton.language.mathematics import (
    abs,
    ceil,
    cos,
    erf,
    exp,
    exp2,
    floor,
    log,
    log2,
    rsqrt,
    sin,
    sqrt,
    sqrt_rn,
    umulhi,
)

__all__ = [
    "abs",
    "ceil",
    "cos",
    "div_rn",
    "erf",
    "exp",
    "exp2",
    "fdiv",
    "floor",
    "fma",
    "log",
    "log2",
    "rsqrt",
    "sin",
    "sqrt",
    "sqrt_rn",
    "umulhi",
]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(_libdevice, name)
    raise AttributeError(f"tl.math has no function {name!r}")
