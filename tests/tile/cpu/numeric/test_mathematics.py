"""Mathematical functions in native code: units in the last place, special values, every number of lanes."""

import math

import numpy as np
import pytest

from emu.tile.cpu import native
from emu.tile.ir import Operation, Value
from emu.tile.ops import Code
from emu.tile.reference.elementwise import ELEMENTWISE
from emu.tile.types import BF16, F8E4M3FN, F8E5M2, F16, F32, F64

# NumPy warns of overflow and NaN, which are meant
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

INF, NAN = math.inf, math.nan
HASWELL = native.Target("haswell", "")
TARGETS = pytest.mark.parametrize("target", [None, HASWELL], ids=["host", "haswell"])


def _sigmoid(x):
    power = np.exp(-np.abs(x))
    return np.where(x < 0, power, 1.0) / (1.0 + power)


EXACT = {
    Code.EXP: np.exp,
    Code.EXP2: np.exp2,
    Code.EXPM1: np.expm1,
    Code.LOG: np.log,
    Code.LOG2: np.log2,
    Code.LOG10: np.log10,
    Code.LOG1P: np.log1p,
    Code.SQRT: np.sqrt,
    Code.RSQRT: lambda x: 1 / np.sqrt(x),
    Code.SIN: np.sin,
    Code.COS: np.cos,
    Code.TAN: np.tan,
    Code.ASIN: np.arcsin,
    Code.ACOS: np.arccos,
    Code.ATAN: np.arctan,
    Code.SINH: np.sinh,
    Code.COSH: np.cosh,
    Code.TANH: np.tanh,
    Code.ERF: lambda x: np.array([math.erf(v) for v in x.tolist()]),
    Code.SIGMOID: _sigmoid,
}
ONCE = {
    Code.EXPM1,
    Code.LOG1P,
    Code.SQRT,
    Code.SINH,
    Code.COSH,
}
"""Computed in f64 or by the CPU: rounded once, give or take."""


def numbers(per_exponent, seed=0):
    """f32 of every exponent and sign, beside those where functions change and those near k * pi / 2."""
    random = np.random.default_rng(seed)
    mantissa = random.integers(0, 1 << 23, (256, per_exponent), dtype=np.uint32)
    mantissa[:, :5] = [0, 1, (1 << 23) - 1, 0x3504F3, 0x3504F2]
    bits = (np.arange(256, dtype=np.uint32)[:, None] << 23 | mantissa).ravel()
    every = np.concatenate([bits, bits | np.uint32(1 << 31)]).view(np.float32)
    count = 40 * per_exponent
    multiples = np.concatenate([np.arange(1, count), np.arange(1, count) * 7919])
    multiples = (multiples * (np.pi / 2)).astype(np.float32)
    near = [np.nextafter(multiples, np.float32(side)) for side in (0, np.inf)]
    spread = [random.uniform(-a, a, count).astype(np.float32) for a in (1, 4, 20, 110, 1e5)]
    return np.concatenate([every, multiples, *near, *spread])


def units(got, want):
    """Distance of f32 from exact f64, in units of the last place that f32 has there.

    NaN for NaN, and what the exact result rounds to, are no distance beyond half a unit.
    """
    nearest = want.astype(np.float32)
    wide = got.astype(np.float64)
    exponent = np.maximum(np.frexp(np.where(np.isfinite(want), want, 0))[1] - 24, -149)
    distance = np.abs(wide - want) / np.ldexp(1.0, exponent)
    distance = np.where(np.isnan(distance), INF, distance)
    return np.where((got == nearest) | (np.isnan(got) & np.isnan(nearest)), 0.0, distance)


@TARGETS
def test_functions_of_f32_stay_within_two_units(compiled, make_case, target):
    x = numbers(256)
    functions = compiled([make_case(code, F32) for code in EXACT], 32, target)
    for (code, exact), function in zip(EXACT.items(), functions, strict=True):
        far = units(function(x), exact(x.astype(np.float64)))
        worst = int(np.argmax(far))
        assert far[worst] <= (0.51 if code in ONCE else 1.6), (code.name, x[worst], far[worst])


def _pairs():
    random = np.random.default_rng(5)
    every = numbers(24)
    one, other = random.permutation(every), random.permutation(every)
    positive = np.exp(random.uniform(-40, 40, 100_000))
    exponents = random.uniform(-4, 4, 100_000)
    near_one = 1 + random.normal(0, 1, 50_000) * 2.0 ** random.uniform(-23, -3, 50_000)
    large = random.normal(0, 1, 50_000) * 2.0 ** random.uniform(0, 24, 50_000)
    whole = random.integers(-40, 40, 50_000)
    base = random.normal(0, 3, 50_000)
    few = np.array([0, 1, 2, 3, 0.5, 1.5, 2**23 + 1, 2**24, 2**25, 1e-45, 1e30, INF, NAN])
    grid = np.meshgrid(*[np.concatenate([few, -few])] * 2)
    left = [one, positive, near_one, base, grid[0].ravel()]
    right = [other, exponents, large, whole, grid[1].ravel()]
    return [np.concatenate(side).astype(np.float32) for side in (left, right)]


