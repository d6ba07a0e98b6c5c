"""Maxima and minima by functions of NumPy: NaN wins, and -0 is less than +0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emu.stablehlo.reference.dtypes import is_float
from emu.stablehlo.reference.values import Array

KEYED = ("float16", "bfloat16", "float32", "float64")
"""Floats that have an order as integers, with NaN at its ends."""


@dataclass(frozen=True)
class Extremum:
    """How a combiner is computed by NumPy's function of the same name.

    NumPy takes any one of two zeros, and is slow for floats of 16 bits. Integers that are ordered as floats are
    have neither trouble.

    Attributes:
        dtype: dtype of the elements.
        is_largest: Whether the largest is looked for; else the smallest.
        is_needed: Whether the combiner looks for either, among floats.
    """

    dtype: np.dtype[np.generic]
    is_largest: bool
    is_needed: bool

    @staticmethod
    def of(function: str, dtype: np.dtype[np.generic]) -> Extremum:
        """Return that of a combiner."""
        names = ("stablehlo.minimum", "stablehlo.maximum")
        return Extremum(dtype, function == names[1], function in names and is_float(dtype))

    def keys(self, x: Array, start: Array) -> tuple[tuple[Array, Array], bool]:
        """Return elements and a start as integers, or as they are; and whether they are integers."""
        if not self.is_needed or self._is_plain(x, start):
            return (x, start), False
        return (self._key(x), self._key(start)), True

    def _is_plain(self, *arrays: Array) -> bool:
        """Return whether NumPy's function has the same bits: where no zero is negative."""
        if self.dtype.itemsize < 4:
            return False
        bits = np.dtype(f"i{self.dtype.itemsize}")
        return not any((x.view(bits) == np.iinfo(bits).min).any() for x in arrays)

    def _key(self, x: Array) -> Array:
        key = _ordered(x.view(np.dtype(f"i{self.dtype.itemsize}")))
        infinity = np.asarray(np.inf, self.dtype).view(key.dtype)
        limits = np.iinfo(key.dtype)
        outside = key < ~infinity if self.is_largest else key > infinity
        if outside.any():  # NaN at the wrong end
            key = np.where(
                outside, key.dtype.type(limits.max if self.is_largest else limits.min), key
            )
        return key

    def values(self, keys: Array) -> Array:
        """Return the floats that integers stand for."""
        return _ordered(keys).view(self.dtype)


def _ordered(bits: Array) -> Array:
    """Return the bits of floats as integers of the same order, or these as bits again."""
    limits = np.iinfo(bits.dtype)
    return np.asarray(
        bits ^ ((bits >> bits.dtype.type(limits.bits - 1)) & bits.dtype.type(limits.max))
    )
