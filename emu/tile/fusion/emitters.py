"""What a front end gives for each kind of node: a function that writes it in the tile IR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from emu.tile.ir import Builder, Value
from emu.tile.types import DType


@dataclass(frozen=True, slots=True)
class Facts:
    """What an operation is besides its operands.

    Attributes:
        dtype: dtype of the result.
        word: The relation of a comparison, with ``TOTAL`` behind it for the total order; the bits of exponent and
            mantissa that a ``reduce_precision`` leaves; else empty.
    """

    dtype: DType
    word: str = ""


Emit: TypeAlias = Callable[[Builder, Facts, list[Value]], Value]
"""Writes an operation: takes a builder, the facts, and the operands as tiles or scalars of one shape."""

ARGUMENTS = frozenset({"argmax", "argmin"})
"""Words of reductions of pairs of a value and its index to the index of the first extremum, or of the first NaN."""
