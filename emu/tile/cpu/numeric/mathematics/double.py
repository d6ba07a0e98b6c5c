"""Exponentials, logarithms, sine and cosine of f64: vector code that stays within one unit in the last place.

See ``double_arcs`` and ``double_steps`` for more. The other functions of f64 are the C library's, lane by lane.
"""

from __future__ import annotations

from emu.tile.cpu.numeric.mathematics.library import call
from emu.tile.cpu.numeric.mathematics.shared import (
    ROUND_64,
    nearest_64,
    outlined,
    unlikely,
    without_multiple,
)
from emu.tile.cpu.numeric.vector_builder import DOUBLE, I64, VectorBuilder
from emu.tile.llvm import Register

_LN2 = (0.6931471805599453, 2.3190468138462996e-17)
_LN2_SHORT = (0.6931471805592082, 7.371002565167799e-13)
_LOG10_2_SHORT = (0.301029995663157, 8.241712586023572e-13)
"""Logarithms of 2 in two parts; of the short ones the first has 40 bits, so that products with exponents are exact."""
_LOG2_E = (1.4426950408889634, 2.0355273740931033e-17)
_LOG10_E = (0.4342944819032518, 1.098319650216765e-17)
_TWO_BY_PI = 0.6366197723675814
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
_LARGE = 2.0**20
"""Up to here three parts of pi / 2 suffice."""
_ROOT_HALF = 0x3FE6A09E667F3BCD
_ONE = 0x3FF0000000000000

_EXP = (  # e**r = 1 + r + r**2 * EXP(r), |r| <= ln(2) / 2: 2**-59
    0.5,
    0.16666666666666666,
    0.04166666666666668,
    0.008333333333333333,
    0.0013888888888879073,
    0.00019841269841263298,
    2.4801587336442236e-05,
    2.755731924721873e-06,
    2.75572632790885e-07,
    2.505207109429355e-08,
    2.0918137737642736e-09,
    1.608662795678037e-10,
)
_LOG = (  # log(1 + f) = f - f**2 / 2 + f**3 * LOG(f), 1 + f in sqrt(1/2) ... sqrt(2): 2**-57
    0.33333333333333337,
    -0.2499999999999993,
    0.19999999999993223,
    -0.16666666666697305,
    0.1428571428759174,
    -0.12499999997109267,
    0.11111110909841072,
    -0.0999999999631727,
    0.09090919875998202,
    -0.08333345056413204,
    0.0769198812013375,
    -0.0714223204915847,
    0.06671985555271291,
    -0.06265031869518063,
    0.05837018351464999,
    -0.05368280388050548,
    0.0537187789066478,
    -0.06129561980727906,
    0.0566642324205218,
    -0.025061228095282464,
)
_LOG2 = (  # log2(1 + f) = f * log2(e) + f**2 * LOG2(f): 2**-57
    -0.7213475204444817,
    0.4808983469629884,
    -0.3606737602222327,
    0.2885390081774397,
    -0.24044917348354955,
    0.20609929162066215,
    -0.1803368799413099,
    0.16029944348886405,
    -0.14426950832534222,
    0.1311543460681079,
    -0.1202247097488472,
    0.11096988442312375,
    -0.10303984990838018,
    0.09628180886163609,
    -0.09041183917052573,
    0.08403799946124911,
    -0.07717320573971123,
    0.07802294125948118,
    -0.08955523751505919,
    0.08148073355757288,
    -0.03509525191830541,
)
_LOG10 = (  # log10(1 + f) = f * log10(e) + f**2 * LOG10(f): 2**-57
    -0.2171472409516259,
    0.14476482730108411,
    -0.1085736204758105,
    0.08685889638054411,
    -0.07238241365116078,
    0.06204206886291752,
    -0.054286810186788416,
    0.04825494077839135,
    -0.04342944946562246,
    0.039481392228194814,
    -0.036191243854398876,
    0.033405263826725436,
    -0.031018085571136958,
    0.02898371250413858,
    -0.027216675553475924,
    0.025297958613429473,
    -0.0232314497892008,
    0.02348724566903268,
    -0.026958812760845073,
    0.024528144869534172,
    -0.010564723532793807,
)
_SIN = (  # sin(r) = r + r**3 * SIN(r**2), |r| <= pi / 4: 2**-58
    -0.16666666666666666,
    0.008333333333333331,
    -0.0001984126984126506,
    2.7557319219335453e-06,
    -2.5052106231157904e-08,
    1.605853141458901e-10,
    -7.586685070091267e-13,
)
_COS = (  # cos(r) = 1 - r**2 / 2 + r**4 * COS(r**2): 2**-59
    0.041666666666666664,
    -0.0013888888888887395,
    2.4801587298763433e-05,
    -2.7557317270560326e-07,
    2.0876146024689747e-09,
    -1.1382614868556325e-11,
)


