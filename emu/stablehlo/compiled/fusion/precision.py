"""``reduce_precision`` written in the tile IR, on the bits of floats."""

from __future__ import annotations

from emu.mlir.ir import Operation
from emu.stablehlo.checks import integer
from emu.tile.ir import Builder, Value
from emu.tile.ops import Code
from emu.tile.types import DType

_FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23)}
"""Bits of exponent and mantissa."""


def precision_of(op: Operation) -> str:
    """Return the bits of exponent and mantissa that a ``reduce_precision`` leaves, as a word."""
    return f"{integer(op, 'exponent_bits')} {integer(op, 'mantissa_bits')}"


def can_reduce(op: Operation, dtype: DType) -> bool:
    """Return whether bits tell the result: of formats whose exponents the dtype has."""
    known = _FORMATS.get(str(dtype))
    return known is not None and 1 <= integer(op, "exponent_bits") <= known[0]


def reduce_precision(b: Builder, word: str, x: Value) -> Value:
    """Round to a format of fewer bits, which has infinities and no subnormal numbers.

    Args:
        b: Emits the operations.
        word: Bits of exponent and mantissa, as of :func:`precision_of`.
        x: Floats.
    """
    full_exponent, full_mantissa = _FORMATS[str(x.dtype)]
    exponent, mantissa = map(int, word.split())
    dropped = max(full_mantissa - mantissa, 0)
    bias, narrow = (1 << (full_exponent - 1)) - 1, (1 << (exponent - 1)) - 1
    infinity = ((1 << full_exponent) - 1) << full_mantissa
    bits = b.bitcast(x, x.dtype.as_unsigned())
    sign_bit = 1 << (bits.dtype.bits - 1)

    def number(value: int) -> Value:
        return b.constant(value, bits.type)

    sign = b.binary(Code.AND, bits, number(sign_bit))
    size = b.binary(Code.AND, bits, number(sign_bit - 1))
    rounded = _rounded(b, size, dropped, full_mantissa)
    least = (1 - narrow + bias) << full_mantissa
    too_small = b.compare(Code.LT, rounded, number(least))
    found = b.select(too_small, number(0), rounded)
    if narrow == bias:
        # Subnormals are rounded by their own leading bit: the largest become the least normal number.
        subnormal = b.compare(Code.LT, size, number(1 << full_mantissa))
        found = b.select(subnormal, _of_subnormals(b, size, dropped, full_mantissa), found)
    too_large = b.compare(Code.GE, rounded, number((narrow + 1 + bias) << full_mantissa))
    found = b.select(too_large, number(infinity), found)
    # A format without a mantissa has infinity and no NaN.
    special = size if mantissa else number(infinity)
    found = b.select(b.compare(Code.GE, size, number(infinity)), special, found)
    return b.bitcast(b.binary(Code.OR, sign, found), x.dtype)


def _rounded(b: Builder, size: Value, dropped: int, full_mantissa: int) -> Value:
    """Round the lowest bits away, halves to even."""
    if not dropped:
        return size

    def number(value: int) -> Value:
        return b.constant(value, size.type)

    # Without a mantissa what is kept is the leading bit, which is odd.
    odd = number(1)
    if dropped < full_mantissa:
        odd = b.binary(Code.AND, b.binary(Code.SHR, size, number(dropped)), odd)
    half = b.binary(Code.ADD, odd, number((1 << (dropped - 1)) - 1))
    kept = ((1 << size.dtype.bits) - 1) ^ ((1 << dropped) - 1)
    return b.binary(Code.AND, b.binary(Code.ADD, size, half), number(kept))


def _of_subnormals(b: Builder, size: Value, dropped: int, full_mantissa: int) -> Value:
    """Return the least normal number for what is rounded up to it, and zero for all smaller ones."""

    def number(value: int) -> Value:
        return b.constant(value, size.type)

    if dropped < 2:
        return number(0)
    first = (1 << full_mantissa) - (1 << (dropped - 2))
    return b.select(b.compare(Code.GE, size, number(first)), number(1 << full_mantissa), number(0))
