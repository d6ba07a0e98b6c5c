"""Bessel functions: by powers of the argument up to 5 (8 of the modified ones), above by Hankel's expansion."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from emu.tile.ops import Code
from emu.triton.language import mathematics
from emu.triton.language.arithmetic import maximum, minimum, where
from emu.triton.language.context import builder
from emu.triton.language.conversion import cast_to
from emu.triton.language.extra import coefficients as series
from emu.triton.language.extra import single
from emu.triton.language.extra.bits import INFINITY, NAN, is_nan, like
from emu.triton.language.extra.special import (
    Function,
    by_dtype,
    exp,
    in_double,
    log,
    polynomial,
    ranged,
)
from emu.triton.language.reductions import max as largest_of
from emu.triton.language.types import float64, int32
from emu.triton.language.values import tensor

_ZERO_0 = (2.404825557695773, -1.176691651530894e-16)
_ZERO_1 = (3.8317059702075125, -1.5269184090088067e-16)
"""First zeros of j0 and j1: the nearest double, and the rest."""

_I0 = [1 / math.factorial(k) ** 2 for k in range(25)]
_I1 = [1 / (2 * math.factorial(k) * math.factorial(k + 1)) for k in range(25)]
"""Powers of ``x * x / 4``; all terms are positive, so that none cancels another."""


def _away_from(x: tensor, zero: tuple[float, float]) -> tensor:
    """Return ``x * x - zero * zero`` without loss near the zero."""
    return ((x - zero[0]) - zero[1]) * (x + zero[0])


def _near_j0(x: tensor) -> tensor:
    return _away_from(x, _ZERO_0) * ranged(x * x, 0.0, 25.0, series.J0)


def _near_j1(x: tensor) -> tensor:
    return x * _away_from(x, _ZERO_1) * ranged(x * x, 0.0, 25.0, series.J1)


def _hankel(x: tensor, even: Sequence[float], odd: Sequence[float]) -> tuple[tensor, ...]:
    """Return the two amplitudes by the square root of pi x, and the waves that they belong to."""
    inverse = 5 / x
    square = inverse * inverse
    root = mathematics.unary(Code.SQRT, x * math.pi)
    p = ranged(square, 0.0, 1.0, even) / root
    q = ranged(square, 0.0, 1.0, odd) * (inverse * 0.2) / root
    sine, cosine = mathematics.unary(Code.SIN, x), mathematics.unary(Code.COS, x)
    return p, q, sine + cosine, sine - cosine


def _split_at_5(x: tensor) -> tuple[tensor, tensor]:
    return minimum(x, 5.0), where(x < INFINITY, maximum(x, 5.0), 5.0)


def _j0(x: tensor) -> tensor:
    size = mathematics.abs(x)
    low, high = _split_at_5(size)
    p, q, plus, minus = _hankel(high, series.P0, series.Q0)
    value = where(size <= 5, _near_j0(low), p * plus - q * minus)
    return _at_the_end(x, where(size == INFINITY, 0.0, value))


def _j1(x: tensor) -> tensor:
    size = mathematics.abs(x)
    low, high = _split_at_5(size)
    p, q, plus, minus = _hankel(high, series.P1, series.Q1)
    value = where(size <= 5, _near_j1(low), p * minus + q * plus)
    value = where(size == INFINITY, 0.0, value)
    return _at_the_end(x, where(x < 0, -value, where(x == 0, x, value)))


def _at_the_end(x: tensor, value: tensor) -> tensor:
    return where(is_nan(x), x, value)


def _of_the_second_kind(x: tensor, value: tensor) -> tensor:
    value = where(x == INFINITY, 0.0, value)
    value = where(x == 0, -INFINITY, value)
    return where(x >= 0, value, NAN)


def _y0(x: tensor) -> tensor:
    low, high = _split_at_5(x)
    p, q, plus, minus = _hankel(high, series.P0, series.Q0)
    near = 2 / math.pi * log(low) * _near_j0(low) + ranged(low * low, 0.0, 25.0, series.Y0)
    return _of_the_second_kind(x, where(x <= 5, near, p * minus + q * plus))


def _y1(x: tensor) -> tensor:
    low, high = _split_at_5(x)
    p, q, plus, minus = _hankel(high, series.P1, series.Q1)
    near = log(low) * _near_j1(low) - 1 / low
    near = 2 / math.pi * near + low * ranged(low * low, 0.0, 25.0, series.Y1)
    return _of_the_second_kind(x, where(x <= 5, near, q * minus - p * plus))


def _modified(x: tensor, powers: Sequence[float], large: Sequence[float]) -> tensor:
    size = mathematics.abs(x)
    low = minimum(size, 8.0)
    near = polynomial(low * low * 0.25, powers)
    high = minimum(maximum(size, 8.0), 750.0)
    half = exp(high * 0.5)
    far = half * (ranged(1 / high, 0.0, 0.125, large) / mathematics.unary(Code.SQRT, high)) * half
    return where(size <= 8, near, far)


def _i0(x: tensor) -> tensor:
    return _at_the_end(x, _modified(x, _I0, series.I0_LARGE))


def _i1(x: tensor) -> tensor:
    size = mathematics.abs(x)
    value = _modified(x, _I1, series.I1_LARGE)
    value = where(size <= 8, value * minimum(size, 8.0), value)
    return _at_the_end(x, where(x < 0, -value, where(x == 0, x, value)))


# ---- any order


def _while_below(
    end: tensor, state: Sequence[tensor], step: Callable[..., Sequence[tensor]]
) -> list[tensor]:
    """Run a step with the indices ``0 .. end - 1``; it takes an index and the state, and gives the state."""
    emit = builder()
    types = [s.type for s in state]
    start, one = emit.constant(0, int32.to_ir()), emit.constant(1, int32.to_ir())
    with emit.for_(start, end.handle, one, [s.handle for s in state]) as loop:
        inner = [tensor(h, t) for h, t in zip(loop.carried, types, strict=True)]
        emit.yield_(*(s.handle for s in step(tensor(loop.index, int32), *inner)))
    return [tensor(h, t) for h, t in zip(loop.results, types, strict=True)]


def _largest(x: tensor) -> tensor:
    return cast_to(largest_of(x), int32) if x.extents else x


def _yn(n: tensor, x: tensor) -> tensor:
    order = mathematics.abs(n)
    zeroth, first = _y0(x), _y1(x)

    def step(index: tensor, before: tensor, here: tensor) -> list[tensor]:
        # y(k + 1) = 2 k / x y(k) - y(k - 1), which grows and so loses nothing
        k = index + 1
        above = 2 * cast_to(k, float64) / x * here - before
        # Where it has left the range it stays there: the next difference would be NaN.
        above = where(here == -INFINITY, here, above)
        goes = k < order
        return [where(goes, here, before), where(goes, above, here)]

    found = _while_below(_largest(order) - 1, [zeroth, first], step)[1]
    value = where(order == 0, zeroth, found)
    value = where((n < 0) & ((order & 1) == 1), -value, value)
    return _of_the_second_kind(x, value)


def _jn(n: tensor, x: tensor) -> tensor:
    order, size = mathematics.abs(n), mathematics.abs(x)
    usable = (size > 0) & (size < INFINITY)
    at = where(usable, size, 1.0)
    zeroth, first = _j0(at), _j1(at)

    def up(index: tensor, before: tensor, here: tensor) -> list[tensor]:
        k = index + 1
        above = 2 * cast_to(k, float64) / at * here - before
        goes = (k < order) & (cast_to(order, float64) <= at)
        return [where(goes, here, before), where(goes, above, here)]

    forward = _while_below(_largest(order) - 1, [zeroth, first], up)[1]
    value = where(cast_to(order, float64) <= at, forward, _downward(order, at))
    value = where(order == 0, zeroth, where(order == 1, first, value))
    value = where(usable, value, where((order == 0) & (size == 0), 1.0, 0.0))
    odd = (order & 1) == 1
    value = where(odd & ((x < 0) ^ (n < 0)), -value, value)
    return _at_the_end(x, value)


def _downward(order: tensor, x: tensor) -> tensor:
    """Return ``j(order, x)`` of orders above ``x``: Miller's recurrence, which starts far above the order."""
    x = maximum(x, 1e-150)  # below, every order from 2 on is 0 but for 1e-300
    reach = mathematics.unary(Code.SQRT, 200.0 * cast_to(order, float64) + 400.0)
    start = 2 * ((order + cast_to(reach, int32)) // 2)
    top = _largest(start)
    zero = like(x, 0.0)

    def step(index: tensor, state: Sequence[tensor]) -> list[tensor]:
        above, here, found, total = state
        k = top - index
        begins = start == k
        here = where(begins, 1.0, here)
        below = 2 * cast_to(k, float64) / x * here - above
        # Only proportions count until the end, where the sum of all even orders is 1.
        size = mathematics.abs(below)
        scale = where(size > 1e100, 1 / size, 1.0)
        below, here = below * scale, here * scale
        found, total = found * scale, total * scale
        found = where(order == k - 1, below, found)
        even = ((k - 1) & 1) == 0
        weight = where(k == 1, 1.0, 2.0)
        total = where(even & (k <= start), total + weight * below, total)
        active = k <= start
        return [where(active, here, above), where(active, below, zero), found, total]

    state = [zero, zero, zero, zero]
    result = _while_below(top, state, lambda index, *s: step(index, s))
    return result[2] / result[3]


FUNCTIONS: dict[str, Function] = {
    "j0": by_dtype(single.j0, _j0),
    "j1": by_dtype(single.j1, _j1),
    "y0": by_dtype(single.y0, _y0),
    "y1": by_dtype(single.y1, _y1),
    "cyl_bessel_i0": by_dtype(single.i0, _i0),
    "cyl_bessel_i1": by_dtype(single.i1, _i1),
    "jn": in_double(_jn),
    "yn": in_double(_yn),
}
"""The functions of this module by their names in ``libdevice``."""
