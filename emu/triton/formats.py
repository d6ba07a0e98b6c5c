"""Formats of elements in Triton's language: the one table of which all others here are views.

Width, kind and NumPy dtype of a format are those of the tile IR's dtype, and what a float's fields are
comes from its NumPy dtype. Three 8-bit floats have no dtype in the tile IR: programs may name them and
read their facts, but not compute with them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes

from emu.tile import types as tile

_finfo: Any = ml_dtypes.finfo  # the package has no type for it


class Format(NamedTuple):
    """Format of an element.

    Attributes:
        name: Triton's short name: ``int32``, ``fp16``, ``bf16``, ``fp8e5``.
        spelling: Its spelling in a signature: ``i32``, ``fp16``.
        kind: Boolean, signed, unsigned or floating.
        bits: Width; 1 for ``int1``, whose elements take a byte in memory.
        mantissa: Stored bits of the mantissa; 0 for integers.
        bias: Bias of the exponent; 0 for integers.
        element: The tile IR's dtype; None for a format without arithmetic.
    """

    name: str
    spelling: str
    kind: tile.Kind
    bits: int
    mantissa: int = 0
    bias: int = 0
    element: tile.DType | None = None

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


def _integer(element: tile.DType) -> Format:
    name = f"{'uint' if element.kind is tile.Kind.UINT else 'int'}{element.bits}"
    return Format(name, element.name, element.kind, element.bits, element=element)


def _float(name: str, element: tile.DType) -> Format:
    facts = _finfo(element.numpy)
    bias = 1 - int(facts.minexp)  # the exponent of the smallest normal number is stored as 1
    return Format(name, name, element.kind, element.bits, int(facts.nmant), bias, element)


def _without_arithmetic(name: str, mantissa: int, bias: int) -> Format:
    return Format(name, name, tile.Kind.FLOAT, 8, mantissa, bias)


_INTEGERS = (
    *(tile.I1, tile.I8, tile.I16, tile.I32, tile.I64),
    *(tile.U8, tile.U16, tile.U32, tile.U64),
)

# The order of the floats is that of Triton's `dtype.FP_TYPES`.
FORMATS: tuple[Format, ...] = (
    *map(_integer, _INTEGERS),
    _without_arithmetic("fp8e4b15", 3, 15),
    _float("fp8e4nv", tile.F8E4M3FN),
    _without_arithmetic("fp8e4b8", 3, 8),
    _float("fp8e5", tile.F8E5M2),
    _without_arithmetic("fp8e5b16", 2, 16),
    _float("fp16", tile.F16),
    _float("bf16", tile.BF16),
    _float("fp32", tile.F32),
    _float("fp64", tile.F64),
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
