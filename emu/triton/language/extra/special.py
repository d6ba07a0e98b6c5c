"""Special functions: the error function's family, gamma, roots, and sine and cosine of pi times a number.

All are computed in fp64 by series of our own, the exponential and the logarithm apart. Most functions of fp32 have
shorter series, in ``single``; the others are these, rounded once, at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from emu.tile.ops import Code
from emu.triton.language import mathematics
from emu.triton.language.arithmetic import maximum, minimum, where
from emu.triton.language.conversion import bitcast_to, cast_to
from emu.triton.language.extra import coefficients as series
from emu.triton.language.extra import single
from emu.triton.language.extra.bits import (
    INFINITY,
    NAN,
    apply,
    copysign,
    exponent_of,
    fma,
    is_finite,
    is_infinite,
    is_nan,
    like,
    power_of_two,
    signed,
    widened,
)
from emu.triton.language.types import float32, float64, int64
from emu.triton.language.values import tensor

Function = Callable[..., tensor]

_LARGEST = 1.7976931348623157e308
_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
_ROOT_HALF = (0.7071067811865476, -4.833646656726457e-17)
"""The square root of a half: the nearest double, and the rest."""


def in_double(body: Function) -> Function:
    """Make a function of fp64 one of fp32, too: computed in fp64, and rounded once."""

    def wide(*operands: tensor) -> tensor:
        floats = [o.dtype for o in operands if o.dtype.is_floating()]
        values = [widened(o) if o.dtype.is_floating() else o for o in operands]
        return cast_to(body(*values), floats[0])

    return wide


def by_dtype(single: Function, double: Function) -> Function:
    """Make a function of fp32 out of one of its own, and of fp64 out of another."""
    return lambda *operands: (single if operands[0].dtype == float32 else double)(*operands)


def polynomial(x: tensor, powers: Sequence[float]) -> tensor:
    """Return the sum of ``powers[k] * x ** k`` in fp64."""
    total = like(x, powers[-1])
    for power in reversed(powers[:-1]):
        total = fma(total, x, power)
    return total


def ranged(x: tensor, low: float, high: float, powers: Sequence[float]) -> tensor:
    """Return a series in ``x``, moved from ``low .. high`` to ``-1 .. 1``; what lies outside is clamped."""
    inside = minimum(maximum(x, low), high)
    return polynomial((inside - (low + high) / 2) * (2 / (high - low)), powers)


def exp(x: tensor) -> tensor:
    """Return the exponential."""
    return mathematics.unary(Code.EXP, x)


def log(x: tensor) -> tensor:
    """Return the natural logarithm."""
    return mathematics.unary(Code.LOG, x)


# ---- the error function's family


def _erfcx_positive(x: tensor) -> tensor:
    """Return ``exp(x * x) * erfc(x)`` of numbers that are not negative."""
    finite = minimum(x, 1e300)
    t = (finite - 3.75) / (finite + 3.75)
    value = polynomial(t, series.ERFCX) / (1 + 2 * finite)
    return where(x == INFINITY, 0.0, value)


def _exp_of_square(x: tensor, factor: float) -> tensor:
    """Return ``exp(factor * x * x)`` for a power of two ``factor``: the square is not rounded."""
    square = x * x
    rest = fma(x, x, -square)
    power = exp(square * factor)
    # Where the power or the square overflows, nothing is left to correct.
    return where(is_finite(rest) & is_finite(power), fma(power, rest * factor, power), power)


def _erfc(x: tensor) -> tensor:
    size = mathematics.abs(x)
    tail = _erfcx_positive(size) * _exp_of_square(minimum(size, 30.0), -1.0)
    return where(is_nan(x), x, where(x < 0, 2 - tail, tail))


def _erfcx(x: tensor) -> tensor:
    size = mathematics.abs(x)
    right = _erfcx_positive(size)
    left = 2 * _exp_of_square(minimum(size, 30.0), 1.0) - right
    return where(is_nan(x), x, where(x < 0, left, right))


def _normcdf(x: tensor) -> tensor:
    size = mathematics.abs(x)
    scaled = size * _ROOT_HALF[0]
    tail = 0.5 * _erfcx_positive(scaled) * _exp_of_square(minimum(size, 40.0), -0.5)
    return where(is_nan(x), x, where(x > 0, 1 - tail, tail))


def _erfinv_by(w: tensor) -> tensor:
    """Return ``erfinv(x) / x`` for ``w = -log(1 - x * x)``."""
    root = mathematics.unary(Code.SQRT, maximum(w, 0.0))
    value = ranged(w, 0.0, 6.25, series.ERFINV_CENTRAL)
    value = where(w > 6.25, ranged(root, 2.5, 4.0, series.ERFINV_4), value)
    value = where(w > 16, ranged(root, 4.0, 8.0, series.ERFINV_8), value)
    return where(w > 64, ranged(root, 8.0, 28.0, series.ERFINV_28), value)


def _erfinv(x: tensor) -> tensor:
    value = x * _erfinv_by(-log((1 - x) * (1 + x)))
    size = mathematics.abs(x)
    value = where(size == 1, x * INFINITY, value)
    return where(size <= 1, value, NAN)


def _erfcinv(y: tensor) -> tensor:
    value = (1 - y) * _erfinv_by(-log(y * (2 - y)))
    value = where(y == 0, INFINITY, where(y == 2, -INFINITY, value))
    return where((y >= 0) & (y <= 2), value, NAN)


def _normcdfinv(p: tensor) -> tensor:
    return -math.sqrt(2) * _erfcinv(2 * p)


# ---- gamma


def _sinpi_and_cospi(x: tensor) -> tuple[tensor, tensor]:
    """Return both of finite numbers."""
    # In quarters of a turn: what is left after the nearest one is exact.
    quarters = mathematics.unary(Code.RINT, 2 * x)
    rest = x - 0.5 * quarters
    square = rest * rest
    sine = rest * ranged(square, 0.0, 0.0625, series.SINPI)
    cosine = ranged(square, 0.0, 0.0625, series.COSPI)
    # Even where the count is too large for an integer it is a multiple of 4 there.
    turn = cast_to(quarters - 4 * mathematics.unary(Code.FLOOR, quarters * 0.25), int64)
    odd = (turn & 1) == 1
    first, second = where(odd, cosine, sine), where(odd, sine, cosine)
    first = where(turn >= 2, -first, first)
    second = where((turn == 1) | (turn == 2), -second, second)
    return first, second


def _sinpi(x: tensor) -> tensor:
    finite = where(is_finite(x), x, 0.0)
    value = _sinpi_and_cospi(finite)[0]
    whole = mathematics.unary(Code.TRUNC, finite) == finite
    return where(is_finite(x), where(whole, copysign(like(x, 0.0), x), value), NAN)


def _cospi(x: tensor) -> tensor:
    finite = where(is_finite(x), x, 0.0)
    value = _sinpi_and_cospi(finite)[1]
    # A half of an odd number gives 0, not -0.
    return where(is_finite(x), value + 0.0, NAN)


def _lgamma_positive(x: tensor) -> tensor:
    """Return the logarithm of gamma of finite numbers of 0.75 or more."""
    large = maximum(x, 8.0)
    inverse = 1 / large
    rest = ranged(inverse * inverse, 0.0, 1 / 64, series.STIRLING) * inverse
    far = (large - 0.5) * (log(large) - 1) + (rest + (_LOG_ROOT_TWO_PI - 0.5))
    # Below 8: gamma(x) is a product of factors and gamma of what they lead down to, from 1.5 to 2.5.
    low, product = minimum(x, 8.0), like(x, 1.0)
    for _ in range(6):
        above = low >= 2.5
        low = where(above, low - 1, low)
        product = where(above, product * low, product)
    near = (low - 2) * ranged(low, 1.5, 2.5, series.LGAMMA_2) + log(product)
    one = (x - 1) * ranged(x, 0.75, 1.5, series.LGAMMA_1)
    return where(x >= 8, far, where(x < 1.5, one, near))


def _lgamma(x: tensor) -> tensor:
    finite = where(is_finite(x), x, 1.0)
    size = mathematics.abs(finite)
    # gamma(x) = gamma(x + 1) / x on both sides of 0; farther to the left by reflection.
    small = (finite > -0.25) & (finite < 0.75)
    left = finite <= -0.25
    value = _lgamma_positive(where(small, finite + 1, maximum(size, 0.25)))
    # From 0.25 to 0.75 to the left the reflected number is again below 0.75.
    shifted = left & (size < 0.75)
    value = where(shifted, _lgamma_positive(size + 1) - log(size), value)
    value = where(small, value - log(size), value)
    fraction = size - mathematics.unary(Code.FLOOR, size)
    sine = mathematics.abs(_sinpi_and_cospi(fraction)[0])
    reflected = log(math.pi / (maximum(size, 0.25) * sine)) - value
    value = where(left, reflected, value)
    pole = (finite <= 0) & (fraction == 0)
    value = where(pole | is_infinite(x), INFINITY, value)
    return where(is_nan(x), x, value + 0.0)  # of 1 it is 0, not -0


def _gamma_parts(x: tensor) -> tuple[tensor, tensor]:
    """Return two factors of gamma of numbers from 1 to 200, neither of which overflows."""
    low, product = minimum(x, 8.0), like(x, 1.0)
    for _ in range(6):
        above = low >= 2
        low = where(above, low - 1, low)
        product = where(above, product * low, product)
    near = product * ranged(low, 1.0, 2.0, series.GAMMA)
    large = maximum(x, 8.0)
    # Both halves of the power are exact in their exponent, which has the digits of x.
    half = apply(Code.POW, large, large * 0.5 - 0.25)
    factor = ranged(1 / large, 0.0, 0.125, series.GAMMA_LARGE) * math.sqrt(2 * math.pi)
    far = half * exp(-large) * factor
    big = x >= 8
    return where(big, far, near), where(big, half, 1.0)


def _tgamma(x: tensor) -> tensor:
    finite = where(is_finite(x), x, 1.0)
    size = mathematics.abs(finite)
    small = size < 1
    first, second = _gamma_parts(minimum(where(small, finite + 1, size), 190.0))
    # Below 0 of small numbers x + 1 lies under 1: one factor more.
    under = small & (finite < 0)
    first = where(under, _gamma_parts(finite + 2)[0] / where(under, finite + 1, 1.0), first)
    right = first * second
    fraction = size - mathematics.unary(Code.FLOOR, size)
    sine = _sinpi_and_cospi(fraction)[0]
    odd = mathematics.unary(Code.FLOOR, size * 0.5) * 2 != mathematics.unary(Code.FLOOR, size)
    sine = where(odd, -sine, sine)
    left = -math.pi / (size * sine) / first / second
    value = where(small, right / finite, where(finite < 0, left, right))
    value = where(finite > 171.7, INFINITY, value)
    value = where(finite < -185, copysign(like(x, 0.0), -sine), value)
    value = where((finite < 0) & (fraction == 0), NAN, value)
    value = where(finite == 0, copysign(like(x, INFINITY), finite), value)
    return where(is_finite(x), value, where(x == INFINITY, INFINITY, NAN))


# ---- roots and lengths


def _cbrt(x: tensor) -> tensor:
    size = mathematics.abs(x)
    tiny = size < 2.0**-1000
    size = where(tiny, size * 2.0**162, size)
    # A third of the bits is a third of the exponent; each step triples the digits that are right.
    bits = signed(size) // 3 + 0x2A9F789300000000
    root = bitcast_to(bits, float64)
    for _ in range(3):
        cube = root * root * root
        root = root * ((cube + 2 * size) / (2 * cube + size))
    square = root * root
    rest = fma(square, -root, size) - fma(root, root, -square) * root
    root = root + rest / (3 * square)
    root = copysign(where(tiny, root * 2.0**-54, root), x)
    return where((x == 0) | ~is_finite(x), x + x, root)


def _rcbrt(x: tensor) -> tensor:
    return 1.0 / _cbrt(x)


def _length(operands: Sequence[tensor], inverse: bool) -> tensor:
    sizes = [mathematics.abs(o) for o in operands]
    largest = sizes[0]
    for size in sizes[1:]:
        largest = maximum(largest, size)
    usable = (largest > 0) & (largest < INFINITY)
    # Moved to an exponent of 0: no square overflows, and none that counts is too small.
    exponent = where(usable, exponent_of(where(usable, largest, 1.0)), 0)
    halves = (power_of_two(-(exponent >> 1)), power_of_two(-(exponent - (exponent >> 1))))
    total = like(largest, 0.0)
    for size in sizes:
        scaled = size * halves[0] * halves[1]
        total = fma(scaled, scaled, total)
    root = mathematics.unary(Code.SQRT, total)
    infinite, missing = is_infinite(sizes[0]), is_nan(operands[0])
    for operand in operands[1:]:
        infinite, missing = infinite | is_infinite(operand), missing | is_nan(operand)
    if inverse:
        value = where(largest == 0, INFINITY, 1 / root * halves[0] * halves[1])
    else:
        value = root / halves[0] / halves[1]
    value = where(missing, NAN, value)
    return where(infinite, 0.0 if inverse else INFINITY, value)


def length(inverse: bool = False) -> Function:
    """Make the length of a vector of two to four coordinates, or one by it."""
    return by_dtype(single.length(inverse), lambda *operands: _length(operands, inverse))


# ---- remainder


def remainder(x: tensor, y: tensor) -> tensor:
    """Return ``x - n * y`` for the integer ``n`` nearest to ``x / y``, ties to even; it is exact."""
    size, by = mathematics.abs(x), mathematics.abs(y)
    largest = _LARGEST if x.dtype == float64 else 3.4028234663852886e38
    fits = by <= largest / 2
    rest = where(fits, apply(Code.REM, size, where(fits, by + by, 1.0)), size)
    # Of tiny divisors the doubled rest is compared, as their half would be rounded; of others the half.
    tiny = by < 2.0**-120
    once = where(tiny, rest + rest > by, rest > 0.5 * by)
    first = where(once, rest - by, rest)
    twice = once & where(tiny, first + first >= by, first >= 0.5 * by)
    value = where(twice, first - by, first)
    value = where(sign_is_set(x), -value, value)
    invalid = is_nan(x) | is_nan(y) | is_infinite(x) | (y == 0)
    value = where(is_infinite(y), x, value)
    return where(invalid, NAN, value)


def sign_is_set(x: tensor) -> tensor:
    """Return whether the sign bit is set."""
    return signed(x) < 0


def rcp64h(x: tensor) -> tensor:
    """Return one by a number in the upper half of its bits; the lower half is 0, and so are subnormals."""
    value = 1.0 / x
    bits = bitcast_to(signed(value) & -(1 << 32), float64)
    bits = where(is_nan(x), NAN, bits)
    return where(mathematics.abs(bits) < 2.0**-1022, copysign(like(x, 0.0), x), bits)


FUNCTIONS: dict[str, Function] = {
    "erfc": by_dtype(single.erfc, _erfc),
    "erfcx": in_double(_erfcx),
    "erfinv": by_dtype(single.erfinv, _erfinv),
    "erfcinv": by_dtype(single.erfcinv, _erfcinv),
    "normcdf": by_dtype(single.normcdf, _normcdf),
    "normcdfinv": by_dtype(single.normcdfinv, _normcdfinv),
    "lgamma": by_dtype(single.lgamma, _lgamma),
    "tgamma": by_dtype(single.tgamma, _tgamma),
    "sinpi": in_double(_sinpi),
    "cospi": in_double(_cospi),
    "cbrt": by_dtype(single.cbrt, _cbrt),
    "rcbrt": by_dtype(single.rcbrt, _rcbrt),
    "hypot": length(),
    "rhypot": length(inverse=True),
    "norm3d": length(),
    "rnorm3d": length(inverse=True),
    "norm4d": length(),
    "rnorm4d": length(inverse=True),
    "remainder": remainder,
}
"""The functions of this module by their names in ``libdevice``."""
