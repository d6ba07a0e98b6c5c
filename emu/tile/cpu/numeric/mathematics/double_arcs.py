"""Inverse trigonometric functions of f64, in vector code."""

from __future__ import annotations

import functools

from emu.tile.cpu.numeric.mathematics.shared import angle, outlined
from emu.tile.cpu.numeric.vector_builder import VectorBuilder, intrinsic
from emu.tile.llvm import Register

_HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
_PI = (3.141592653589793, 1.2246467991473532e-16)

_ASIN = (  # asin(x) = x + x**3 * ASIN(x**2), |x| <= 1/2: 2**-58
    0.16666666666666702,
    0.07499999999984511,
    0.04464285716363594,
    0.030381943144576987,
    0.022372204933033615,
    0.017351756627662338,
    0.013979471035152085,
    0.011407153963822173,
    0.010748063085206221,
    0.003780689950562177,
    0.021629907437663416,
    -0.0210206111036851,
    0.03271610483041268,
)
_ATAN = (  # atan(x) = x + x**3 * ATAN(x**2), |x| <= 1: 2**-59
    -0.3333333333333332,
    0.19999999999995496,
    -0.1428571428531463,
    0.1111111109425902,
    -0.09090908679165004,
    0.07692301179380102,
    -0.06666595121066546,
    0.058817803515109006,
    -0.0525970268414427,
    0.04745776824599171,
    -0.0428843831381979,
    0.03824747867295582,
    -0.03283661013802988,
    0.026202141510517998,
    -0.01864656661560076,
    0.01132581060810669,
    -0.0056053430068805365,
    0.002142540426633009,
    -0.000588107909822582,
    0.00010254652527488448,
    -8.49700471768182e-06,
)


def _arc(lanes: VectorBuilder, x: Register) -> tuple[Register, Register, Register]:
    """Return two parts of asin(|x|) where |x| <= 1/2, else of acos(|x|) / 2, and whether it is the latter."""
    build = lanes.builder
    size = lanes.abs(x)
    far = build.fcmp_ordered(">", size, lanes.f64(0.5))
    half = lanes.fma(size, lanes.f64(-0.5), lanes.f64(0.5))  # exact
    square = build.select(far, half, build.fmul(x, x))
    root = build.select(far, intrinsic(build, "sqrt", (half,)), size)
    rest = build.fmul(build.fmul(square, root), lanes.polynomial(square, _ASIN))
    return root, rest, far


def asin(lanes: VectorBuilder, x: Register) -> Register:
    """Arc sine; NaN beyond 1."""

    def body(inner: VectorBuilder, x: Register) -> Register:
        build = inner.builder
        root, rest, far = _arc(inner, x)
        near = build.fadd(root, rest)
        quarter = inner.f64(_HALF_PI[0])
        outer = inner.fma(root, inner.f64(-2.0), quarter)
        lost = inner.fma(root, inner.f64(-2.0), build.fsub(quarter, outer))
        rest = inner.fma(rest, inner.f64(-2.0), build.fadd(lost, inner.f64(_HALF_PI[1])))
        return inner.copysign(build.select(far, build.fadd(outer, rest), near), x)

    return outlined(lanes, "asin.f64", body, (x,))


def acos(lanes: VectorBuilder, x: Register) -> Register:
    """Arc cosine; NaN beyond 1."""

    def body(inner: VectorBuilder, x: Register) -> Register:
        build = inner.builder
        root, rest, far = _arc(inner, x)
        value = build.fadd(root, rest)
        negative = build.fcmp_ordered("<", x, inner.f64(0.0))
        near = _from(inner, _HALF_PI, inner.copysign(value, x))
        double = build.fadd(value, value)
        return build.select(far, build.select(negative, _from(inner, _PI, double), double), near)

    return outlined(lanes, "acos.f64", body, (x,))


def _from(lanes: VectorBuilder, angle: tuple[float, float], value: Register) -> Register:
    """Return an angle of two parts less a value."""
    lost = lanes.builder.fsub(value, lanes.f64(angle[1]))
    return lanes.builder.fsub(lanes.f64(angle[0]), lost)


def _near(lanes: VectorBuilder, x: Register) -> Register:
    """Return the arc tangent of 0 to 1."""
    square = lanes.builder.fmul(x, x)
    cube = lanes.builder.fmul(square, x)
    return lanes.fma(cube, lanes.polynomial(square, _ATAN), x)


def atan(lanes: VectorBuilder, x: Register) -> Register:
    """Arc tangent."""

    def body(inner: VectorBuilder, x: Register) -> Register:
        build = inner.builder
        size = inner.abs(x)
        far = build.fcmp_ordered(">", size, inner.f64(1.0))
        value = _near(inner, build.select(far, build.fdiv(inner.f64(1.0), size), size))
        value = build.select(far, _from(inner, _HALF_PI, value), value)
        return inner.copysign(value, x)

    return outlined(lanes, "atan.f64", body, (x,))


def atan2(lanes: VectorBuilder, y: Register, x: Register) -> Register:
    """Angle of the point (x, y), with the special cases of C."""

    def body(inner: VectorBuilder, y: Register, x: Register) -> Register:
        def less(quarters: int, value: Register) -> Register:
            return _from(inner, _HALF_PI if quarters == 1 else _PI, value)

        return angle(inner, y, x, functools.partial(_near, inner), less)

    return outlined(lanes, "atan2.f64", body, (y, x))
