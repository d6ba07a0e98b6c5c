"""Exponentials and the hyperbolic functions of f32."""

from __future__ import annotations

from emu.tile.cpu.numeric.mathematics.shared import (
    in_double,
    nearest_32,
    nearest_64,
    power_32,
    power_64,
    scale_32,
)
from emu.tile.cpu.numeric.vector_builder import VectorBuilder
from emu.tile.llvm import Register

_LOG2_E = 1.4426950408889634
_LN2_32 = (0.6931471824645996, -1.9046542121259336e-09)  # ln 2 in two f32
_LN2_64 = (0.6931471805599453, 2.3190468138462996e-17)  # ln 2 in two f64

_EXP = (  # e**r = 1 + r + r**2 * EXP(r), |r| <= ln(2) / 2: 2**-27.8
    0.4999999403953552,
    0.1666651964187622,
    0.041668400168418884,
    0.00836885068565607,
    0.0013814321719110012,
)
_EXP2 = (  # 2**r = 1 + r * EXP2(r), |r| <= 1/2: 2**-25.5
    0.6931472420692444,
    0.24022652208805084,
    0.05550309643149376,
    0.009617689065635204,
    0.001340694958344102,
    0.00015595476725138724,
)
_EXPM1_64 = (  # e**r - 1 = r + r**2 * EXPM1(r), |r| <= ln(2) / 2: 2**-43
    0.49999999999766626,
    0.1666666666656052,
    0.041666666916604964,
    0.008333333424314346,
    0.001388881666336391,
    0.00019841072547349233,
    2.487887896230546e-05,
    2.7698095811761296e-06,
)
_SINH_64 = (  # sinh(r) = r + r**3 * SINH(r**2), |r| <= ln(2) / 2: 2**-49
    0.1666666666662961,
    0.008333333363183093,
    0.0001984119510664871,
    2.7631046701982058e-06,
)
_COSH_64 = (  # cosh(r) = 1 + r**2 * COSH(r**2), |r| <= ln(2) / 2: 2**-58
    0.5000000000000013,
    0.04166666666651196,
    0.0013888888947929526,
    2.4801488979205554e-05,
    2.763163148409808e-07,
)
_TANH = (  # tanh(x) = x + x**3 * TANH(x**2), x**2 <= 0.4: 2**-26
    -0.33333274722099304,
    0.13331274688243866,
    -0.05372512713074684,
    0.020589828491210938,
    -0.005648317746818066,
)


def _exp_32(lanes: VectorBuilder, x: Register) -> tuple[Register, Register, Register]:
    """e**x = p * 2**n: p, n, and n in the last bits."""
    nearest, exponent = nearest_32(lanes, x, _LOG2_E)
    r = lanes.fma(nearest, lanes.f32(-_LN2_32[0]), x)  # exact
    r = lanes.fma(nearest, lanes.f32(-_LN2_32[1]), r)
    power = lanes.polynomial(r, (1.0, 1.0, *_EXP))
    return power, nearest, exponent


def exp(lanes: VectorBuilder, x: Register) -> Register:
    """e**x."""
    build = lanes.builder
    # What is rounded to 0 is not computed: a product that underflows takes a hundred times as long, and masks of
    # attention consist of such numbers.
    vanishes = build.fcmp_ordered("<", x, lanes.f32(-104.0))
    x = build.select(vanishes, lanes.f32(0.0), x)
    # A comparison that NaN passes: it stays what it is.
    large = build.fcmp_ordered(">", x, lanes.f32(89.0))
    x = build.select(large, lanes.f32(89.0), x)
    power = scale_32(lanes, *_exp_32(lanes, x))
    return build.select(vanishes, lanes.f32(0.0), power)


def exp2(lanes: VectorBuilder, x: Register) -> Register:
    """2**x."""
    x = lanes.clamp(x, -151.0, 129.0)
    nearest, exponent = nearest_32(lanes, x, 1.0)
    r = lanes.builder.fsub(x, nearest)  # exact
    power = lanes.fma(r, lanes.polynomial(r, _EXP2), lanes.f32(1.0))
    return scale_32(lanes, power, nearest, exponent)


