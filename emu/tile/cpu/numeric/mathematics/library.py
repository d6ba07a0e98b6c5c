"""Functions of doubles: the C library's, lane by lane, in a loop that lies outside the caller."""

from __future__ import annotations

from collections.abc import Sequence

from emu.tile.cpu.numeric.mathematics.shared import by_lane
from emu.tile.cpu.numeric.vector_builder import VectorBuilder, declare, intrinsic, scalar_of
from emu.tile.llvm import Register
from emu.tile.ops import Code


def emit(lanes: VectorBuilder, code: Code, values: Sequence[Register]) -> Register:
    """Emit a function of doubles.

    Args:
        lanes: Where the code goes, and how many lanes.
        code: From ``exp`` to ``sigmoid``, ``pow`` or ``atan2``.
        values: Registers of double.

    Returns:
        The register of the result.
    """
    build = lanes.builder
    if code is Code.SQRT:
        return intrinsic(build, "sqrt", values)
    if code is Code.RSQRT:
        return build.fdiv(lanes.f64(1.0), intrinsic(build, "sqrt", values))
    return call(lanes, code.name.lower(), values)


def fmod(lanes: VectorBuilder, x: Register, y: Register) -> Register:
    """Emit the remainder of a division of doubles."""
    return call(lanes, "fmod", (x, y))


def call(lanes: VectorBuilder, name: str, values: Sequence[Register]) -> Register:
    """Emit calls of a function of libm, of floats or of doubles, for each lane."""
    scalar = scalar_of(values[0].type)
    function = declare(lanes.builder, name, scalar, [scalar] * len(values))
    return by_lane(lanes, name, lambda build, *one: build.call(function, one), values)
