"""The remainder of a division of f32, as fmod has it."""

from __future__ import annotations

from emu.tile.cpu.numeric.mathematics import library
from emu.tile.cpu.numeric.mathematics.shared import outlined, unlikely
from emu.tile.cpu.numeric.vector_builder import DOUBLE, FLOAT, VectorBuilder, intrinsic
from emu.tile.llvm import Register


def remainder(lanes: VectorBuilder, x: Register, y: Register) -> Register:
    """x - y * trunc(x / y), exactly; the sign is that of x.

    In f64 the rounded quotient may be the next integer, but what is left is exact, and shows it. If in any
    lane the quotient has too many bits, all go to the C library.
    """
    return outlined(lanes, "fmodf", _remainder, (x, y))


def _remainder(lanes: VectorBuilder, x: Register, y: Register) -> Register:
    build = lanes.builder
    wide = lanes.type(DOUBLE)
    size, divisor = (lanes.abs(build.fpext(value, wide)) for value in (x, y))
    zero = lanes.f64(0.0)
    quotient = intrinsic(build, "trunc", (build.fdiv(size, divisor),))
    rest = lanes.fma(build.fneg(quotient), divisor, size)
    low = build.select(build.fcmp_ordered("<", rest, zero), divisor, zero)
    rest = build.fadd(rest, low)
    result = lanes.copysign(build.fptrunc(rest, lanes.type(FLOAT)), x)
    # of what is infinite, too; not of 0 / 0 and NaN, for which the rest is NaN already
    far = build.fcmp_ordered(">", quotient, lanes.f64(2.0**52))
    infinite = build.fcmp_ordered("==", divisor, lanes.f64(float("inf")))
    far = build.or_(far, infinite)
    return unlikely(lanes, far, result, lambda: library.call(lanes, "fmodf", (x, y)))
