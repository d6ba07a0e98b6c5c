"""Mathematical functions on registers: by polynomials of our own; some of f64 by the C library.

The functions of f32 have no branches, but ``sin``, ``cos`` and ``tan``, which look whether a lane is too
large for the short reduction. All stay within 2 units in the last place for every argument.

Internal: names may change in any release.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emu.tile.cpu.numeric.mathematics import (
    double as double_,
)
from emu.tile.cpu.numeric.mathematics import (
    double_arcs,
    double_steps,
    error,
    exponential,
    library,
    logarithm,
    trigonometric,
)
from emu.tile.cpu.numeric.vector_builder import VectorBuilder, intrinsic
from emu.tile.llvm import Register
from emu.tile.ops import Code


def _rsqrt(lanes: VectorBuilder, x: Register) -> Register:
    return lanes.builder.fdiv(lanes.f32(1.0), intrinsic(lanes.builder, "sqrt", (x,)))


FUNCTIONS: dict[Code, Callable[..., Register]] = {
    Code.EXP: exponential.exp,
    Code.EXP2: exponential.exp2,
    Code.EXPM1: exponential.expm1,
    Code.LOG: logarithm.log,
    Code.LOG2: logarithm.log2,
    Code.LOG10: logarithm.log10,
    Code.LOG1P: logarithm.log1p,
    Code.RSQRT: _rsqrt,
    Code.SIN: trigonometric.sin,
    Code.COS: trigonometric.cos,
    Code.TAN: trigonometric.tan,
    Code.ASIN: trigonometric.asin,
    Code.ACOS: trigonometric.acos,
    Code.ATAN: trigonometric.atan,
    Code.SINH: exponential.sinh,
    Code.COSH: exponential.cosh,
    Code.TANH: exponential.tanh,
    Code.ERF: error.erf,
    Code.SIGMOID: exponential.sigmoid,
    Code.POW: logarithm.pow_,
    Code.ATAN2: trigonometric.atan2,
}
"""The function of f32 for each code."""

DOUBLE_FUNCTIONS: dict[Code, Callable[..., Register]] = {
    Code.EXP: double_.exp,
    Code.EXP2: double_.exp2,
    Code.SIGMOID: double_.sigmoid,
    Code.LOG: double_.log,
    Code.LOG2: double_.log2,
    Code.LOG10: double_.log10,
    Code.LOG1P: double_.log1p,
    Code.SIN: double_.sin,
    Code.COS: double_.cos,
    Code.TANH: double_steps.tanh,
    Code.ERF: double_steps.erf,
    Code.ASIN: double_arcs.asin,
    Code.ACOS: double_arcs.acos,
    Code.ATAN: double_arcs.atan,
    Code.ATAN2: double_arcs.atan2,
}
"""The functions of f64 that are ours."""


def emit(lanes: VectorBuilder, code: Code, values: Sequence[Register], *, double: bool) -> Register:
    """Emit a function of one or two floats.

    Args:
        lanes: Where the code goes, and how many lanes.
        code: From ``exp`` to ``sigmoid`` (not ``sqrt``), ``pow`` or ``atan2``.
        values: Registers of float, or of double.
        double: Whether they are double.

    Returns:
        The register of the result.
    """
    if not double:
        return FUNCTIONS[code](lanes, *values)
    if code in DOUBLE_FUNCTIONS:
        return DOUBLE_FUNCTIONS[code](lanes, *values)
    return library.emit(lanes, code, values)
