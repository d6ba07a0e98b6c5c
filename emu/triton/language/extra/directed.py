"""Arithmetic and conversions that round down, up or toward zero.

Each takes the result to nearest, finds the sign of what that rounding has left out exactly, and steps to the
neighbour where the direction asks for it. The processor's rounding mode stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable

from emu.tile.ops import Code
from emu.triton.language import mathematics
from emu.triton.language.arithmetic import clamp, where
from emu.triton.language.conversion import bitcast_to, cast_to
from emu.triton.language.extra.bits import (
    apply,
    exponent_of,
    fma,
    is_finite,
    is_infinite,
    is_nan,
    like,
    power_of_two,
    scaled_by,
    unsigned,
    widened,
)
from emu.triton.language.types import dtype, float32, float64, uint32
from emu.triton.language.values import tensor

Body = Callable[..., tensor]


def stepped(nearest: tensor, rest: tensor, mode: str) -> tensor:
    """Return the result that a rounding mode asks for.

    Args:
        nearest: The exact result, rounded to nearest.
        rest: A number with the sign of the exact result minus ``nearest``; 0 where that is exact.
        mode: ``"rn"``, ``"rz"``, ``"rd"`` or ``"ru"``.
    """
    if mode == "rn":
        return nearest
    bits = unsigned(nearest)
    top = 1 << (nearest.dtype.primitive_bitwidth - 1)
    negative = bits >= top
    zero = nearest == 0
    below, above = rest < 0, rest > 0
    if mode == "rz":
        inward = (negative & above) | (~negative & below)
        # A nearest of zero has nothing between it and zero.
        return bitcast_to(where(inward & ~zero, bits - 1, bits), nearest.dtype)
    if mode == "rd":
        bits = where(below, where(negative, bits + 1, bits - 1), bits)
        return bitcast_to(where(below & zero, top | 1, bits), nearest.dtype)
    bits = where(above, where(negative, bits - 1, bits + 1), bits)
    return bitcast_to(where(above & zero, 1, bits), nearest.dtype)


def _two_sum(a: tensor, b: tensor) -> tuple[tensor, tensor]:
    """Return the sum, and what its rounding left out, of numbers whose sum does not overflow."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def _rest_of(high: tensor, low: tensor, nearest: tensor) -> tensor:
    """Return the sign of ``high + low - nearest``; ``nearest`` is fp32, the others fp64."""
    gap = high - widened(nearest)
    # Where the nearest is an infinity that a finite result became, the gap has the right sign, too.
    return where(gap == 0, low, gap)


def _signed_zero(result: tensor, exact_zero: tensor, mode: str) -> tensor:
    """Give exact zeros of opposite terms the sign of the mode: minus when rounding down."""
    return where(exact_zero, like(result, -0.0), result) if mode == "rd" else result


def _unit(x: tensor, exponent: tensor) -> tensor:
    """Return ``x * 2 ** -exponent`` of a number with that exponent: 1 or more, below 2; 0 stays."""
    return where(x == 0, x, scaled_by(x, -exponent))


def _fma_rest(a: tensor, b: tensor, c: tensor, r: tensor) -> tensor:
    """Return a number with the sign of ``a * b + c - r`` of finite fp64, exactly; 0 if that is 0.

    ``r`` is the nearest number to the exact result, or any number that is far below both terms.
    """
    # All is moved to exponents near 0, where nothing is lost; a term that is 2**200 times smaller than the
    # other one counts by its sign only, and may be moved nearer.
    product_exponent = where((a == 0) | (b == 0), 0, exponent_of(a) + exponent_of(b))
    distance = where(c == 0, 0, exponent_of(c) - product_exponent)
    distance = where((a == 0) | (b == 0), 0, distance)
    base = where((a == 0) | (b == 0), where(c == 0, 0, exponent_of(c)), product_exponent)
    p = _unit(a, exponent_of(a))
    q = _unit(b, exponent_of(b))
    addend = _unit(c, exponent_of(c)) * power_of_two(clamp(distance, -300, 300))
    nearest = fma(p, q, addend)
    # The rounding of r, against that of the same sum without a limit on exponents.
    target = where(clamp(distance, -300, 300) == distance, scaled_by(r, -base), nearest)
    target = where(r == 0, r, target)
    gap = nearest - target
    high = p * q
    low = fma(p, q, -high)
    first, first_rest = _two_sum(addend, low)
    second, second_rest = _two_sum(high, first)
    error = ((second - nearest) + second_rest) + first_rest
    return where(gap == 0, error, gap)


def _overflowed(result: tensor, rest: tensor, finite: tensor) -> tensor:
    """Set the sign of what the rounding left out where finite operands gave an infinity."""
    return where(finite & is_infinite(result), -result, rest)


def add(mode: str) -> Body:
    """Make the sum that is rounded in a mode."""

    def body(a: tensor, b: tensor) -> tensor:
        result = a + b
        if mode == "rn":
            return result
        if a.dtype == float32:
            rest = _rest_of(*_two_sum(widened(a), widened(b)), result)
        else:
            swap = mathematics.abs(a) < mathematics.abs(b)
            large, small = where(swap, b, a), where(swap, a, b)
            rest = small - (result - large)
        rest = where(is_finite(result), rest, 0.0)
        rest = _overflowed(result, rest, is_finite(a) & is_finite(b))
        both_positive = (unsigned(a) | unsigned(b)) == 0
        zero = (result == 0) & ~both_positive
        return _signed_zero(stepped(result, rest, mode), zero, mode)

    return body


