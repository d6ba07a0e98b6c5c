"""Functions of f64 that go from -1 to 1, in vector code: the hyperbolic tangent and the error function."""

from __future__ import annotations

from emu.tile.cpu.numeric.mathematics.double import exp_of_small, exp_parts
from emu.tile.cpu.numeric.mathematics.shared import nearest_64, outlined, power_64
from emu.tile.cpu.numeric.vector_builder import VectorBuilder
from emu.tile.llvm import Register

_LN2 = 0.6931471805599453

_TANH = (  # tanh(x) = x + x**3 * TANH(x**2), x**2 <= 0.4: 2**-59
    -0.3333333333333332,
    0.13333333333330566,
    -0.05396825396626136,
    0.02186948846907348,
    -0.00886323425580443,
    0.003592112961005236,
    -0.0014557168375829144,
    0.0005894047327658206,
    -0.00023686142495075768,
    9.126620586666024e-05,
    -2.9869739780489652e-05,
    5.894488947969694e-06,
)
_SMALL = (  # erf(x) = x + x * SMALL(x**2), x**2 <= 1: 2**-62
    0.1283791670955126,
    -0.3761263890318375,
    0.11283791670954858,
    -0.02686617064507296,
    0.00522397762478137,
    -0.0008548326978765149,
    0.00012055331037551108,
    -1.4925593518728226e-05,
    1.6460972954153757e-06,
    -1.6350026192077193e-07,
    1.4657883530919173e-08,
    -1.1365670671825423e-09,
    5.945255584220722e-11,
)
_LARGE = (  # erf(x) = 1 - 2**LARGE(x), 1 <= x <= 5.95: 2**-59
    -2.66087801207418e-07,
    -1.6279043088287297,
    -0.9184610770839453,
    -0.14823206248658682,
    0.027522211060210463,
    0.00040719482338587293,
    -0.002554931644111594,
    0.0009274343394242711,
    -6.631389810926491e-05,
    -0.00010062195196811066,
    6.458675187751444e-05,
    -2.369040458893977e-05,
    6.205970858214066e-06,
    -1.2193220740570228e-06,
    1.80088384952242e-07,
    -1.950803791126679e-08,
    1.4672649974732936e-09,
    -6.855196162377996e-11,
    1.4990294519833095e-12,
)


def tanh(lanes: VectorBuilder, x: Register) -> Register:
    """1 - 2 / (e**2x + 1), near 0 a polynomial."""

    def body(inner: VectorBuilder, x: Register) -> Register:
        build = inner.builder
        size, square = inner.abs(x), build.fmul(x, x)
        near = inner.fma(build.fmul(square, size), inner.polynomial(square, _TANH), size)
        power, exponent = exp_parts(inner, inner.clamp(build.fadd(size, size), 0.0, 44.0))
        bottom = inner.fma(power, power_64(inner, exponent), inner.f64(1.0))
        far = build.fsub(inner.f64(1.0), build.fdiv(inner.f64(2.0), bottom))
        small = build.fcmp_ordered("<", size, inner.f64(0.625))
        return inner.copysign(build.select(small, near, far), x)

    return outlined(lanes, "tanh.f64", body, (x,))


def erf(lanes: VectorBuilder, x: Register) -> Register:
    """2 / sqrt(pi) times the integral of e**-t**2 from 0 to x."""

    def body(inner: VectorBuilder, x: Register) -> Register:
        build = inner.builder
        size, square = inner.abs(x), build.fmul(x, x)
        near = inner.fma(size, inner.polynomial(square, _SMALL), size)
        logarithm = inner.polynomial(inner.clamp(size, 0.0, 5.95), _LARGE)
        number, exponent = nearest_64(inner, logarithm, 1.0)
        rest = build.fmul(build.fsub(logarithm, number), inner.f64(_LN2))
        power = exp_of_small(inner, rest)
        far = inner.fma(build.fneg(power), power_64(inner, exponent), inner.f64(1.0))
        small = build.fcmp_ordered("<", size, inner.f64(1.0))
        return inner.copysign(build.select(small, near, far), x)

    return outlined(lanes, "erf.f64", body, (x,))
