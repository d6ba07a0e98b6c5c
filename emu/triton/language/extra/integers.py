"""Functions of integers: counts and orders of bits, halves of products, bytes."""

from __future__ import annotations

from collections.abc import Callable

from emu.triton.language.arithmetic import where
from emu.triton.language.conversion import bitcast_to, cast_to
from emu.triton.language.extra.bits import signed, unsigned
from emu.triton.language.types import float64, int32, int64, uint32, uint64
from emu.triton.language.values import tensor


def popc(x: tensor) -> tensor:
    """Return the number of bits that are set."""
    # Sums of neighbouring fields, twice as wide each time; the product adds up the bytes in the highest one.
    bits = unsigned(x)
    width = x.dtype.primitive_bitwidth
    every = (1 << width) - 1
    bits = bits - ((bits >> 1) & (every // 3))
    bits = (bits & (every // 5)) + ((bits >> 2) & (every // 5))
    bits = (bits + (bits >> 4)) & (every // 17)
    return cast_to((bits * (every // 255)) >> (width - 8), int32)


def clz(x: tensor) -> tensor:
    """Return the number of bits above the highest that is set."""
    # Sets every bit below the highest set one; the zeros that are left are the leading ones.
    bits, shift = unsigned(x), 1
    while shift < x.dtype.primitive_bitwidth:
        bits = bits | (bits >> shift)
        shift *= 2
    return popc(~bits)


def ffs(x: tensor) -> tensor:
    """Return the position of the lowest set bit, counted from 1; 0 where there is none."""
    lowest = unsigned(x) & (~unsigned(x) + 1)
    return where(x == 0, 0, popc(lowest - 1) + 1)


def brev(x: tensor) -> tensor:
    """Return the bits in reverse order."""
    bits = unsigned(x)
    width = x.dtype.primitive_bitwidth
    every = (1 << width) - 1
    shift = 1
    while shift < width:
        # Swaps neighbouring fields, twice as wide each time.
        low = every // ((1 << shift) + 1)
        bits = ((bits >> shift) & low) | ((bits & low) << shift)
        shift *= 2
    return bitcast_to(bits, x.dtype)


def bytes_at(low: tensor, high: tensor, selector: tensor) -> tensor:
    """Return four bytes of two words, each chosen by three bits of a nibble; a fourth bit spreads its sign.

    All are uint32.
    """
    both = (cast_to(high, uint64) << 32) | cast_to(low, uint64)
    result = None
    for place in range(4):
        nibble = selector >> (4 * place)
        byte = cast_to(both >> cast_to((nibble & 7) * 8, uint64), uint32) & 0xFF
        spread = where(byte >= 0x80, 0xFF, 0) + byte * 0
        chosen = where((nibble & 8) != 0, spread, byte) << (8 * place)
        result = chosen if result is None else result | chosen
    assert result is not None
    return result


def byte_perm(x: tensor, y: tensor, s: tensor) -> tensor:
    """Return four bytes of two words, chosen by three bits of each nibble of the selector."""
    selector = unsigned(s) & 0x7777
    return bitcast_to(bytes_at(unsigned(x), unsigned(y), selector), x.dtype)


def mul24(x: tensor, y: tensor) -> tensor:
    """Return the lower 32 bits of the product of the lower 24 bits of each, with sign or without."""
    return (x << 8 >> 8) * (y << 8 >> 8)


def sad(x: tensor, y: tensor, z: tensor) -> tensor:
    """Return the distance of two numbers, plus a third."""
    larger = where(x < y, unsigned(y) - unsigned(x), unsigned(x) - unsigned(y))
    return larger + unsigned(z)


def half_sum(x: tensor, y: tensor) -> tensor:
    """Return the mean of two numbers, rounded down, without overflow."""
    return (x & y) + ((x ^ y) >> 1)


def half_sum_up(x: tensor, y: tensor) -> tensor:
    """Return the mean of two numbers, rounded up, without overflow."""
    return (x | y) - ((x ^ y) >> 1)


def hiloint2double(high: tensor, low: tensor) -> tensor:
    """Return the fp64 of two halves of its bits."""
    bits = (cast_to(high, int64) << 32) | cast_to(unsigned(low), int64)
    return bitcast_to(bits, float64)


def double2hiint(x: tensor) -> tensor:
    """Return the upper half of the bits."""
    return cast_to(signed(x) >> 32, int32)


def double2loint(x: tensor) -> tensor:
    """Return the lower half of the bits."""
    return cast_to(signed(x), int32)


FUNCTIONS: dict[str, Callable[..., tensor]] = {
    "popc": popc,
    "clz": clz,
    "ffs": ffs,
    "brev": brev,
    "byte_perm": byte_perm,
    "mul24": mul24,
    "sad": sad,
    "hadd": half_sum,
    "rhadd": half_sum_up,
    "hiloint2double": hiloint2double,
    "double2hiint": double2hiint,
    "double2loint": double2loint,
}
"""The functions of this module by their names in ``libdevice``."""