@TARGETS
def test_pow_and_atan2_are_those_of_c(compiled, make_case, target):
    x, y = _pairs()
    cases = [make_case(code, F32) for code in (Code.POW, Code.ATAN2)]
    for exact, function in zip((np.power, np.arctan2), compiled(cases, 32, target), strict=True):
        got, want = function(x, y), exact(x.astype(np.float64), y.astype(np.float64))
        far = units(got, want)
        worst = int(np.argmax(far))
        assert far[worst] <= 0.51, (exact, x[worst], y[worst], got[worst], want[worst])
        zero = (got == 0) & (want == 0)
        assert np.array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_special_values(compiled, make_case, dtype):
    want = {
        Code.EXP: {0: 1, INF: INF, -INF: 0, 800: INF, -800: 0},
        Code.EXP2: {0: 1, 1: 2, -3: 0.125, INF: INF, -INF: 0, 2000: INF},
        Code.EXPM1: {0: 0, INF: INF, -INF: -1, -800: -1},
        Code.LOG: {0: -INF, 1: 0, INF: INF, -1: NAN, -INF: NAN},
        Code.LOG2: {0: -INF, 1: 0, 8: 3, 0.25: -2, INF: INF, -1: NAN},
        Code.LOG10: {0: -INF, 1: 0, 1000: 3, INF: INF, -1: NAN},
        Code.LOG1P: {-1: -INF, 0: 0, INF: INF, -2: NAN},
        Code.SQRT: {0: 0, 4: 2, INF: INF, -1: NAN},
        Code.RSQRT: {0: INF, 4: 0.5, INF: 0, -1: NAN},
        Code.SIN: {0: 0, INF: NAN, -INF: NAN},
        Code.COS: {0: 1, INF: NAN, -INF: NAN},
        Code.TAN: {0: 0, INF: NAN, -INF: NAN},
        Code.ASIN: {0: 0, 2: NAN, INF: NAN},
        Code.ACOS: {1: 0, 2: NAN, -INF: NAN},
        Code.ATAN: {0: 0},
        Code.SINH: {0: 0, INF: INF, -INF: -INF, 800: INF},
        Code.COSH: {0: 1, INF: INF, -INF: INF, -800: INF},
        Code.TANH: {0: 0, INF: 1, -INF: -1, 50: 1, -50: -1},
        Code.ERF: {0: 0, INF: 1, -INF: -1, 50: 1, -50: -1},
        Code.SIGMOID: {0: 0.5, INF: 1, -INF: 0, 200: 1, -800: 0},
    }
    odd = {Code.EXPM1, Code.LOG1P, Code.SQRT, Code.SIN, Code.TAN, Code.ASIN, Code.ATAN}
    odd |= {Code.SINH, Code.TANH, Code.ERF}
    functions = compiled([make_case(code, dtype) for code in want])
    for (code, values), function in zip(want.items(), functions, strict=True):
        arguments = np.tile([*values, NAN, -0.0], 7).astype(dtype.numpy)
        zero = EXACT[code](np.array([-0.0]))[0]
        results = np.tile([*values.values(), NAN, zero], 7).astype(dtype.numpy)
        got = function(arguments)
        assert np.array_equal(got, results, equal_nan=True), (code, got[:8], results[:8])
        if code in odd:
            assert np.signbit(function(np.full(33, -0.0, dtype.numpy))).all(), code


def _reference(code, *arrays):
    dtype = {d.numpy: d for d in (F16, BF16, F8E4M3FN, F8E5M2, F64)}[arrays[0].dtype]
    operation = Operation(code, [Value(dtype) for _ in arrays], [dtype], {})
    return np.asarray(ELEMENTWISE[code](operation, *arrays))


@pytest.mark.parametrize("dtype", [F16, BF16, F8E4M3FN, F8E5M2], ids=str)
def test_functions_of_narrow_floats_are_those_of_f32_rounded(compiled, make_case, dtype):
    x = np.arange(1 << dtype.bits).astype(f"u{dtype.bytes}").view(dtype.numpy)
    cases = [make_case(code, dtype) for code in EXACT]
    for case, function in zip(cases, compiled(cases), strict=True):
        got, want = function(x), _reference(case.code, x)
        different = ~((got == want) | (np.isnan(got) & np.isnan(want)))
        # f32 within two units may lie on the other side of a tie; then it is the neighbour
        assert different.sum() <= x.size // 1000, case.code
        bits = [a[different].view(f"i{dtype.bytes}").astype(int) for a in (got, want)]
        assert (np.abs(bits[0] - bits[1]) <= 1).all(), case.code