def _power(lanes: VectorBuilder, x: Register, number: Register) -> Register:
    """Return x * 2**n for x near 1 and an integer n from -1100 to 1100, given as f64: two exact factors."""
    build = lanes.builder
    rounded = lanes.fma(number, lanes.f64(0.5), lanes.f64(ROUND_64))
    rest = build.fadd(
        build.fsub(number, build.fsub(rounded, lanes.f64(ROUND_64))), lanes.f64(ROUND_64)
    )
    for exponent in (rounded, rest):
        bits = build.add(build.shl(lanes.cast(exponent, I64), lanes.i64(52)), lanes.i64(_ONE))
        x = build.fmul(x, lanes.cast(bits, DOUBLE))
    return x


def exp_of_small(lanes: VectorBuilder, r: Register, lost: Register | None = None) -> Register:
    """Return e**(r + lost) for a small r, and what was lost of it."""
    build = lanes.builder
    high = build.fadd(r, lanes.f64(1.0))
    low = build.fsub(r, build.fsub(high, lanes.f64(1.0)))  # what the sum has lost
    if lost is not None:
        low = build.fadd(low, lost)
    return build.fadd(high, lanes.fma(build.fmul(r, r), lanes.polynomial(r, _EXP), low))


def exp(lanes: VectorBuilder, x: Register) -> Register:
    """e**x."""
    x = lanes.clamp(x, -746.0, 710.0)
    r, number, _ = _reduced(lanes, x)
    return _power(lanes, exp_of_small(lanes, r), number)


def exp_parts(lanes: VectorBuilder, x: Register) -> tuple[Register, Register]:
    """e**x = p * 2**n: p, and n in the last bits."""
    r, _, exponent = _reduced(lanes, x)
    return exp_of_small(lanes, r), exponent


def _reduced(lanes: VectorBuilder, x: Register) -> tuple[Register, Register, Register]:
    """x = n * ln(2) + r: r, n, and n in the last bits."""
    number, exponent = nearest_64(lanes, x, _LOG2_E[0])
    r = lanes.fma(number, lanes.f64(-_LN2[0]), x)
    return lanes.fma(number, lanes.f64(-_LN2[1]), r), number, exponent


def exp2(lanes: VectorBuilder, x: Register) -> Register:
    """2**x."""
    build = lanes.builder
    x = lanes.clamp(x, -1076.0, 1025.0)
    number, _ = nearest_64(lanes, x, 1.0)
    fraction = build.fsub(x, number)  # exact
    r = build.fmul(fraction, lanes.f64(_LN2[0]))
    lost = lanes.fma(fraction, lanes.f64(_LN2[0]), build.fneg(r))
    lost = lanes.fma(fraction, lanes.f64(_LN2[1]), lost)
    return _power(lanes, exp_of_small(lanes, r, lost), number)


def sigmoid(lanes: VectorBuilder, x: Register) -> Register:
    """1 / (1 + e**-x), without the overflow that would lose small results."""
    build = lanes.builder
    power = exp(lanes, build.fneg(lanes.abs(x)))
    negative = build.fcmp_ordered("<", x, lanes.f64(0.0))
    top = build.select(negative, power, lanes.f64(1.0))
    return build.fdiv(top, build.fadd(power, lanes.f64(1.0)))