def sigmoid(lanes: VectorBuilder, x: Register) -> Register:
    """1 / (1 + e**-x), without the overflow: with p = e**-|x| and q = p / (1 + p), 1 - q or p - p * q."""
    build = lanes.builder
    power = exp(lanes, build.fneg(lanes.abs(x)))
    quotient = build.fdiv(power, build.fadd(power, lanes.f32(1.0)))
    negative = build.fcmp_ordered("<", x, lanes.f32(0.0))
    top = build.select(negative, power, lanes.f32(1.0))
    return lanes.fma(build.fneg(quotient), top, top)


def tanh(lanes: VectorBuilder, x: Register) -> Register:
    """1 - 2 / (e**2x + 1), near 0 a polynomial."""
    build = lanes.builder
    size = lanes.abs(x)
    square = build.fmul(x, x)
    near = lanes.fma(build.fmul(square, size), lanes.polynomial(square, _TANH), size)
    double = lanes.clamp(build.fadd(size, size), 0.0, 20.0)
    power, _, exponent = _exp_32(lanes, double)
    bottom = lanes.fma(power, power_32(lanes, exponent), lanes.f32(1.0))
    far = build.fsub(lanes.f32(1.0), build.fdiv(lanes.f32(2.0), bottom))
    small = build.fcmp_ordered("<", size, lanes.f32(0.625))
    return lanes.copysign(build.select(small, near, far), x)


def exp2_64(lanes: VectorBuilder, x: Register, coefficients: tuple[float, ...]) -> Register:
    """2**x of f64 in -1000 ... 1000: ``2**r = 1 + r * coefficients(r)``."""
    nearest, exponent = nearest_64(lanes, x, 1.0)
    r = lanes.builder.fsub(x, nearest)
    power = lanes.fma(r, lanes.polynomial(r, coefficients), lanes.f64(1.0))
    return lanes.builder.fmul(power, power_64(lanes, exponent))


def _reduced_64(lanes: VectorBuilder, x: Register) -> tuple[Register, Register]:
    """x = n * ln(2) + r: r, and n in the last bits."""
    nearest, exponent = nearest_64(lanes, x, _LOG2_E)
    r = lanes.fma(nearest, lanes.f64(-_LN2_64[0]), x)
    return lanes.fma(nearest, lanes.f64(-_LN2_64[1]), r), exponent


def expm1(lanes: VectorBuilder, x: Register) -> Register:
    """e**x - 1."""

    def body(inner: VectorBuilder, wide: Register) -> Register:
        build = inner.builder
        r, exponent = _reduced_64(inner, inner.clamp(wide, -105.0, 105.0))
        rest = inner.fma(build.fmul(r, r), inner.polynomial(r, _EXPM1_64), r)
        scale = power_64(inner, exponent)
        value = inner.fma(rest, scale, build.fsub(scale, inner.f64(1.0)))
        return inner.copysign(value, wide)  # of 0

    return in_double(lanes, "expm1", body, (x,))


def _even_and_odd(
    lanes: VectorBuilder, x: Register
) -> tuple[Register, Register, Register, Register]:
    """cosh(r), sinh(r), 2**(n - 1), 2**(-n - 1) where |x| = n * ln(2) + r."""
    build = lanes.builder
    r, exponent = _reduced_64(lanes, lanes.clamp(lanes.abs(x), 0.0, 105.0))
    square = build.fmul(r, r)
    odd = lanes.fma(build.fmul(square, r), lanes.polynomial(square, _SINH_64), r)
    even = lanes.fma(square, lanes.polynomial(square, _COSH_64), lanes.f64(1.0))
    up = power_64(lanes, build.sub(exponent, lanes.i64(1)))
    down = power_64(lanes, build.sub(lanes.i64(-1), exponent))
    return even, odd, up, down


def sinh(lanes: VectorBuilder, x: Register) -> Register:
    """(e**x - e**-x) / 2."""

    def body(inner: VectorBuilder, wide: Register) -> Register:
        build = inner.builder
        even, odd, up, down = _even_and_odd(inner, wide)
        value = build.fmul(build.fsub(up, down), even)
        value = inner.fma(build.fadd(up, down), odd, value)
        return inner.copysign(value, wide)

    return in_double(lanes, "sinh", body, (x,))


def cosh(lanes: VectorBuilder, x: Register) -> Register:
    """(e**x + e**-x) / 2."""

    def body(inner: VectorBuilder, wide: Register) -> Register:
        build = inner.builder
        even, odd, up, down = _even_and_odd(inner, wide)
        value = build.fmul(build.fadd(up, down), even)
        return inner.fma(build.fsub(up, down), odd, value)

    return in_double(lanes, "cosh", body, (x,))
