"""The simulator's primitives mean what the device's instructions mean, to the last bit."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from emu.kernels.cuda import simulated

few = settings(deadline=None, max_examples=500)


def nearest(exact: Fraction, dtype: type) -> float:
    """Round a fraction to the nearest number, ties to even, by looking at the neighbours."""
    largest = Fraction(float(np.finfo(dtype).max))
    if abs(exact) > largest:
        half = largest + (largest - Fraction(float(np.nextafter(dtype(largest), dtype(0))))) / 2
        bound = math.inf if abs(exact) >= half else float(largest)
        return bound if exact > 0 else -bound
    middle = dtype(float(exact))
    around = {float(middle)}
    around |= {float(np.nextafter(middle, dtype(end))) for end in (-math.inf, math.inf)}
    finite = [x for x in around if math.isfinite(x)]
    unsigned = np.uint32 if dtype is np.float32 else np.uint64
    return min(finite, key=lambda x: (abs(Fraction(x) - exact), int(dtype(x).view(unsigned)) & 1))


f32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
f64 = st.floats(allow_nan=False, allow_infinity=False)


@few
@given(f32, f32, f32)
@example(1 + 2.0**-12, 1 + 2.0**-12, 2.0**-60)  # just over half way, lost in a product in fp64
@example(1 + 2.0**-12, 1 + 2.0**-12, -(2.0**-60))
@example(1e-30, 1e-10, 1e-45)
@example(3e38, 2.0, -3e38)
@example(3e38, 2.0, 0.0)
def test_a_multiply_add_in_fp32_rounds_once(a, b, c):
    found = float(simulated.fma32(a, b, c))
    with np.errstate(over="ignore"):
        expected = nearest(Fraction(a) * Fraction(b) + Fraction(c), np.float32)
    assert found == expected


@few
@given(f64, f64, f64)
@example(1 + 2.0**-52, 1 + 2.0**-52, -1.0)
@example(1e308, 10.0, -1e308)
def test_a_multiply_add_in_fp64_rounds_once(a, b, c):
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        expected = float(exact)
    except OverflowError:
        expected = math.inf if exact > 0 else -math.inf
    assert float(simulated.fma64(a, b, c)) == expected


@pytest.mark.parametrize("fma", [simulated.fma32, simulated.fma64])
def test_a_multiply_add_of_what_is_not_finite(fma):
    assert math.isnan(fma(math.nan, 1, 1))
    assert math.isnan(fma(math.inf, 0, 1))
    assert math.isnan(fma(math.inf, 1, -math.inf))
    assert fma(math.inf, -1, 5) == -math.inf
    assert fma(2, 3, math.inf) == math.inf
    large = 1e30 if fma is simulated.fma32 else 1e300
    assert fma(large, large, -math.inf) == -math.inf
    assert math.isnan(fma(large, large, math.nan))
    assert math.copysign(1, fma(-0.0, 1, -0.0)) == -1
    assert math.copysign(1, fma(1, 1, -1)) == 1


def test_an_access_must_be_aligned_and_inside_of_an_argument():
    memory = np.zeros(4, np.uint64)
    first = memory.ctypes.data
    with simulated.allowed([(first, first + 20)]):
        simulated.store_32(first + 16, 7)
        simulated.store_16(first + 2, 0xABCD)
        assert simulated.load_32(first) == 0xABCD0000
        with pytest.raises(ValueError, match="must be aligned"):
            simulated.load_32(first + 2)
        with pytest.raises(IndexError, match="must lie in an argument's memory"):
            simulated.store_64(first + 16, 1)
        with pytest.raises(IndexError, match="must lie in an argument's memory"):
            simulated.load_8(first - 1)
    with pytest.raises(IndexError, match="must lie in an argument's memory"):
        simulated.load_8(first)
    assert memory.tolist() == [0xABCD0000, 0, 7, 0]
