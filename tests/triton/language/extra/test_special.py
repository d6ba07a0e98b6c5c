"""Special functions, against SciPy and extended precision, within the bounds of docs/triton.md."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from language_harness import evaluate

from emu.triton.language.extra import libdevice

special = pytest.importorskip("scipy.special")
LONG = np.longdouble


def _long(name: str) -> Any:
    """NumPy's function in extended precision."""
    return lambda x: getattr(np, name)(x.astype(LONG))


def _tail(x: Any, factor: float) -> Any:
    """exp(-factor x**2) of positive numbers, which SciPy's functions of tails lose digits of."""
    wide = x.astype(LONG)
    return np.exp(-LONG(factor) * wide * wide)


def _erfc(x: Any) -> Any:
    size = np.abs(x)
    right = special.erfcx(size) * _tail(size, 1)
    return np.where(x < 0, 2 - right, right)


def _normcdf(x: Any) -> Any:
    size = np.abs(x)
    left = LONG(0.5) * special.erfcx(size / np.sqrt(2)) * _tail(size, 0.5)
    return np.where(x < 0, left, 1 - left)


REFERENCES: dict[str, tuple[Any, float, float, float]] = {
    # the reference, the interval, and the bound in ulp of fp64, SciPy's own error included
    "erfc": (_erfc, -6, 26, 8),
    "erfcx": (special.erfcx, -5, 60, 8),
    "erfinv": (special.erfinv, -1, 1, 8),
    "erfcinv": (special.erfcinv, 0, 2, 16),
    "normcdf": (_normcdf, -37, 9, 8),
    "normcdfinv": (special.ndtri, 0, 0.4, 32),
    "lgamma": (special.gammaln, 2.5, 500, 8),
    "tgamma": (special.gamma, 0.01, 170, 32),
    "cyl_bessel_i0": (special.i0, -20, 700, 12),
    "cyl_bessel_i1": (special.i1, -20, 700, 12),
    "cbrt": (_long("cbrt"), -1e6, 1e6, 1),
    "rcbrt": (lambda x: 1 / np.cbrt(x.astype(LONG)), 1e-3, 1e6, 2),
}


def _ulps(got: Any, wanted: Any) -> Any:
    with np.errstate(over="ignore", invalid="ignore"):
        step = np.spacing(np.abs(np.asarray(wanted).astype(got.dtype)))
    return np.abs(got.astype(LONG) - wanted) / step


@pytest.mark.parametrize("name", list(REFERENCES))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_functions_stay_within_their_bounds(name: str, dtype: Any) -> None:
    wanted, low, high, bound = REFERENCES[name]
    rng = np.random.default_rng(7)
    x = rng.uniform(low, high, 512)
    x[:128] = rng.uniform(max(low, -3), min(high, 3), 128)
    x = x.astype(dtype)
    got = evaluate(getattr(libdevice, name), x, native=True)
    exact = wanted(x.astype(np.float64))
    inside = np.abs(exact) < np.finfo(dtype).max
    limit = bound if dtype == np.float64 else 0.51
    assert got.dtype == dtype
    assert _ulps(got[inside], exact[inside]).max() <= limit


ABSOLUTE: dict[str, tuple[Any, float, float]] = {
    "j0": (special.j0, -60, 60),
    "j1": (special.j1, -60, 60),
    "y0": (special.y0, 0, 60),
    "y1": (special.y1, 0, 60),
    "lgamma": (special.gammaln, -20, 3),
    "tgamma": (special.gamma, -20, 1),
}


@pytest.mark.parametrize("name", list(ABSOLUTE))
def test_functions_with_zeros_stay_within_an_absolute_bound(name: str) -> None:
    wanted, low, high = ABSOLUTE[name]
    x = np.random.default_rng(8).uniform(low, high, 512)
    for dtype, bound in ((np.float32, 1.0), (np.float64, 16.0)):
        given = x.astype(dtype)
        got = evaluate(getattr(libdevice, name), given, native=True)
        exact = wanted(given.astype(np.float64))
        error = np.abs(got - exact) / np.maximum(1, np.abs(exact))
        assert error.max() <= bound * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["jn", "yn"])
def test_bessel_functions_of_any_order(name: str, dtype: Any) -> None:
    rng = np.random.default_rng(9)
    n = rng.integers(-12, 40, 128).astype(np.int32)
    x = rng.uniform(0.1, 50, 128).astype(dtype)
    n[:4], x[:4] = [0, 1, 2, 3], dtype(7.5)
    got = evaluate(getattr(libdevice, name), n, x, native=True)
    exact = getattr(special, name)(n, x.astype(np.float64))
    inside = np.abs(exact) < np.finfo(dtype).max
    error = np.abs(got - exact) / np.maximum(1, np.abs(exact))
    assert error[inside].max() <= 64 * np.finfo(dtype).eps
    single = evaluate(lambda t: getattr(libdevice, name)(2, t), x)
    np.testing.assert_allclose(
        single, getattr(special, name)(2, x.astype(np.float64)), rtol=1e-4, atol=1e-6
    )


def test_bessel_functions_at_the_ends() -> None:
    n = np.array([0, 1, 2, 3, 2, 5, 0, 1], np.int32)
    x = np.array([0, 0, 0, np.inf, np.nan, 1e-20, -2.5, -2.5], np.float64)
    wanted = special.jn(n, x)
    wanted[3] = 0
    np.testing.assert_allclose(evaluate(libdevice.jn, n, x), wanted, atol=1e-15)
    for name in ("j0", "j1", "y0", "y1"):
        given = np.array([0.0, np.inf, np.nan, 5.0], np.float64)
        got = evaluate(getattr(libdevice, name), given)
        wanted = getattr(special, name)(given)
        wanted[1] = 0  # as in C; SciPy has NaN
        np.testing.assert_allclose(got, wanted, atol=1e-15)


