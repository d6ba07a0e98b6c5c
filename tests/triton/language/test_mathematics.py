"""Mathematical functions, against NumPy and Python's math."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from language_harness import ANY, MAKERS, emit, evaluate, value

import emu.triton.language as tl


@pytest.mark.parametrize("name", list(MAKERS))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_of_floats(name: str, dtype: Any) -> None:
    wanted, x = MAKERS[name]
    x = x.astype(dtype)
    for function in (getattr(tl, name), getattr(tl.math, name), getattr(tl.tensor, name)):
        got = evaluate(function, x)
        assert got.dtype == dtype
        np.testing.assert_allclose(got, wanted(x.astype(np.float64)), rtol=8 * np.finfo(dtype).eps)


@pytest.mark.parametrize("name", [*MAKERS, "sigmoid", "sqrt_rn"])
def test_half_floats_and_integers_are_refused(name: str) -> None:
    for dtype in ("fp16", "bf16", "int32"):
        with pytest.raises(
            ValueError, match=rf"Expected dtype fp32.* for {name}, but got {dtype}\[8\]"
        ):
            emit(getattr(tl, name), value(dtype, (8,)))


def test_numbers_are_tensors_of_fp32() -> None:
    assert evaluate(lambda: tl.exp(tl.constexpr(0.0))) == 1
    assert evaluate(lambda: tl.sqrt(4.0)).dtype == np.float32


def test_absolute_values() -> None:
    x = np.array([-3, 4, -128, 0], np.int8)
    np.testing.assert_array_equal(evaluate(tl.abs, x), [3, 4, -128, 0])
    half = np.array([-1.5, 2], np.float16)
    assert evaluate(tl.abs, half).dtype == np.float16
    np.testing.assert_array_equal(evaluate(tl.abs, half), np.abs(half))
    np.testing.assert_array_equal(evaluate(tl.abs, x.view(np.uint8)), x.view(np.uint8))


@pytest.mark.parametrize("dtype", [np.uint32, np.int32, np.uint64, np.int64])
def test_umulhi_is_of_unsigned_products(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    bits = 8 * np.dtype(dtype).itemsize
    unsigned = np.dtype(f"u{bits // 8}")
    a, b = rng.integers(0, 2**bits - 1, (2, 64), unsigned, endpoint=True)
    wanted = np.array([int(x) * int(y) >> bits for x, y in zip(a, b, strict=True)], unsigned)
    got = evaluate(tl.umulhi, a.view(dtype), b.view(dtype))
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.view(unsigned), wanted)
    with pytest.raises(ValueError, match="Expected dtype int32"):
        emit(tl.umulhi, value("int16"), value("int16"))


def test_sigmoid() -> None:
    x = ANY.astype(np.float32)
    np.testing.assert_allclose(evaluate(tl.sigmoid, x), 1 / (1 + np.exp(-ANY)), rtol=1e-6)


def test_cdiv_rounds_up() -> None:
    n = np.array([0, 1, 16, 17], np.int32)
    np.testing.assert_array_equal(evaluate(lambda x: tl.cdiv(x, 16), n), [0, 1, 1, 2])
    assert tl.cdiv(tl.constexpr(33), 16).value == 3
    assert tl.cdiv(33, 16) == 3
