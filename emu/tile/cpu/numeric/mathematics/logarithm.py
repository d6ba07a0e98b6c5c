"""Logarithms and powers of f32."""

from __future__ import annotations

from emu.tile.cpu.numeric.mathematics.exponential import exp2_64
from emu.tile.cpu.numeric.mathematics.shared import in_double
from emu.tile.cpu.numeric.vector_builder import DOUBLE, FLOAT, I32, I64, VectorBuilder, intrinsic
from emu.tile.llvm import Register

_LN2_32 = (0.6931471824645996, -1.9046542121259336e-09)
_LOG2_E_32 = (1.4426950216293335, 1.925963033500011e-08)
_LN2 = 0.6931471805599453
_LOG2_E = 1.4426950408889634
_LOG10_E_32 = (0.4342944920063019, -1.0103049952192578e-08)
_LOG10_2_32 = (0.30103302001953125, -3.024355464731343e-06)
"""Logarithms in two f32; of the latter the first has 16 bits, so that products with exponents are exact."""

_LOG = (  # log(1 + f) = f - f**2 / 2 + f**3 * LOG(f), 1 + f in sqrt(1/2) ... sqrt(2): 2**-28
    0.3333331346511841,
    -0.25000008940696716,
    0.2000211924314499,
    -0.1666799634695053,
    0.14219550788402557,
    -0.124055877327919,
    0.11888168007135391,
    -0.11675664037466049,
    0.06746644526720047,
)
_LOG2 = (  # log2(1 + f) = f * log2(e) + f**2 * LOG2(f): 2**-26.9
    -0.7213473320007324,
    0.4808982014656067,
    -0.36069682240486145,
    0.2885691225528717,
    -0.23961426317691803,
    0.20456337928771973,
    -0.19105209410190582,
    0.18642443418502808,
    -0.11029395461082458,
)
_LOG10 = (  # log10(1 + f) = f * log10(e) + f**2 * LOG10(f): 2**-27.9
    -0.21714718639850616,
    0.14476478099822998,
    -0.1085805594921112,
    0.08686796575784683,
    -0.07213111966848373,
    0.06157975271344185,
    -0.05751214921474457,
    0.05611901357769966,
    -0.03320203721523285,
)
_LOG_64 = (  # log(1 + f) = f - f**2 / 2 + f**3 * LOG(f): 2**-40.8
    0.33333333320412395,
    -0.2500000018716252,
    0.2000000298450105,
    -0.1666664566357332,
    0.14285491711267112,
    -0.12500740579719466,
    0.11118683935814841,
    -0.09991547176313437,
    0.08962868920559953,
    -0.0829218158795305,
    0.08697814419731832,
    -0.08525637531405855,
    0.04395020977516608,
)
_LOG_ONCE = (  # the same for a result that is rounded to f32 at once: 2**-33.6
    0.33333333384803754,
    -0.249999994987083,
    0.19999973727896375,
    -0.1666671980607466,
    0.14287886099982502,
    -0.12499927717186018,
    0.11048250377157395,
    -0.09931553137948022,
    0.09804564386097082,
    -0.09727659389760898,
    0.05555094556064493,
)
_EXP2_64 = (  # 2**r = 1 + r * EXP2(r), |r| <= 1/2: 2**-43
    0.6931471805585281,
    0.2402265069581216,
    0.05550410874061987,
    0.009618129159792715,
    0.0013333547243887104,
    0.0001540345544095681,
    1.5258516523490834e-05,
    1.3255341574685324e-06,
    9.168102580442171e-08,
)
_ROOT_HALF_32 = 0x3F3504F3
_ROOT_HALF_64 = 0x3FE6A09E667F3BCD
_ONE_64 = 0x3FF0000000000000


def _split_32(lanes: VectorBuilder, x: Register) -> tuple[Register, Register]:
    """x = 2**e * (1 + f), 1 + f next to 1: e as f32, and f."""
    build = lanes.builder
    tiny = build.fcmp_ordered("<", x, lanes.f32(2.0**-126))
    bits = lanes.cast(build.select(tiny, build.fmul(x, lanes.f32(2.0**23)), x), I32)
    offset = build.sub(bits, lanes.i32(_ROOT_HALF_32))
    exponent = build.sitofp(build.ashr(offset, lanes.i32(23)), lanes.type(FLOAT))
    exponent = build.fadd(exponent, build.select(tiny, lanes.f32(-23.0), lanes.f32(0.0)))
    mantissa = build.sub(bits, build.and_(offset, lanes.i32(-1 << 23)))
    return exponent, build.fsub(lanes.cast(mantissa, FLOAT), lanes.f32(1.0))


def _edges(lanes: VectorBuilder, x: Register, value: Register) -> Register:
    """Select the logarithm of what is not positive and finite: of 0 -inf, below NaN, of inf and NaN itself."""
    build = lanes.builder
    zero, infinity = lanes.like(x, 0.0), lanes.like(x, float("inf"))
    inside = build.fcmp_ordered("<", x, infinity)
    value = build.select(inside, value, x)
    value = build.select(build.fcmp_ordered("==", x, zero), lanes.like(x, -float("inf")), value)
    negative = build.fcmp_ordered("<", x, zero)
    return build.select(negative, lanes.like(x, float("nan")), value)


def log(lanes: VectorBuilder, x: Register) -> Register:
    """Natural logarithm."""
    build = lanes.builder
    exponent, f = _split_32(lanes, x)
    square = build.fmul(f, f)
    rest = lanes.fma(f, lanes.polynomial(f, _LOG), lanes.f32(-0.5))
    rest = lanes.fma(square, rest, build.fmul(exponent, lanes.f32(_LN2_32[1])))
    value = lanes.fma(exponent, lanes.f32(_LN2_32[0]), build.fadd(f, rest))
    return _edges(lanes, x, value)