def _split(lanes: VectorBuilder, x: Register) -> tuple[Register, Register]:
    """x = 2**e * (1 + f), 1 + f next to 1: e as f64, and f. No CPU before AVX-512 has ``ashr`` of i64."""
    build = lanes.builder
    tiny = build.fcmp_ordered("<", x, lanes.f64(2.0**-1022))
    bits = lanes.cast(build.select(tiny, build.fmul(x, lanes.f64(2.0**54)), x), I64)
    offset = build.add(bits, lanes.i64(_ONE - _ROOT_HALF))
    biased = build.or_(build.lshr(offset, lanes.i64(52)), lanes.i64(0x4330000000000000))
    bias = build.select(tiny, lanes.f64(2.0**52 + 1023 + 54), lanes.f64(2.0**52 + 1023))
    exponent = build.fsub(lanes.cast(biased, DOUBLE), bias)
    mantissa = build.sub(bits, build.and_(offset, lanes.i64(-1 << 52)))
    mantissa = lanes.cast(build.add(mantissa, lanes.i64(_ONE)), DOUBLE)
    return exponent, build.fsub(mantissa, lanes.f64(1.0))


def _edges(lanes: VectorBuilder, x: Register, value: Register) -> Register:
    """Select the logarithm of what is not positive and finite: of 0 -inf, below NaN, of inf and NaN itself."""
    build = lanes.builder
    infinity, zero = lanes.f64(float("inf")), lanes.f64(0.0)
    value = build.select(build.fcmp_ordered("<", x, infinity), value, x)
    value = build.select(build.fcmp_ordered("==", x, zero), lanes.f64(-float("inf")), value)
    return build.select(build.fcmp_ordered("<", x, zero), lanes.f64(float("nan")), value)


def _log_of(lanes: VectorBuilder, exponent: Register, f: Register) -> Register:
    """Return e * log(2) + log(1 + f)."""
    build = lanes.builder
    rest = lanes.fma(f, lanes.polynomial(f, _LOG), lanes.f64(-0.5))
    rest = lanes.fma(build.fmul(f, f), rest, build.fmul(exponent, lanes.f64(_LN2_SHORT[1])))
    return _sum_of(lanes, build.fmul(exponent, lanes.f64(_LN2_SHORT[0])), f, rest)


def _sum_of(lanes: VectorBuilder, whole: Register, f: Register, rest: Register) -> Register:
    """Return the sum of a number that is 0 or larger than the second, of that, and of a small one."""
    build = lanes.builder
    high = build.fadd(whole, f)
    low = build.fsub(f, build.fsub(high, whole))  # what the sum has lost
    return build.fadd(high, build.fadd(low, rest))


def log(lanes: VectorBuilder, x: Register) -> Register:
    """Natural logarithm."""
    return _edges(lanes, x, _log_of(lanes, *_split(lanes, x)))


def log1p(lanes: VectorBuilder, x: Register) -> Register:
    """log(1 + x)."""
    build = lanes.builder
    one = lanes.f64(1.0)
    total = build.fadd(x, one)
    exponent, f = _split(lanes, total)
    # What the sum has lost, scaled as f is. Of infinities it is NaN, which the edges replace.
    above = build.fcmp_ordered(">", x, one)
    lost = build.select(
        above,
        build.fsub(one, build.fsub(total, x)),
        build.fsub(x, build.fsub(total, one)),
    )
    down = build.fsub(lanes.f64(ROUND_64), lanes.clamp(exponent, -60.0, 1000.0))
    bits = build.add(build.shl(lanes.cast(down, I64), lanes.i64(52)), lanes.i64(_ONE))
    unscaled = build.fcmp_ordered("==", exponent, lanes.f64(0.0))
    f = build.select(unscaled, x, lanes.fma(lost, lanes.cast(bits, DOUBLE), f))
    value = _edges(lanes, total, _log_of(lanes, exponent, f))
    return build.select(build.fcmp_ordered("==", x, lanes.f64(0.0)), x, value)


