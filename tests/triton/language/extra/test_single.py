"""Special functions of fp32, against those of fp64: all ranges, ends, subnormal and huge numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from language_harness import evaluate

from emu.triton.language.extra import libdevice

RANGES: dict[str, list[tuple[float, float]]] = {
    "erfc": [(-4, 10.1), (-0.1, 0.1), (9.5, 30)],
    "normcdf": [(-14.5, 6), (-0.1, 0.1)],
    "erfinv": [(-1, 1), (-0.01, 0.01), (0.999, 1)],
    "erfcinv": [(0, 2), (1e-44, 1e-30), (1e-30, 1e-3)],
    "normcdfinv": [(0, 1), (1e-44, 1e-30), (1e-30, 1e-3)],
    "lgamma": [
        (0, 4),
        (0.99, 1.01),
        (1.99, 2.01),
        (2.9, 3.1),
        (1e-40, 1e-3),
        (3, 1e3),
        (1e3, 1e38),
    ],
    "tgamma": [(0, 4), (2.9, 3.1), (3, 35), (-5, 0), (-46, -5), (1e-38, 1e-3)],
    "j0": [(-5, 5)],
    "j1": [(-5, 5), (1e-44, 1e-30)],
    "y0": [(0, 0.8), (1, 3.5), (1e-44, 1e-30)],
    "y1": [(0, 2), (2.5, 5), (1e-37, 1e-30)],
    "cyl_bessel_i0": [(-9, 9), (8, 91), (90, 100)],
    "cyl_bessel_i1": [(-9, 9), (8, 91), (90, 100), (1e-44, 1e-30)],
    "cbrt": [(-10, 10), (1e-45, 1e-38), (1e-38, 3e38)],
    "rcbrt": [(-10, 10), (1e-45, 1e-38), (1e-38, 3e38)],
}
"""Where a function has no zero but exact ones: there the relative error is bounded."""

WAVES: dict[str, list[tuple[float, float]]] = {
    **{
        name: [(5, 100), (100, 1e5), (1e5, 1e12), (1e12, 1e38)] for name in ("j0", "j1", "y0", "y1")
    },
    "lgamma": [(-0.5, 0), (-20, 0), (-1000, -20), (-1e6, -1e3)],
}
"""Where there are zeros: the error is bounded beside the largest values around them."""

ENDS = np.array(
    [
        0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1,
        -1,
        2,
        -2,
        0.5,
        -0.5,
        0.25,
        0.75,
        -0.75,
        1.5,
        3,
        -3,
        3.5,
        5,
        8,
        1e-45,
        -1e-45,
        1e-40,
        -1e-40,
        1e-20,
        -1e-20,
        40,
        -40,
        10000.0,
        3e38,
        -3e38,
        60,
    ],
    np.float32,
)


def _both(name: str, x: Any) -> tuple[Any, Any]:
    """Return a function of fp32, and of fp64 for the same numbers."""
    function = getattr(libdevice, name)
    return evaluate(function, x, native=True), evaluate(function, x.astype(np.float64), native=True)


def _numbers(low: float, high: float) -> Any:
    """Draw numbers: evenly, or where they span many powers of ten, evenly in their logarithm."""
    rng = np.random.default_rng(11)
    spans = low > 0 and high > 100 * low
    x = (
        np.exp(rng.uniform(np.log(low), np.log(high), 2048))
        if spans
        else rng.uniform(low, high, 2048)
    )
    return x.astype(np.float32)


@pytest.mark.parametrize("name", list(RANGES))
def test_single_precision_is_rounded_once(name: str) -> None:
    for low, high in RANGES[name]:
        got, exact = _both(name, _numbers(low, high))
        assert got.dtype == np.float32
        with np.errstate(over="ignore"):
            rounded = exact.astype(np.float32)
            step = np.spacing(np.abs(rounded))
        finite = np.isfinite(rounded) & np.isfinite(step)
        np.testing.assert_array_equal(got[~np.isfinite(rounded)], rounded[~np.isfinite(rounded)])
        assert (np.abs(got[finite] - exact[finite]) / step[finite]).max() <= 0.502, (low, high)


@pytest.mark.parametrize("name", list(WAVES))
def test_functions_with_zeros_are_rounded_once_beside_their_size(name: str) -> None:
    for low, high in WAVES[name]:
        x = _numbers(low, high)
        got, exact = _both(name, x)
        finite = np.isfinite(exact)
        np.testing.assert_array_equal(got[~finite], exact[~finite].astype(np.float32))
        size = (
            np.maximum(1, np.abs(exact)) if name == "lgamma" else 1 / np.sqrt(x.astype(np.float64))
        )
        error = np.abs(got[finite] - exact[finite]) / size[finite]
        assert error.max() <= 0.51 * np.finfo(np.float32).eps, (low, high)


@pytest.mark.parametrize("name", list(RANGES))
def test_ends_are_those_of_double_precision(name: str) -> None:
    got, exact = _both(name, ENDS)
    with np.errstate(over="ignore"):
        rounded = exact.astype(np.float32)
    # Of the smallest numbers fp64 has the exact half of a step, which the true function is below.
    np.testing.assert_allclose(got, rounded, rtol=1.3e-7, atol=1.5e-45)
    real = ~np.isnan(rounded)
    np.testing.assert_array_equal(np.signbit(got[real]), np.signbit(rounded[real]))


@pytest.mark.parametrize("name", ["erfc", "lgamma", "j1", "cbrt"])
def test_the_reference_gives_the_same_bits(name: str) -> None:
    x = np.concatenate([_numbers(-6, 12)[:96], ENDS])
    function = getattr(libdevice, name)
    native, reference = (evaluate(function, x, native=n) for n in (True, False))
    np.testing.assert_array_equal(native, reference)