def log2(lanes: VectorBuilder, x: Register) -> Register:
    """Logarithm to base 2."""
    build = lanes.builder
    exponent, f = _split_32(lanes, x)
    rest = lanes.fma(f, lanes.polynomial(f, _LOG2), lanes.f32(_LOG2_E_32[1]))
    value = lanes.fma(f, lanes.f32(_LOG2_E_32[0]), build.fmul(f, rest))
    return _edges(lanes, x, build.fadd(exponent, value))


def _split_64(lanes: VectorBuilder, x: Register) -> tuple[Register, Register]:
    """x = 2**e * (1 + f), 1 + f next to 1: e as f64, and f. No CPU before AVX-512 has ``ashr`` of i64."""
    build = lanes.builder
    bits = lanes.cast(x, I64)
    offset = build.add(bits, lanes.i64(_ONE_64 - _ROOT_HALF_64))
    biased = build.lshr(offset, lanes.i64(52))
    exponent = lanes.cast(build.or_(biased, lanes.i64(0x4330000000000000)), DOUBLE)
    exponent = build.fsub(exponent, lanes.f64(2.0**52 + 1023))
    whole = build.and_(offset, lanes.i64(-1 << 52))
    mantissa = build.add(build.sub(bits, whole), lanes.i64(_ONE_64))
    return exponent, build.fsub(lanes.cast(mantissa, DOUBLE), lanes.f64(1.0))


def _near_one(
    lanes: VectorBuilder, f: Register, coefficients: tuple[float, ...] = _LOG_ONCE
) -> Register:
    """log(1 + f)."""
    build = lanes.builder
    rest = lanes.fma(f, lanes.polynomial(f, coefficients), lanes.f64(-0.5))
    return lanes.fma(build.fmul(f, f), rest, f)


def log10(lanes: VectorBuilder, x: Register) -> Register:
    """Logarithm to base 10."""
    build = lanes.builder
    exponent, f = _split_32(lanes, x)
    high = build.fmul(f, lanes.f32(_LOG10_E_32[0]))
    low = lanes.fma(f, lanes.f32(_LOG10_E_32[0]), build.fneg(high))
    low = lanes.fma(f, lanes.f32(_LOG10_E_32[1]), low)
    low = lanes.fma(build.fmul(f, f), lanes.polynomial(f, _LOG10), low)
    low = lanes.fma(exponent, lanes.f32(_LOG10_2_32[1]), low)
    whole = build.fmul(exponent, lanes.f32(_LOG10_2_32[0]))  # 0, or larger than the rest
    total = build.fadd(whole, high)
    lost = build.fsub(high, build.fsub(total, whole))
    return _edges(lanes, x, build.fadd(total, build.fadd(lost, low)))


def log1p(lanes: VectorBuilder, x: Register) -> Register:
    """log(1 + x)."""

    def body(inner: VectorBuilder, wide: Register) -> Register:
        build = inner.builder
        total = build.fadd(wide, inner.f64(1.0))
        exponent, f = _split_64(inner, total)
        unscaled = build.fcmp_ordered("==", exponent, inner.f64(0.0))
        f = build.select(unscaled, wide, f)  # what the sum has lost
        value = inner.fma(exponent, inner.f64(_LN2), _near_one(inner, f))
        value = _edges(inner, total, value)
        zero = build.fcmp_ordered("==", wide, inner.f64(0.0))
        return build.select(zero, wide, value)

    return in_double(lanes, "log1p", body, (x,))


def pow_(lanes: VectorBuilder, x: Register, y: Register) -> Register:
    """x**y, with the special cases of C."""
    return in_double(lanes, "pow", _pow, (x, y))


def _pow(lanes: VectorBuilder, x: Register, y: Register) -> Register:
    build = lanes.builder
    zero, one = lanes.f64(0.0), lanes.f64(1.0)
    size = lanes.abs(x)
    exponent, f = _split_64(lanes, size)
    logarithm = lanes.fma(_near_one(lanes, f, _LOG_64), lanes.f64(_LOG2_E), exponent)
    logarithm = _edges(lanes, size, logarithm)
    product = build.fmul(y, logarithm)
    value = exp2_64(lanes, lanes.clamp(product, -1000.0, 1000.0), _EXP2_64)
    # 1 to any power, -1 to an infinite one (0 * inf above), and anything to the power of 0
    unit = build.fcmp_ordered("==", size, one)
    value = build.select(build.and_(unit, build.fcmp_ordered("==", y, y)), one, value)
    half = build.fmul(y, lanes.f64(0.5))
    integral = build.fcmp_ordered("==", _truncated(lanes, y), y)
    even = build.fcmp_ordered("==", _truncated(lanes, half), half)
    odd = build.and_(integral, build.xor(even, lanes.like(even, 1)))
    signed = build.select(odd, lanes.copysign(value, x), value)
    undefined = build.and_(
        build.and_(
            build.fcmp_ordered("<", x, zero), build.fcmp_ordered("<", size, _infinity(lanes))
        ),
        build.fcmp_unordered("!=", _truncated(lanes, y), y),
    )
    value = build.select(undefined, lanes.f64(float("nan")), signed)
    trivial = build.or_(build.fcmp_ordered("==", y, zero), build.fcmp_ordered("==", x, one))
    return build.select(trivial, one, value)


def _infinity(lanes: VectorBuilder) -> Register:
    return lanes.f64(float("inf"))


def _truncated(lanes: VectorBuilder, x: Register) -> Register:
    """Return the integer part of y, where adding has no use for what is beyond 2**52."""
    return intrinsic(lanes.builder, "trunc", (x,))
