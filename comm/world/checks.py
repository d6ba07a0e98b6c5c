"""Argument checks of the communication layer, which raise its own error."""

from __future__ import annotations

import math
import operator
from typing import Any

from emu.comm.errors import ArgumentError
from emu.comm.layout import MAX_RANK
from emu.kernels.core.checks import Arguments
from emu.kernels.core.messages import shown

check = Arguments(ArgumentError)


def extents_of(shape: Any, itemsize: int) -> tuple[int, ...]:
    """Return a shape as a tuple, after checking that its bytes can be counted in 63 bits."""
    try:
        extents: tuple[int, ...] = (operator.index(shape),)
    except TypeError:
        extents = check.integers("shape", shape)
    if len(extents) > MAX_RANK:
        raise ArgumentError(f"shape must have at most {MAX_RANK} axes, but got {shown(extents)}")
    if any(n < 0 for n in extents):
        raise ArgumentError(f"shape must not be negative, but got {shown(extents)}")
    if math.prod(max(n, 1) for n in extents) * itemsize >= 1 << 63:
        raise ArgumentError(f"shape must stand for less than 2**63 bytes, but got {shown(extents)}")
    return extents
