"""Special functions of fp32: computed in fp64 with series as long as fp32 needs, and rounded once.

No library is called, no operation is a division where a reciprocal of fp32 and one step of Newton's method do, and what
can be chosen or clamped in fp32 is: lanes of fp64 are half as many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from emu.tile.ops import Code
from emu.triton.language import mathematics
from emu.triton.language.arithmetic import where
from emu.triton.language.conversion import bitcast_to, cast_to
from emu.triton.language.extra import single_coefficients as series
from emu.triton.language.extra.bits import INFINITY, NAN, apply, copysign, fma, like, unsigned
from emu.triton.language.types import float32, float64
from emu.triton.language.values import tensor

_ROUND = 1.5 * 2.0**52
"""Added to a small fp64, it leaves the nearest integer in the last bits."""
_ONE = 0x3FF0000000000000
_ROOT_HALF = 0x3FE6A09E667F3BCD
_LN2 = math.log(2)
_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)


def _wide(x: tensor) -> tensor:
    return cast_to(x, float64)


def _narrow(x: tensor) -> tensor:
    return cast_to(x, float32)


def _sum(x: tensor, powers: Sequence[float]) -> tensor:
    """Return the sum of ``powers[k] * x ** k``."""
    total = fma(x, powers[-1], powers[-2])
    for power in reversed(powers[:-2]):
        total = fma(total, x, power)
    return total


def _below(x: tensor, limit: float) -> tensor:
    """Return the smaller one, or the limit of NaN: one instruction, where ``minimum`` takes three."""
    return where(x < limit, x, limit)


def _above(x: tensor, limit: float) -> tensor:
    """Return the larger one, or the limit of NaN."""
    return where(x > limit, x, limit)


def _exp(x: tensor) -> tensor:
    """Return the exponential of fp64 from -700 to 700."""
    shifted = fma(x, 1 / _LN2, _ROUND)
    power = _sum(fma(shifted - _ROUND, -_LN2, x), series.EXP)
    return power * bitcast_to((unsigned(shifted) << 52) + _ONE, float64)


def _log(x: tensor, powers: Sequence[float] = series.LOG) -> tensor:
    """Return the logarithm of positive, normal fp64; of others any number."""
    bits = unsigned(x)
    offset = bits + (_ONE - _ROOT_HALF)
    exponent = bitcast_to((offset >> 52) | 0x4330000000000000, float64) - (2.0**52 + 1023)
    f = bitcast_to(bits - (offset & (0xFFF << 52)) + _ONE, float64) - 1.0
    rest = fma(f, _sum(f, powers), -0.5)
    return fma(exponent, _LN2, fma(f * f, rest, f))


def _reciprocal(x: tensor, near: tensor) -> tensor:
    """Return one by an fp64 whose reciprocal is a normal fp32, to 46 bits; ``near`` is it as fp32."""
    first = _wide(1.0 / near)
    return fma(fma(-x, first, 1.0), first, first)


def _inverse_root(x: tensor, near: tensor) -> tensor:
    """Return one by the square root of an fp64 in the range of fp32, to 50 bits; ``near`` is it as fp32."""
    guess = bitcast_to(0x5F3759DF - (unsigned(near) >> 1), float32)
    for _ in range(2):  # the guess is right to 5 bits, then to 9 and to 17
        guess = guess * fma((near * guess) * guess, -0.5, 1.5)
    y = _wide(guess)
    rest = fma((x * y) * -y, 1.0, 1.0)
    return fma(y * rest, fma(rest, 0.375, 0.5), y)


def _or_nan(x: tensor, value: tensor) -> tensor:
    return where(x == x, value, x)  # noqa: PLR0124 - false of NaN


# ---- the error function's family


def _tail(size: tensor, square: tensor, near: tensor) -> tensor:
    """Return ``erfc`` of fp64 from 0 to 10.1, whose square is given, and what it is as fp32."""
    inverse = _reciprocal(size + 3.75, near + 3.75)
    return _exp(-square) * (inverse * _sum(inverse, series.ERFCX))


def erfc(x: tensor) -> tensor:
    """Return one minus the error function."""
    near = _below(mathematics.abs(x), 10.1)
    size = _wide(near)
    tail = _tail(size, size * size, near)
    return _or_nan(x, _narrow(where(x < 0, 2.0 - tail, tail)))


def normcdf(x: tensor) -> tensor:
    """Return the share of a normal distribution below a number."""
    near = _below(mathematics.abs(x), 14.2)
    size, root_half = _wide(near), math.sqrt(0.5)
    tail = 0.5 * _tail(size * root_half, 0.5 * (size * size), near * root_half)
    return _or_nan(x, _narrow(where(x > 0, 1.0 - tail, tail)))


def erfinv(x: tensor) -> tensor:
    """Return the number whose error function is ``x``."""
    wide, size = _wide(x), mathematics.abs(x)
    w = -_log(fma(-wide, wide, 1.0))
    ratio = where(w < 5, _sum(w - 2.5, series.ERFINV_CENTRAL), _sum(w - 10.85, series.ERFINV_TAIL))
    value = where(size == 1, x * INFINITY, _narrow(wide * ratio))
    return where(size <= 1, value, NAN)


def _erfcinv(y: tensor) -> tensor:
    """Return the inverse of ``erfc`` for fp64 between 0 and 2; of others any number."""
    w = -_log(y * (2.0 - y))
    large = _above(w, 5.0)
    root = large * _inverse_root(large, _narrow(large))
    ratio = where(w < 5, _sum(w - 2.5, series.ERFINV_CENTRAL), _sum(root - 6.0, series.ERFINV_FAR))
    return (1.0 - y) * ratio


def _at_ends(x: tensor, end: float, value: tensor, sign: float) -> tensor:
    """Put infinities at 0 and at the end, and NaN outside."""
    value = where(x == 0, sign * INFINITY, where(x == end, -sign * INFINITY, value))
    return where((x >= 0) & (x <= end), value, NAN)


def erfcinv(y: tensor) -> tensor:
    """Return the number whose ``erfc`` is ``y``."""
    return _at_ends(y, 2.0, _narrow(_erfcinv(_wide(y))), 1.0)


def normcdfinv(p: tensor) -> tensor:
    """Return the number below which a share of a normal distribution lies."""
    wide = _wide(p)
    return _at_ends(p, 1.0, _narrow(-math.sqrt(2) * _erfcinv(wide + wide)), -1.0)


# ---- gamma


def _log_gamma(size: tensor, narrow: tensor, small: tensor) -> tuple[tensor, tensor]:
    """Return the logarithm of gamma of numbers of 0.75 or more, of small ones of one more; and the logarithm of those."""
    moved = where(small, size + 1.0, size)
    low, high = _below(moved, 3.0), _above(size, 3.0)
    near = ((low - 1.0) * (low - 2.0)) * _sum(low - 1.875, series.LGAMMA_MID)
    logarithm = _log(where(small, size, high), series.LOG_EXACT)
    inverse = _reciprocal(high, _above(narrow, 3.0))
    rest = fma(_sum(inverse * inverse, series.STIRLING), inverse, _LOG_ROOT_TWO_PI - 0.5)
    far = fma(high - 0.5, logarithm - 1.0, rest)
    return where(moved < 3, near, far), logarithm


def _sine_of_turns(size: tensor) -> tuple[tensor, tensor, tensor]:
    """Return ``sin(pi f)`` for what lies beyond the nearest integer; that, and the integer."""
    nearest = mathematics.unary(Code.RINT, size)
    fraction = size - nearest
    return fraction * _sum(fraction * fraction, series.SINPI), fraction, nearest


def lgamma(x: tensor) -> tensor:
    """Return the logarithm of the size of gamma."""
    narrow = mathematics.abs(x)
    size, small = _wide(narrow), narrow < 0.75
    value, logarithm = _log_gamma(size, narrow, small)
    right = where(small, value - logarithm, value)
    # To the left of 0 by reflection. Small numbers leave out the factor which gamma of one more has as well.
    sine, fraction, _ = _sine_of_turns(size)
    product = mathematics.abs(sine) * where(small, 1 / math.pi, size * (1 / math.pi))
    left = -_log(product, series.LOG_EXACT) - value
    result = _narrow(where(x < 0, left, right) + 0.0)  # of 1 it is 0, not -0
    pole = ((x <= 0) & (fraction == 0)) | (narrow == INFINITY)
    return _or_nan(x, where(pole, INFINITY, result))


def tgamma(x: tensor) -> tensor:
    """Return gamma."""
    narrow = mathematics.abs(x)
    size, small, negative = _wide(narrow), narrow < 0.75, x < 0
    value, _ = _log_gamma(_below(size, 60.0), _below(narrow, 60.0), small)
    power = _exp(where(negative, -value, value))
    sine, fraction, nearest = _sine_of_turns(size)
    half = nearest * 0.5
    odd = mathematics.unary(Code.RINT, half) != half
    below = where(odd, sine, -sine) * where(small, 1 / math.pi, size * (1 / math.pi))
    result = _narrow(power / where(negative, below, where(small, size, 1.0)))
    result = where(negative & (fraction == 0), NAN, result)
    result = where(x == 0, copysign(like(x, INFINITY), x), result)
    return _or_nan(x, where(x == -INFINITY, NAN, result))


# ---- Bessel functions

_ZERO_0 = (2.404825557695773, -1.176691651530894e-16)
_ZERO_1 = (3.8317059702075125, -1.5269184090088067e-16)
"""First zeros of j0 and j1: the nearest double, and the rest."""

# One by 2 pi in parts of 29 bits: the product of each with an fp32 is exact.
_TURN = 0x517CC1B727220A94FE13ABE8FA9A6EE06DB14ACC9E21C820FF28B1D5EF5
"""The first 237 binary places of ``1 / (2 pi)``."""
_TURNS = [
    ((_TURN >> (237 - 29 * (part + 1))) & (2**29 - 1)) * 2.0 ** (-29 * (part + 1))
    for part in range(6)
]


def _waves(x: tensor) -> tuple[tensor, tensor]:
    """Return the sum and the difference of sine and cosine of any fp32, given as fp64."""
    turns = like(x, 0.0)
    for part in _TURNS:
        product = x * part
        turns = turns + (product - mathematics.unary(Code.RINT, product))
    quarters = turns * 4.0
    shifted = quarters + _ROUND
    rest = quarters - (shifted - _ROUND)
    square = rest * rest
    sine, cosine = rest * _sum(square, series.SINE), _sum(square, series.COSINE)
    plus, minus = sine + cosine, sine - cosine
    count = unsigned(shifted)
    odd, sign = (count & 1) == 1, (count & 2) << 62

    def turned(value: tensor) -> tensor:
        return bitcast_to(unsigned(value) ^ sign, float64)

    return turned(where(odd, -minus, plus)), turned(where(odd, plus, minus))


def _far(
    size: tensor, even: Sequence[float], odd: Sequence[float]
) -> tuple[tensor, tensor, tensor, tensor]:
    """Return the two amplitudes beyond 5, and the waves that they belong to."""
    near = where(size < INFINITY, _above(size, 5.0), 5.0)
    high = _wide(near)
    root = _inverse_root(high, near)
    inverse = root * root
    square, amplitude = inverse * inverse, root * (1 / math.sqrt(math.pi))
    p = _sum(square, even) * amplitude
    q = _sum(square, odd) * (inverse * amplitude)
    return p, q, *_waves(high)


def _near_0(x: tensor) -> tensor:
    return (((x - _ZERO_0[0]) - _ZERO_0[1]) * (x + _ZERO_0[0])) * _sum(x * x, series.J0)


def _near_1(x: tensor) -> tensor:
    return (x * (((x - _ZERO_1[0]) - _ZERO_1[1]) * (x + _ZERO_1[0]))) * _sum(x * x, series.J1)


def j0(x: tensor) -> tensor:
    """Return the Bessel function of the first kind of order 0."""
    size = mathematics.abs(x)
    p, q, plus, minus = _far(size, series.P0, series.Q0)
    near = _near_0(_wide(_below(size, 5.0)))
    value = _narrow(where(size <= 5, near, fma(p, plus, -q * minus)))
    return _or_nan(x, where(size == INFINITY, 0.0, value))


def j1(x: tensor) -> tensor:
    """Return the Bessel function of the first kind of order 1."""
    size = mathematics.abs(x)
    p, q, plus, minus = _far(size, series.P1, series.Q1)
    near = _near_1(_wide(_below(size, 5.0)))
    value = _narrow(where(size <= 5, near, fma(p, minus, q * plus)))
    value = where(size == INFINITY, 0.0, value)
    return _or_nan(x, where(x < 0, -value, where(x == 0, x, value)))


def _second_kind(x: tensor, value: tensor) -> tensor:
    value = where(x == INFINITY, 0.0, value)
    return where(x >= 0, where(x == 0, -INFINITY, value), NAN)


def y0(x: tensor) -> tensor:
    """Return the Bessel function of the second kind of order 0."""
    p, q, plus, minus = _far(x, series.P0, series.Q0)
    low = _wide(_below(x, 5.0))
    near = fma(_log(low) * (2 / math.pi), _near_0(low), _sum(low * low, series.Y0))
    return _second_kind(x, _narrow(where(x <= 5, near, fma(p, minus, q * plus))))


def y1(x: tensor) -> tensor:
    """Return the Bessel function of the second kind of order 1."""
    p, q, plus, minus = _far(x, series.P1, series.Q1)
    low = _wide(_below(x, 5.0))
    near = fma(_log(low), _near_1(low), -1.0 / low) * (2 / math.pi)
    near = fma(low, _sum(low * low, series.Y1), near)
    return _second_kind(x, _narrow(where(x <= 5, near, fma(q, minus, -p * plus))))


def _modified(x: tensor, powers: Sequence[float], large: Sequence[float]) -> tuple[tensor, tensor]:
    """Return the powers up to 8, and beyond 8 the whole function."""
    size = mathematics.abs(x)
    low, near = _wide(_below(size, 8.0)), _below(_above(size, 8.0), 100.0)
    high = _wide(near)
    root = _inverse_root(high, near)
    return _sum(low * low, powers), (_exp(high) * root) * _sum(root * root, large)


def i0(x: tensor) -> tensor:
    """Return the modified Bessel function of order 0."""
    near, far = _modified(x, series.I0, series.I0_LARGE)
    return _or_nan(x, _narrow(where(mathematics.abs(x) < 8, near, far)))


def i1(x: tensor) -> tensor:
    """Return the modified Bessel function of order 1."""
    near, far = _modified(x, series.I1, series.I1_LARGE)
    size = mathematics.abs(x)
    value = where(size < 8, near * _wide(_below(size, 8.0)), far)
    return _or_nan(x, copysign(_narrow(value), x))


# ---- roots


def _inverse_cube_root(size: tensor) -> tuple[tensor, tensor]:
    """Return one by the cube root of normal fp32 to 45 bits, and the number, both as fp64."""
    third = apply(Code.MULHI, unsigned(size), like(unsigned(size), 0x55555556))
    guess = bitcast_to(0x548C2B4B - third, float32)
    cube = (size * guess) * (guess * guess)
    guess = guess * fma(cube, fma(cube, 0.5093818292, -1.2509524245), 1.752319676)
    wide, y = _wide(size), _wide(guess)
    rest = fma((wide * y) * (y * -y), 1.0, 1.0)
    return fma(y * rest, fma(rest, fma(rest, 14 / 81, 2 / 9), 1 / 3), y), wide


def _normal(x: tensor) -> tuple[tensor, tensor]:
    """Return the size, which of subnormal numbers is made 2**24 as large, and whether it was."""
    size = mathematics.abs(x)
    tiny = size < float(np.finfo(np.float32).tiny)
    return where(tiny, size * 2.0**24, size), tiny


def cbrt(x: tensor) -> tensor:
    """Return the cube root."""
    size, tiny = _normal(x)
    inverse, wide = _inverse_cube_root(size)
    root = copysign(_narrow((wide * inverse) * inverse), x)
    root = where(tiny, root * 2.0**-8, root)
    return where((x == 0) | (mathematics.abs(x) == INFINITY), x, _or_nan(x, root))


def rcbrt(x: tensor) -> tensor:
    """Return one by the cube root."""
    size, tiny = _normal(x)
    root = copysign(_narrow(_inverse_cube_root(size)[0]), x)
    root = where(tiny, root * 2.0**8, root)
    return where((x == 0) | (mathematics.abs(x) == INFINITY), 1.0 / x, _or_nan(x, root))


def _length(operands: Sequence[tensor], inverse: bool) -> tensor:
    total = _wide(operands[0]) * _wide(operands[0])
    for operand in operands[1:]:
        wide = _wide(operand)
        total = fma(wide, wide, total)  # of fp32 no square overflows
    root = mathematics.unary(Code.SQRT, total)
    value = _narrow(1.0 / root if inverse else root)
    infinite = mathematics.abs(operands[0]) == INFINITY
    for operand in operands[1:]:
        infinite = infinite | (mathematics.abs(operand) == INFINITY)
    return where(infinite, 0.0 if inverse else INFINITY, value)


def length(inverse: bool) -> Callable[..., tensor]:
    """Make the length of a vector, or one by it."""
    return lambda *operands: _length(operands, inverse)
