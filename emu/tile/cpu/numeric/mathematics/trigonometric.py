"""Trigonometric functions of f32 and their inverses, for arguments of any size."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

from emu.tile.cpu.numeric.mathematics.shared import (
    angle,
    in_double,
    nearest_32,
    outlined,
    unlikely,
    without_multiple,
)
from emu.tile.cpu.numeric.vector_builder import DOUBLE, FLOAT, I32, I64, VectorBuilder, intrinsic
from emu.tile.llvm import Register

_TWO_BY_PI = 0.6366197723675814
_PI = 3.141592653589793
_HALF_PI = 1.5707963267948966
_HALF_PI_32 = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
_LARGE_32 = 100_000.0  # up to here three f32 of pi / 2 suffice
# Bits of 1 / (2 pi), behind eight zeros, for the whole range of f32's exponent.
_TURN = (0x28BE60, 0xDB939105, 0x4A7F09D5, 0xF47D4D37, 0x7036D8A5, 0x664F10E4, 0x107F9458)

_SIN = (  # sin(r) = r + r**3 * SIN(r**2), |r| <= pi / 4: 2**-27
    -0.16666653752326965,
    0.008332140743732452,
    -0.00019512565631885082,
)
_COS = (  # cos(r) = 1 - r**2 / 2 + r**4 * COS(r**2): 2**-31
    0.04166664555668831,
    -0.0013887289678677917,
    2.443005178065505e-05,
)
_SIN_64 = (  # sin(r) = r + r**3 * SIN(r**2): 2**-47
    -0.16666666666628802,
    0.008333333324797522,
    -0.0001984126357386328,
    2.7555306431921304e-06,
    -2.4758022905999728e-08,
)
_COS_64 = (  # cos(r) = 1 + r**2 * COS(r**2): 2**-53
    -0.49999999999999384,
    0.04166666666648012,
    -0.0013888888869963234,
    2.480157842789014e-05,
    -2.755520719990952e-07,
    2.0628565067577572e-09,
)
_TAN = (  # tan(r) = r + r**3 * TAN(r**2), |r| <= pi / 4: 2**-28
    0.33333343267440796,
    0.13332770764827728,
    0.05405491963028908,
    0.02128170244395733,
    0.010886765085160732,
    -2.196411878685467e-05,
    0.0044487882405519485,
)
_ASIN = (  # asin(x) = x + x**3 * ASIN(x**2), |x| <= 1/2: 2**-26.8
    0.16666731238365173,
    0.07495668530464172,
    0.04546570032835007,
    0.024057045578956604,
    0.042553599923849106,
)
_ATAN = (  # atan(x) = x + x**3 * ATAN(x**2), |x| <= 1: 2**-30
    -0.333333283662796,
    0.19999751448631287,
    -0.1428060531616211,
    0.11061642318964005,
    -0.08818456530570984,
    0.06747514009475708,
    -0.044639311730861664,
    0.022396525368094444,
    -0.007208696100860834,
    0.0010844927746802568,
)
_ATAN_64 = (  # atan(x) = x + x**3 * ATAN(x**2), |x| <= 1: 2**-39
    -0.33333333292389433,
    0.19999996636161096,
    -0.14285617100404832,
    0.11109685375972661,
    -0.09078432266244914,
    0.07621019904737136,
    -0.06385089168017685,
    0.05082307006460409,
    -0.035758295739574834,
    0.02038126668801716,
    -0.008501701275052313,
    0.002251570806638359,
    -0.0002800480465709979,
)


def sin(lanes: VectorBuilder, x: Register) -> Register:
    """Sine of radians."""
    return outlined(lanes, "sin", lambda inner, a: _with_large(inner, a, "sin", 0), (x,))


def cos(lanes: VectorBuilder, x: Register) -> Register:
    """Cosine of radians."""
    return outlined(lanes, "cos", lambda inner, a: _with_large(inner, a, "cos", 1), (x,))


def tan(lanes: VectorBuilder, x: Register) -> Register:
    """Tangent of radians."""

    def body(inner: VectorBuilder, a: Register) -> Register:
        small = _tan_small(inner, a)
        return _replaced(inner, a, _LARGE_32, small, "tan", _tan_large)

    return outlined(lanes, "tan", body, (x,))


def _replaced(
    lanes: VectorBuilder,
    x: Register,
    limit: float,
    small: Register,
    name: str,
    large: Callable[..., Register],
) -> Register:
    """``small``, but where |x| > limit ``large(lanes, x)``, which is called only if there are any."""
    build = lanes.builder
    beyond = build.fcmp_ordered(">", lanes.abs(x), lanes.like(x, limit))

    def chosen() -> Register:
        value = outlined(lanes, f"{name}.large", large, (x,), inline=False)
        return build.select(beyond, value, small)

    return unlikely(lanes, beyond, small, chosen)


def _with_large(lanes: VectorBuilder, x: Register, name: str, quarter: int) -> Register:
    small = _sine_small(lanes, x, quarter)

    def large(inner: VectorBuilder, a: Register) -> Register:
        return _sine_large(inner, a, quarter)

    return _replaced(lanes, x, _LARGE_32, small, name, large)


def _sine_small(lanes: VectorBuilder, x: Register, quarter: int) -> Register:
    """sin(x + quarter * pi / 2) in f32."""
    build = lanes.builder
    nearest, turns = nearest_32(lanes, x, _TWO_BY_PI)
    r = x
    for part in _HALF_PI_32:  # the first product is exact, the others round far behind r
        r = lanes.fma(nearest, lanes.f32(-part), r)
    square = build.fmul(r, r)
    sine = lanes.fma(build.fmul(square, r), lanes.polynomial(square, _SIN), r)
    cosine = lanes.fma(square, lanes.polynomial(square, _COS), lanes.f32(-0.5))
    cosine = lanes.fma(square, cosine, lanes.f32(1.0))
    if quarter:
        turns = build.add(turns, lanes.i32(quarter))
    odd = build.icmp_unsigned("!=", build.and_(turns, lanes.i32(1)), lanes.i32(0))
    value = build.select(odd, cosine, sine)
    sign = build.shl(build.and_(turns, lanes.i32(2)), lanes.i32(30))
    value = lanes.cast(build.xor(lanes.cast(value, I32), sign), FLOAT)
    if quarter:
        return value
    return build.select(build.fcmp_ordered("==", x, lanes.f32(0.0)), x, value)  # of -0


def _reduce_large(lanes: VectorBuilder, x: Register) -> tuple[Register, Register]:
    """|x| = q * pi / 2 + r for |x| >= 2**16: r as f64 and q, modulo 4, as i64.

    The method of Payne and Hanek: of 1 / (2 pi) only the bits matter that the product with x has next to
    the binary point, 96 of them from where the exponent says.
    """
    build = lanes.builder
    bits = build.and_(lanes.cast(x, I32), lanes.i32(0x7FFFFFFF))
    mantissa = build.or_(build.and_(bits, lanes.i32(0x7FFFFF)), lanes.i32(0x800000))
    start = build.sub(build.lshr(bits, lanes.i32(23)), lanes.i32(142))
    second = build.icmp_unsigned("!=", build.and_(start, lanes.i32(64)), lanes.i32(0))
    first = build.icmp_unsigned("!=", build.and_(start, lanes.i32(32)), lanes.i32(0))
    words = [lanes.i32(word) for word in _TURN]
    words = [build.select(second, b, a) for a, b in zip(words, words[2:], strict=False)]
    words = [build.select(first, b, a) for a, b in itertools.pairwise(words)]
    shift = build.and_(start, lanes.i32(31))
    pairs = itertools.pairwise(words)
    top, middle, low = (intrinsic(build, "fshl", (a, b, shift)) for a, b in pairs)
    wide = lanes.type(I64)
    factor = build.zext(mantissa, wide)
    fraction = build.shl(build.zext(build.mul(mantissa, top), wide), lanes.i64(32))
    fraction = build.add(fraction, build.mul(factor, build.zext(middle, wide)))
    rest = build.lshr(build.mul(factor, build.zext(low, wide)), lanes.i64(32))
    fraction = build.add(fraction, rest)  # of a turn, in units of 2**-64
    quarters = build.lshr(build.add(fraction, lanes.i64(1 << 61)), lanes.i64(62))
    rest = build.sub(fraction, build.shl(quarters, lanes.i64(62)))
    angle = build.sitofp(rest, lanes.type(DOUBLE))
    return build.fmul(angle, lanes.f64(2 * _PI * 2.0**-64)), quarters


def _sine_cosine_64(lanes: VectorBuilder, r: Register) -> tuple[Register, Register]:
    build = lanes.builder
    square = build.fmul(r, r)
    sine = lanes.fma(build.fmul(square, r), lanes.polynomial(square, _SIN_64), r)
    cosine = lanes.fma(square, lanes.polynomial(square, _COS_64), lanes.f64(1.0))
    return sine, cosine


def _bit(lanes: VectorBuilder, value: Register, mask: int) -> Register:
    build = lanes.builder
    return build.icmp_unsigned(
        "!=", build.and_(value, lanes.like(value, mask)), lanes.like(value, 0)
    )


def _sine_large(lanes: VectorBuilder, x: Register, quarter: int) -> Register:
    build = lanes.builder
    r, quarters = _reduce_large(lanes, x)
    sine, cosine = _sine_cosine_64(lanes, r)
    quarters = build.add(quarters, lanes.i64(quarter))
    value = build.select(_bit(lanes, quarters, 1), cosine, sine)
    value = build.select(_bit(lanes, quarters, 2), build.fneg(value), value)
    value = build.fptrunc(value, lanes.type(FLOAT))
    if not quarter:
        negative = build.fcmp_ordered("<", x, lanes.f32(0.0))
        value = build.select(negative, build.fneg(value), value)
    return _of_finite(lanes, x, value)


def _of_finite(lanes: VectorBuilder, x: Register, value: Register) -> Register:
    finite = lanes.builder.fcmp_ordered("<", lanes.abs(x), lanes.f32(float("inf")))
    return lanes.builder.select(finite, value, lanes.f32(float("nan")))


def _tangent(lanes: VectorBuilder, r: Register, quarters: Register) -> Register:
    build = lanes.builder
    sine, cosine = _sine_cosine_64(lanes, r)
    odd = _bit(lanes, quarters, 1)
    top = build.select(odd, build.fneg(cosine), sine)
    value = build.fdiv(top, build.select(odd, sine, cosine))
    return build.fptrunc(value, lanes.type(FLOAT))


def _tan_small(lanes: VectorBuilder, x: Register) -> Register:
    build = lanes.builder
    nearest, turns = nearest_32(lanes, x, _TWO_BY_PI)
    parts = [lanes.f32(-part) for part in _HALF_PI_32]
    r, lost = without_multiple(lanes, x, nearest, parts)
    square = build.fmul(r, r)
    cube = build.fmul(square, r)
    # tan(r + lost) = r + (r**3 TAN + lost (1 + r**2)), more or less
    low = lanes.fma(cube, lanes.polynomial(square, _TAN), lanes.fma(square, lost, lost))
    value = build.fadd(r, low)
    low = build.fadd(build.fsub(r, value), low)  # what the sum has lost
    inverse = build.fdiv(lanes.f32(-1.0), value)
    rest = lanes.fma(value, inverse, lanes.f32(1.0))
    rest = lanes.fma(low, inverse, rest)
    inverse = lanes.fma(rest, inverse, inverse)
    odd = build.icmp_unsigned("!=", build.and_(turns, lanes.i32(1)), lanes.i32(0))
    value = build.select(odd, inverse, value)
    return build.select(build.fcmp_ordered("==", x, lanes.f32(0.0)), x, value)  # of -0


def _tan_large(lanes: VectorBuilder, x: Register) -> Register:
    value = _tangent(lanes, *_reduce_large(lanes, x))
    negative = lanes.builder.fcmp_ordered("<", x, lanes.f32(0.0))
    value = lanes.builder.select(negative, lanes.builder.fneg(value), value)
    return _of_finite(lanes, x, value)


def _arc(lanes: VectorBuilder, x: Register) -> tuple[Register, Register, Register]:
    """Return two parts of asin(|x|) where |x| <= 1/2, else of acos(|x|) / 2, and whether it is the latter."""
    build = lanes.builder
    size = lanes.abs(x)
    far = build.fcmp_ordered(">", size, lanes.f32(0.5))
    half = lanes.fma(size, lanes.f32(-0.5), lanes.f32(0.5))  # exact
    square = build.select(far, half, build.fmul(x, x))
    root = build.select(far, intrinsic(build, "sqrt", (half,)), size)
    rest = build.fmul(build.fmul(square, root), lanes.polynomial(square, _ASIN))
    return root, rest, far


def asin(lanes: VectorBuilder, x: Register) -> Register:
    """Arc sine; NaN beyond 1."""
    build = lanes.builder
    root, rest, far = _arc(lanes, x)
    near = build.fadd(root, rest)
    quarter = lanes.f32(_HALF_PI_32[0])
    outer = lanes.fma(root, lanes.f32(-2.0), quarter)
    lost = lanes.fma(root, lanes.f32(-2.0), build.fsub(quarter, outer))
    rest = lanes.fma(rest, lanes.f32(-2.0), build.fadd(lost, lanes.f32(_HALF_PI_32[1])))
    return lanes.copysign(build.select(far, build.fadd(outer, rest), near), x)


def acos(lanes: VectorBuilder, x: Register) -> Register:
    """Arc cosine; NaN beyond 1."""
    build = lanes.builder
    root, rest, far = _arc(lanes, x)
    value = build.fadd(root, rest)
    negative = build.fcmp_ordered("<", x, lanes.f32(0.0))
    # pi - 2 * value; 2 * value; pi / 2 - value and pi / 2 + value
    signed = lanes.copysign(value, x)
    lost = build.fsub(signed, lanes.f32(_HALF_PI_32[1]))
    near = build.fsub(lanes.f32(_HALF_PI_32[0]), lost)
    double = build.fadd(value, value)
    opposite = build.fsub(double, lanes.f32(2 * _HALF_PI_32[1]))
    opposite = build.fsub(lanes.f32(2 * _HALF_PI_32[0]), opposite)
    return build.select(far, build.select(negative, opposite, double), near)


def _polynomial_atan(lanes: VectorBuilder, x: Register) -> Register:
    square = lanes.builder.fmul(x, x)
    cube = lanes.builder.fmul(square, x)
    return lanes.fma(cube, lanes.polynomial(square, _ATAN_64), x)


def atan(lanes: VectorBuilder, x: Register) -> Register:
    """Arc tangent."""
    build = lanes.builder
    size = lanes.abs(x)
    far = build.fcmp_ordered(">", size, lanes.f32(1.0))
    ratio = build.select(far, build.fdiv(lanes.f32(1.0), size), size)
    square = build.fmul(ratio, ratio)
    cube = build.fmul(square, ratio)
    value = lanes.fma(cube, lanes.polynomial(square, _ATAN), ratio)
    lost = build.fsub(value, lanes.f32(_HALF_PI_32[1]))
    value = build.select(far, build.fsub(lanes.f32(_HALF_PI_32[0]), lost), value)
    return lanes.copysign(value, x)


def atan2(lanes: VectorBuilder, y: Register, x: Register) -> Register:
    """Angle of the point (x, y), with the special cases of C."""

    def body(inner: VectorBuilder, y: Register, x: Register) -> Register:
        def less(quarters: int, value: Register) -> Register:
            return inner.builder.fsub(inner.f64(_HALF_PI if quarters == 1 else _PI), value)

        return angle(inner, y, x, functools.partial(_polynomial_atan, inner), less)

    return in_double(lanes, "atan2", body, (y, x))