def _lgamma(x: Any) -> Any:
    """Python's, with C's value at the poles."""
    return np.array(
        [
            math.inf if v <= 0 and v == math.floor(v) else math.lgamma(v)
            for v in np.where(x == -math.inf, -1, x)
        ]
    )


EDGES = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, 0.5, -0.5, -2.0, 3.5, 1e-310, 40, -40, 1e4]
)


@pytest.mark.parametrize(
    "name", ["erfc", "erfcx", "erfinv", "erfcinv", "normcdf", "lgamma", "cbrt"]
)
def test_special_functions_of_special_numbers(name: str) -> None:
    functions = {"normcdf": special.ndtr, "cbrt": np.cbrt, "lgamma": _lgamma}
    wanted = functions.get(name) or getattr(special, name)
    with np.errstate(all="ignore"):
        expected = wanted(EDGES)
    got = evaluate(getattr(libdevice, name), EDGES)
    np.testing.assert_allclose(got, expected, rtol=1e-13, atol=0)
    if name == "erfinv":
        expected[1] = -0.0  # as in C; some versions of SciPy have 0
    zeros = (expected == 0) & (EDGES == 0)
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(expected[zeros]))


def test_gamma_of_special_numbers() -> None:
    x = np.array(
        [
            0.0,
            -0.0,
            np.inf,
            -np.inf,
            -1.0,
            -5.0,
            171.6,
            172.0,
            -170.5,
            -184.5,
            1e-300,
            1,
            2,
            5,
            -0.5,
            np.nan,
        ]
    )
    got = evaluate(libdevice.tgamma, x)
    wanted = [np.inf, -np.inf, np.inf, np.nan, np.nan, np.nan, special.gamma(171.6), np.inf]
    wanted += [special.gamma(-170.5), -0.0, 1e300, 1, 1, 24, -2 * np.sqrt(np.pi), np.nan]
    np.testing.assert_allclose(got, wanted, rtol=1e-13, atol=1e-320)


def test_sine_and_cosine_of_pi_times_a_number_are_exact_at_quarters() -> None:
    x = np.array(
        [0, -0.0, 0.5, 1, -1, 1.5, -0.5, 2.5, 1e15, 2.0**60, 0.25, 1e300, np.inf, np.nan, -3, 7],
        np.float64,
    )
    finite = np.isfinite(x)
    sine, cosine = evaluate(libdevice.sinpi, x), evaluate(libdevice.cospi, x)
    wanted = [0, 0, 1, 0, 0, -1, -1, 1, 0, 0, np.sqrt(0.5), 0, np.nan, np.nan, 0, 0]
    np.testing.assert_allclose(sine, wanted, rtol=2e-16)
    wanted = [1, 1, 0, -1, -1, 0, 0, 0, 1, 1, np.sqrt(0.5), 1, np.nan, np.nan, -1, -1]
    np.testing.assert_allclose(cosine, wanted, rtol=2e-16)
    zero = finite & (sine == 0)
    np.testing.assert_array_equal(np.signbit(sine[zero]), np.signbit(x[zero]))
    assert not np.signbit(cosine[cosine == 0]).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lengths_neither_overflow_nor_vanish(dtype: Any) -> None:
    info = np.finfo(dtype)
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((4, 64)).astype(dtype)
    vectors[:, 0], vectors[:, 1], vectors[:, 2] = info.max / 4, info.tiny, 0
    vectors[:, 3] = [np.inf, np.nan, 1, 2]
    vectors[:, 4] = [np.nan, 1, 1, 2]
    rows = [np.ascontiguousarray(v) for v in vectors]
    for count, name, inverse in (
        (2, "hypot", "rhypot"),
        (3, "norm3d", "rnorm3d"),
        (4, "norm4d", "rnorm4d"),
    ):
        wide = vectors[:count].astype(LONG)
        exact = np.sqrt((wide * wide).sum(axis=0))
        exact[3] = np.inf  # even beside NaN
        got = evaluate(getattr(libdevice, name), *rows[:count])
        np.testing.assert_allclose(got.astype(LONG), exact, rtol=2 * info.eps)
        with np.errstate(divide="ignore"):
            inverted = 1 / exact
        got = evaluate(getattr(libdevice, inverse), *rows[:count])
        fits = inverted < info.max
        np.testing.assert_allclose(got[fits].astype(LONG), inverted[fits], rtol=2 * info.eps)
        assert np.isnan(got[4])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_remainder_is_exact(dtype: Any) -> None:
    rng = np.random.default_rng(5)
    x = (rng.standard_normal(256) * 10.0 ** rng.integers(-20, 20, 256)).astype(dtype)
    y = (rng.standard_normal(256) * 10.0 ** rng.integers(-20, 20, 256)).astype(dtype)
    tiny = np.finfo(dtype).smallest_subnormal
    x[:10] = [5, 7, -5, 3 * tiny, 1, np.inf, np.nan, 1, 2.5, -0.0]
    y[:10] = [2, 2, 2, 2 * tiny, 0, 1, 1, np.inf, 1, 3]
    wanted = [
        math.nan
        if not math.isfinite(a) or b == 0 or math.isnan(b)
        else math.remainder(float(a), float(b))
        for a, b in zip(x, y, strict=True)
    ]
    got = evaluate(libdevice.remainder, x, y, native=True)
    np.testing.assert_array_equal(got, np.array(wanted, dtype))
    assert np.signbit(got[9])
