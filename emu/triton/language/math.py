"""Mathematical functions under the name ``tl.math``."""

from emu.triton.language.arithmetic import div_rn, fdiv, fma
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
