"""Products with rounded operands, against NumPy's arithmetic on the parts of each operand."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from language_harness import evaluate

import emu.triton.language as tl
from emu.triton.language.context import current
from emu.triton.language.operand_rounding import PRECISIONS

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

RNG = np.random.default_rng(5)


def dot(x: Any, y: Any, **keywords: Any) -> Any:
    current().input_precision = "tf32"
    return tl.dot(x, y, **keywords)


def tf32(x: Any) -> Any:
    """Round to 11 significant bits, ties away from zero, in exact arithmetic."""
    mantissa, exponent = np.frexp(x.astype(np.float64))
    scaled = mantissa * 2.0**11
    away = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
    return np.where(np.isfinite(x), np.ldexp(away, exponent - 11), x).astype(np.float32)


def bf16(x: Any) -> Any:
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


def parts(x: Any, rounded: Any, count: int) -> list[Any]:
    found = []
    for _ in range(count):
        found.append(rounded(x))
        x = np.where(np.isfinite(found[-1]), x - found[-1], np.float32(0))
    return found


def outer(a: Any, b: Any, precision: str) -> Any:
    """Return the product of a column and a row, as each precision defines it."""
    if precision == "ieee":
        return a * b
    rounded = tf32 if precision.startswith("tf32") else bf16
    if precision == "tf32":
        return rounded(a) * rounded(b)
    count = 3 if precision == "bf16x6" else 2
    x, y = parts(a, rounded, count), parts(b, rounded, count)
    orders = {2: [(1, 0), (0, 1)], 3: [(2, 0), (1, 1), (0, 2), (1, 0), (0, 1)]}
    total = np.zeros(np.broadcast_shapes(a.shape, b.shape))
    for i, j in orders[count]:  # each is one fused multiply-add: exact in fp64, and rounded
        total = (x[i].astype(np.float64) * y[j] + total).astype(np.float32)
    total = np.where(np.isnan(total), np.float32(0), total).astype(np.float64)
    return (x[0].astype(np.float64) * y[0] + total).astype(np.float32)


@pytest.mark.parametrize("native", [False, True], ids=["reference", "cpu"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_single_product_of_each_precision(precision: str, native: bool) -> None:
    a = RNG.standard_normal((64, 1)).astype(np.float32)
    b = RNG.standard_normal((1, 64)).astype(np.float32)
    a[:4, 0] = [np.inf, -np.inf, np.nan, 0]
    b[0, :4] = [1, np.inf, 0, 1 + 2.0**-11]  # the last is a tie of tf32
    a[4, 0] = 1
    got = evaluate(lambda x, y: dot(x, y, input_precision=precision), a, b, native=native)
    np.testing.assert_array_equal(got, outer(a, b, precision))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_errors_are_those_of_each_precision(precision: str) -> None:
    bounds = {"ieee": 2e-6, "tf32": 2e-3, "tf32x3": 4e-6, "bf16x3": 3e-4, "bf16x6": 4e-6}
    a, b = RNG.standard_normal((2, 64, 64)).astype(np.float32)
    c = RNG.standard_normal((64, 64)).astype(np.float32)
    got = evaluate(
        lambda x, y, z: dot(x, y, acc=z, input_precision=precision), a, b, c, native=True
    )
    exact = a.astype(np.float64) @ b + c
    error = np.abs(got - exact) / (np.abs(a).astype(np.float64) @ np.abs(b))
    assert error.max() < bounds[precision]
    if precision == "tf32":
        assert error.max() > 1e-5  # operands are rounded indeed


def test_the_default_is_that_of_the_launch() -> None:
    a = np.full((16, 16), 1 + 2.0**-12, np.float32)
    plain = evaluate(lambda x: tl.dot(x, x, input_precision="tf32"), a)
    np.testing.assert_array_equal(plain, 16 + 2.0**-7)
    np.testing.assert_array_equal(evaluate(lambda x: dot(x, x), a), 16)
    np.testing.assert_array_equal(evaluate(lambda x: dot(x, x, input_precision="ieee"), a), plain)
    np.testing.assert_array_equal(evaluate(lambda x: dot(x, x, allow_tf32=True), a), 16)
    np.testing.assert_array_equal(evaluate(lambda x: dot(x, x, allow_tf32=False), a), plain)


def test_batches_and_other_dtypes() -> None:
    a = RNG.standard_normal((2, 4, 8)).astype(np.float32)
    b = RNG.standard_normal((2, 8, 4)).astype(np.float32)
    got = evaluate(dot, a, b)
    np.testing.assert_allclose(got, tf32(a).astype(np.float64) @ tf32(b), rtol=1e-5, atol=1e-6)
    wide = a.astype(np.float64)
    np.testing.assert_array_equal(evaluate(dot, wide, b.astype(np.float64)), wide @ b)
