"""Mathematical functions on registers: f32 by polynomials of our own, f64 by the C library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emu.tile.cpu.mathematics import library
from emu.tile.cpu.registers import Lanes
from emu.tile.ops import Code


def emit(lanes: Lanes, code: Code, values: Sequence[Any], *, double: bool) -> Any:
    """Emit a function of one or two floats.

    Args:
        lanes: Where the code goes, and how many lanes.
        code: From ``exp`` to ``sigmoid``, ``pow`` or ``atan2``.
        values: Registers of float, or of double.
        double: Whether they are double.

    Returns:
        The register of the result.
    """
    if double:
        return library.emit(lanes, code, values)
    build = lanes.builder
    wide = [build.fpext(value, library.double(lanes)) for value in values]
    return build.fptrunc(library.emit(lanes, code, wide), values[0].type)