def sub(mode: str) -> Body:
    """Make the difference that is rounded in a mode."""
    inner = add(mode)
    return lambda a, b: inner(a, apply(Code.NEG, b))


def fused(mode: str) -> Body:
    """Make ``a * b + c`` that is rounded once, in a mode."""

    def body(a: tensor, b: tensor, c: tensor) -> tensor:
        result = apply(Code.FMA, a, b, c)
        if mode == "rn":
            return result
        finite = is_finite(a) & is_finite(b) & is_finite(c)
        if a.dtype == float32:
            high, low = _two_sum(widened(a) * widened(b), widened(c))
            rest = _rest_of(high, low, result)
            exact_zero = (result == 0) & (high == 0) & (low == 0)
        else:
            rest = _fma_rest(
                *(where(finite, v, 0.0) for v in (a, b, c)), where(finite, result, 0.0)
            )
            exact_zero = (result == 0) & (rest == 0)
        rest = where(finite & is_finite(result), rest, 0.0)
        rest = _overflowed(result, rest, finite)
        positive = (unsigned(a * b) | unsigned(c)) == 0
        # A product that is too small for its format is no zero: its sum with 0 is not an exact zero.
        return _signed_zero(stepped(result, rest, mode), exact_zero & ~positive, mode)

    return body


def mul(mode: str) -> Body:
    """Make the product that is rounded in a mode."""

    def body(a: tensor, b: tensor) -> tensor:
        result = a * b
        if mode == "rn":
            return result
        finite = is_finite(a) & is_finite(b)
        if a.dtype == float32:
            rest = _rest_of(widened(a) * widened(b), widened(like(a, 0.0)), result)
        else:
            zero = like(a, 0.0)
            rest = _fma_rest(
                where(finite, a, 0.0), where(finite, b, 0.0), zero, where(finite, result, 0.0)
            )
        rest = where(finite & is_finite(result), rest, 0.0)
        return stepped(result, _overflowed(result, rest, finite), mode)

    return body


def div(mode: str) -> Body:
    """Make the quotient that is rounded in a mode."""

    def body(a: tensor, b: tensor) -> tensor:
        result = apply(Code.DIV, a, b)
        if mode == "rn":
            return result
        finite = is_finite(a) & is_finite(b) & (b != 0)
        fits = finite & is_finite(result)
        # The sign of a - q * b is that of what q leaves out, times the sign of b.
        if a.dtype == float32:
            rest = widened(a) - widened(result) * widened(b)
        else:
            quotient = where(fits, result, 0.0)
            rest = _fma_rest(-quotient, where(fits, b, 0.0), where(fits, a, 0.0), like(a, 0.0))
        rest = where(b < 0, -rest, rest)
        rest = cast_to(where(fits, rest, 0.0), result.dtype) if a.dtype == float64 else rest
        rest = where(fits, rest, 0.0)
        return stepped(result, _overflowed(result, rest, finite), mode)

    return body


def rcp(mode: str) -> Body:
    """Make one by a number, rounded in a mode."""
    inner = div(mode)
    return lambda x: inner(like(x, 1.0), x)


def sqrt(mode: str) -> Body:
    """Make the square root that is rounded in a mode."""

    def body(x: tensor) -> tensor:
        result = apply(Code.SQRT, x)
        if mode == "rn":
            return result
        inside = (x > 0) & is_finite(x)
        root = where(inside, result, 0.0)
        if x.dtype == float32:
            rest = widened(x) - widened(root) * widened(root)
        else:
            rest = _fma_rest(-root, root, where(inside, x, 0.0), like(x, 0.0))
        return stepped(result, where(inside, rest, 0.0), mode)

    return body


def narrow(mode: str) -> Body:
    """Make the conversion of fp64 to fp32 that rounds in a mode."""

    def body(x: tensor) -> tensor:
        result = cast_to(x, float32)
        rest = where(is_finite(x), x - widened(result), 0.0)
        return stepped(result, rest, mode)

    return body


def from_integer(mode: str, to: dtype) -> Body:
    """Make the conversion of an integer to a float that rounds in a mode."""

    def body(x: tensor) -> tensor:
        result = cast_to(x, to)
        if mode == "rn":
            return result
        if x.dtype.primitive_bitwidth == 32:
            return stepped(result, widened(x) - widened(result), mode)
        # Both halves are doubles, and so is the sum of them with what its rounding leaves out.
        upper = cast_to(x >> 32, float64) * 2.0**32
        lower = cast_to(cast_to(x, uint32), float64)
        high, low = _two_sum(upper, lower)
        return stepped(result, _rest_of(high, low, result), mode)

    return body


_CODES = {"rn": Code.RINT, "rz": Code.TRUNC, "rd": Code.FLOOR, "ru": Code.CEIL}


def to_integer(mode: str, to: dtype) -> Body:
    """Make the conversion of a float to an integer that rounds in a mode.

    What is too large saturates. NaN gives 0; where either type has 64 bits, the integer with the highest bit
    alone set.
    """

    def body(x: tensor) -> tensor:
        return nan_or(x, cast_to(apply(_CODES[mode], x), to))

    return body


def nan_or(x: tensor, integer: tensor) -> tensor:
    """Put what a GPU gives for NaN in the place of the integer of a NaN."""
    to = integer.dtype
    if x.dtype != float64 and to.primitive_bitwidth < 64:
        return where(is_nan(x), 0, integer)
    top = 1 << (to.primitive_bitwidth - 1)
    return where(is_nan(x), -top if to.is_int_signed() else top, integer)