def test_functions_of_f64_are_those_of_c(compiled, make_case):
    random = np.random.default_rng(3)
    x = np.concatenate([numbers(8).astype(np.float64), random.normal(0, 3, 2_000)])
    y = random.permutation(x)
    codes = [*EXACT, Code.POW, Code.ATAN2]
    functions = compiled([make_case(code, F64) for code in codes])
    for code, function in zip(codes, functions, strict=True):
        exact = EXACT.get(code) or {Code.POW: np.power, Code.ATAN2: np.arctan2}[code]
        arguments = (x,) if code in EXACT else (x, y)
        np.testing.assert_allclose(
            function(*arguments), exact(*arguments), rtol=1e-15, atol=5e-324, err_msg=code.name
        )


def _doubles():
    """f64 of many exponents, beside 1, 0 and multiples of pi / 2, and where exponentials leave the range."""
    random = np.random.default_rng(4)
    exponents = np.arange(-1074, 1024)
    every = np.ldexp(random.uniform(1, 2, exponents.size), exponents)
    multiples = np.concatenate([np.arange(1, 3000), random.integers(3000, 660_000, 2000)]) * (
        np.pi / 2
    )
    near = [np.nextafter(multiples, side) for side in (0, np.inf)]
    near_one = 1 + random.normal(0, 1, 2000) * 2.0 ** random.uniform(-52, -1, 2000)
    spread = [random.uniform(-a, a, 3000) for a in (0.4, 1, 3, 100, 760, 1100, 2.0**20, 1e300)]
    positive = np.concatenate([every, multiples, *near, near_one])
    return np.concatenate([positive, -positive, *spread])


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs extended precision")
@TARGETS
@pytest.mark.parametrize(
    ("names", "most"),
    [
        (("EXP", "EXP2", "LOG", "LOG2", "LOG10", "LOG1P", "SIN", "COS"), 0.95),
        (("TANH", "ASIN", "ACOS", "ATAN"), 1.8),
    ],
)
def test_functions_of_f64_of_our_own_stay_within_units(compiled, make_case, target, names, most):
    x = _doubles()
    functions = compiled([make_case(Code[name], F64) for name in names], 32, target)
    for name, function in zip(names, functions, strict=True):
        far = _units_64(function(x), EXACT[Code[name]](x.astype(np.longdouble)))
        worst = int(np.argmax(far))
        assert far[worst] <= most, (name, x[worst], far[worst])


def _units_64(got, exact):
    """Distance of f64 from longer floats, in units of the last place; none for what is rounded or NaN as it should be."""
    nearest = exact.astype(np.float64)
    step = np.spacing(np.where(np.isfinite(nearest), np.abs(nearest), 1))
    far = np.abs((got.astype(np.longdouble) - exact) / step).astype(np.float64)
    same = (got == nearest) | (np.isnan(got) & np.isnan(nearest))
    return np.where(same, 0, np.where(np.isnan(far), INF, far))


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs extended precision")
@TARGETS
def test_angles_of_f64_stay_within_two_units(compiled, make_case, target):
    random = np.random.default_rng(8)
    x = random.permutation(_doubles())
    y = random.permutation(x)
    few = np.array([0.0, 1.0, 0.5, 5e-324, 1e308, INF, NAN])
    grid = np.meshgrid(*[np.concatenate([few, -few])] * 2)
    x, y = (np.concatenate(pair) for pair in ((x, grid[0].ravel()), (y, grid[1].ravel())))
    (function,) = compiled([make_case(Code.ATAN2, F64)], 32, target)
    got, want = function(y, x), np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble))
    far = _units_64(got, want)
    worst = int(np.argmax(far))
    assert far[worst] <= 2, (y[worst], x[worst], got[worst], want[worst])
    zero = got == 0
    assert np.array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


@pytest.mark.parametrize("lanes", [None, 3])
def test_every_number_of_lanes_gives_the_same_bits_of_f64(compiled, make_case, lanes):
    codes = [Code.EXP, Code.EXP2, Code.LOG, Code.LOG1P, Code.LOG10, Code.SIN, Code.COS]
    codes += [Code.TANH, Code.ERF, Code.ASIN, Code.ACOS, Code.ATAN]
    cases = [make_case(code, F64) for code in codes]
    x = np.random.default_rng(6).permutation(_doubles())[:4000]
    both = zip(cases, compiled(cases, lanes), compiled(cases), strict=True)
    for case, some, full in both:
        assert np.array_equal(some(x), full(x), equal_nan=True), case.code


@pytest.fixture(scope="module")
def full_vectors(compiled, make_case):
    """Every function of f32 with 32 lanes, by its code."""
    cases = [make_case(code, F32) for code in (*EXACT, Code.POW, Code.ATAN2)]
    return dict(zip([case.code for case in cases], compiled(cases), strict=True))


@pytest.mark.parametrize("lanes", [None, 3, 16])
def test_every_number_of_lanes_gives_the_same_bits(compiled, make_case, full_vectors, lanes):
    cases = [make_case(code, F32) for code in full_vectors]
    x = np.random.default_rng(9).permutation(numbers(8))
    for case, function in zip(cases, compiled(cases, lanes), strict=True):
        arguments = (x,) if case.code in EXACT else (x, x[::-1].copy())
        want = full_vectors[case.code](*arguments)
        assert np.array_equal(function(*arguments), want, equal_nan=True), case.code
