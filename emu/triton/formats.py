"""Formats of elements in Triton's language: the one table of which all others here are views.

The facts of a format are those of the kernels' descriptor, and its kind is that of the tile IR's dtype. Three
8-bit floats are in neither: their elements are bytes there, which ``language.small_floats`` converts.
"""

from __future__ import annotations

from typing import NamedTuple

import ml_dtypes
import numpy as np

from emu.kernels.core.dtype_table import ALL
from emu.tile import types as tile


class Format(NamedTuple):
    """Format of an element.

    Attributes:
        name: Triton's short name: ``int32``, ``fp16``, ``bf16``, ``fp8e5``.
        spelling: Its spelling in a signature: ``i32``, ``fp16``.
        kind: Boolean, signed, unsigned or floating.
        bits: Width; 1 for ``int1``, whose elements take a byte in memory.
        mantissa: Stored bits of the mantissa; 0 for integers.
        bias: Bias of the exponent; 0 for integers.
        element: The tile IR's dtype; None for a format that it does not have.
        numpy: The dtype of arrays; None for a format that NumPy and ml_dtypes don't have.
    """

    name: str
    spelling: str
    kind: tile.Kind
    bits: int
    mantissa: int = 0
    bias: int = 0
    element: tile.DType | None = None
    numpy: np.dtype[np.generic] | None = None

    @property
    def stored(self) -> tile.DType:
        """The tile IR's dtype of its elements: a byte where it has none of its own."""
        return self.element or tile.U8

    @property
    def is_float(self) -> bool:
        """Whether it is a float."""
        return self.kind is tile.Kind.FLOAT

    @property
    def language_name(self) -> str:
        """Name in ``triton.language``: ``float32``, ``bfloat16``, ``int8``."""
        if self.name.startswith("fp"):
            return "float" + self.name[2:]
        return "bfloat16" if self.name == "bf16" else self.name


_DESCRIPTORS = {descriptor.numpy: descriptor for descriptor in ALL}


def _computed(element: tile.DType) -> Format:
    known = _DESCRIPTORS[element.numpy]
    spelling = known.triton if element.is_float else element.name
    facts = (known.mantissa, known.bias, element, element.numpy)
    return Format(known.triton, spelling, element.kind, element.bits, *facts)


def _as_bytes(
    name: str, mantissa: int, bias: int, scalar: type[np.generic] | None = None
) -> Format:
    numpy = None if scalar is None else np.dtype(scalar)
    return Format(name, name, tile.Kind.FLOAT, 8, mantissa, bias, None, numpy)


_INTEGERS = (
    *(tile.I1, tile.I8, tile.I16, tile.I32, tile.I64),
    *(tile.U8, tile.U16, tile.U32, tile.U64),
)

# The order of the floats is that of Triton's `dtype.FP_TYPES`.
FORMATS: tuple[Format, ...] = (
    *map(_computed, _INTEGERS),
    _as_bytes("fp8e4b15", 3, 15),
    _computed(tile.F8E4M3FN),
    _as_bytes("fp8e4b8", 3, 8, ml_dtypes.float8_e4m3fnuz),
    _computed(tile.F8E5M2),
    _as_bytes("fp8e5b16", 2, 16, ml_dtypes.float8_e5m2fnuz),
    _computed(tile.F16),
    _computed(tile.BF16),
    _computed(tile.F32),
    _computed(tile.F64),
)
"""Every format."""

BY_NAME: dict[str, Format] = {f.name: f for f in FORMATS}
"""The formats by their short names."""

BY_SPELLING: dict[str, Format] = {f.spelling: f for f in FORMATS}
"""The formats by their spellings in a signature; ``u1`` and ``B``, too, are ``int1``."""
BY_SPELLING |= dict.fromkeys(("u1", "B"), BY_NAME["int1"])


def names(*kinds: tile.Kind) -> tuple[str, ...]:
    """Return the short names of the formats of some kinds."""
    return tuple(f.name for f in FORMATS if f.kind in kinds)