def _based(
    lanes: VectorBuilder, f: Register, base: tuple[float, float], powers: tuple[float, ...]
) -> tuple[Register, Register]:
    """Return the logarithm of 1 + f to a base whose own inverse logarithm is given, in two parts."""
    build = lanes.builder
    high = build.fmul(f, lanes.f64(base[0]))
    low = lanes.fma(f, lanes.f64(base[0]), build.fneg(high))
    low = lanes.fma(f, lanes.f64(base[1]), low)
    return high, lanes.fma(build.fmul(f, f), lanes.polynomial(f, powers), low)


def log2(lanes: VectorBuilder, x: Register) -> Register:
    """Logarithm to base 2."""
    exponent, f = _split(lanes, x)
    return _edges(lanes, x, _sum_of(lanes, exponent, *_based(lanes, f, _LOG2_E, _LOG2)))


def log10(lanes: VectorBuilder, x: Register) -> Register:
    """Logarithm to base 10."""
    build = lanes.builder
    exponent, f = _split(lanes, x)
    high, low = _based(lanes, f, _LOG10_E, _LOG10)
    low = lanes.fma(exponent, lanes.f64(_LOG10_2_SHORT[1]), low)
    whole = build.fmul(exponent, lanes.f64(_LOG10_2_SHORT[0]))
    return _edges(lanes, x, _sum_of(lanes, whole, high, low))


def _sine(lanes: VectorBuilder, x: Register, quarter: int) -> Register:
    """Return sin(x + quarter * pi / 2)."""
    build = lanes.builder
    number, turns = nearest_64(lanes, x, _TWO_BY_PI)
    parts = [lanes.f64(-part) for part in _HALF_PI]
    high, low = without_multiple(lanes, x, number, parts)
    square = build.fmul(high, high)
    half = build.fmul(square, lanes.f64(0.5))
    # sin(high + low) = high + (high**3 SIN + low (1 - high**2 / 2))
    tail = lanes.fma(build.fneg(half), low, low)
    sine = build.fmul(build.fmul(square, high), lanes.polynomial(square, _SIN))
    sine = build.fadd(high, build.fadd(sine, tail))
    # cos(high + low) = 1 - high**2 / 2 + (high**4 COS - high low)
    top = build.fsub(lanes.f64(1.0), half)
    lost = build.fsub(build.fsub(lanes.f64(1.0), top), half)
    tail = lanes.fma(build.fneg(high), low, lost)
    cosine = lanes.fma(build.fmul(square, square), lanes.polynomial(square, _COS), tail)
    cosine = build.fadd(top, cosine)
    if quarter:
        turns = build.add(turns, lanes.i64(quarter))
    odd = build.icmp_unsigned("!=", build.and_(turns, lanes.i64(1)), lanes.i64(0))
    value = build.select(odd, cosine, sine)
    sign = build.shl(build.and_(turns, lanes.i64(2)), lanes.i64(62))
    value = lanes.cast(build.xor(lanes.cast(value, I64), sign), DOUBLE)
    if quarter:
        return value
    return build.select(build.fcmp_ordered("==", x, lanes.f64(0.0)), x, value)  # of -0


def _wave(lanes: VectorBuilder, x: Register, name: str, quarter: int) -> Register:
    """Return a sine; where a lane is large, the C library's."""

    def body(inner: VectorBuilder, a: Register) -> Register:
        build = inner.builder
        small = _sine(inner, a, quarter)
        beyond = build.fcmp_ordered(">", inner.abs(a), inner.f64(_LARGE))
        return unlikely(
            inner, beyond, small, lambda: build.select(beyond, call(inner, name, (a,)), small)
        )

    return outlined(lanes, f"{name}.f64", body, (x,))


def sin(lanes: VectorBuilder, x: Register) -> Register:
    """Sine of radians."""
    return _wave(lanes, x, "sin", 0)


def cos(lanes: VectorBuilder, x: Register) -> Register:
    """Cosine of radians."""
    return _wave(lanes, x, "cos", 1)
