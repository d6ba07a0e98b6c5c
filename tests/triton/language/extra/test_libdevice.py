"""CUDA's device functions, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from language_harness import ANY, MAKERS, POSITIVE, Scalar, emit, evaluate, value

import emu.triton.language as tl
from emu.triton.language.extra import libdevice
from emu.triton.language.extra.cuda import libdevice as cuda_libdevice
from emu.triton.language.extra.hip import libdevice as hip_libdevice
from emu.triton.language.extra.signatures import NAMES

UNIT = np.linspace(-0.95, 0.95, 64)
DEVICE: dict[str, tuple[Any, Any]] = {
    **MAKERS,
    "expm1": (np.expm1, ANY),
    "exp10": (lambda x: 10.0**x, ANY),
    "log10": (np.log10, POSITIVE),
    "log1p": (np.log1p, POSITIVE),
    "tan": (np.tan, UNIT),
    "asin": (np.arcsin, UNIT),
    "acos": (np.arccos, UNIT),
    "atan": (np.arctan, ANY),
    "sinh": (np.sinh, ANY),
    "cosh": (np.cosh, ANY),
    "tanh": (np.tanh, ANY),
    "asinh": (np.arcsinh, np.concatenate([ANY[:62], [1e30, -1e20]])),
    "acosh": (np.arccosh, np.concatenate([POSITIVE[:62] + 1, [1e30, 1.0]])),
    "atanh": (np.arctanh, UNIT),
    "trunc": (np.trunc, ANY),
    "rint": (np.rint, ANY),
    "nearbyint": (np.rint, ANY),
    "round": (lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), np.round(ANY * 4) / 4),
    "sqrt_rn": (np.sqrt, POSITIVE),
    "rcp_rn": (np.reciprocal, POSITIVE),
}


@pytest.mark.parametrize("name", list(DEVICE))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_libdevice_of_one_operand(name: str, dtype: Any) -> None:
    wanted, x = DEVICE[name]
    x = x.astype(dtype)
    got = evaluate(getattr(libdevice, name), x)
    assert got.dtype == dtype
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(got, wanted(x.astype(np.float64)), rtol=16 * eps, atol=4 * eps)


PAIRS: dict[str, Any] = {
    "atan2": np.arctan2,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "fdim": lambda x, y: np.where(x > y, x - y, 0),
    "copysign": np.copysign,
    "nextafter": np.nextafter,
    "add_rn": np.add,
    "sub_rn": np.subtract,
    "mul_rn": np.multiply,
    "div_rn": np.divide,
}


@pytest.mark.parametrize("name", list(PAIRS))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_libdevice_of_two_operands(name: str, dtype: Any) -> None:
    x, y = ANY.astype(dtype), ANY[::-1].astype(dtype) * dtype(1.5)
    x[:4], y[:4] = [0, 1, 2, -2], [1, 1, -1, -3]
    got = evaluate(getattr(libdevice, name), x, np.ascontiguousarray(y))
    exact = name in ("nextafter", "copysign", "fmod", "add_rn", "sub_rn", "mul_rn", "div_rn")
    np.testing.assert_allclose(got, PAIRS[name](x, y), rtol=0 if exact else 4 * np.finfo(dtype).eps)


def test_nextafter_and_hypot_of_special_numbers() -> None:
    inf, nan = np.inf, np.nan
    x = np.array([0, 0, -0.0, inf, 1, nan, 0, -inf], np.float32)
    y = np.array([1, -1, 1, 0, nan, 1, 0, nan], np.float32)
    np.testing.assert_array_equal(evaluate(libdevice.nextafter, x, y), np.nextafter(x, y))
    np.testing.assert_array_equal(evaluate(libdevice.hypot, x, y), np.hypot(x, y))
    big = np.array([3e38, 3e-39], np.float32)
    np.testing.assert_allclose(
        evaluate(libdevice.hypot, big, big * np.float32(0.5)), np.hypot(big, big / 2), rtol=1e-6
    )


def test_powers() -> None:
    x = POSITIVE.astype(np.float32)
    np.testing.assert_allclose(evaluate(lambda t: libdevice.pow(t, 2.5), x), x**2.5, rtol=1e-6)
    np.testing.assert_allclose(evaluate(lambda t: libdevice.pow(t, 3), -x), (-x) ** 3, rtol=1e-6)
    got = evaluate(libdevice.pow, x.astype(np.float64), Scalar(-2, "int32"))
    np.testing.assert_allclose(got, x.astype(np.float64) ** -2)
    np.testing.assert_allclose(
        evaluate(lambda t: cuda_libdevice.fast_powf(t, 0.5), x), np.sqrt(x), rtol=1e-6
    )


def test_tests_of_floats() -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 1, -1, 0, 5], np.float32)
    np.testing.assert_array_equal(evaluate(libdevice.isnan, x), np.isnan(x))
    np.testing.assert_array_equal(evaluate(libdevice.isinf, x), np.isinf(x))
    np.testing.assert_array_equal(evaluate(libdevice.finitef, x), np.isfinite(x))
    np.testing.assert_array_equal(evaluate(libdevice.isfinited, x.astype(float)), np.isfinite(x))
    with np.errstate(invalid="ignore"):
        x[0] = np.copysign(np.nan, 1)
    signs = evaluate(libdevice.signbit, x)
    assert signs.dtype == np.int32
    np.testing.assert_array_equal(signs, np.signbit(x))
    np.testing.assert_array_equal(evaluate(libdevice.saturatef, x), [0, 1, 0, 0, 1, 0, 0, 1])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_bit_counts(dtype: Any) -> None:
    bits = 8 * np.dtype(dtype).itemsize
    x = np.array([0, 1, -1, 2, 12, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 40], dtype)
    texts = [format(int(v) % 2**bits, f"0{bits}b") for v in x]
    np.testing.assert_array_equal(evaluate(libdevice.popc, x), [t.count("1") for t in texts])
    leading = [t.find("1") if "1" in t else bits for t in texts]
    np.testing.assert_array_equal(evaluate(libdevice.clz, x), leading)
    lowest = [t[::-1].find("1") + 1 for t in texts]
    np.testing.assert_array_equal(evaluate(libdevice.ffs, x), lowest)
    wide = [int(v) * int(v) >> bits for v in x]
    np.testing.assert_array_equal(evaluate(libdevice.mulhi, x, x), wide)


def test_conversions() -> None:
    x = np.array([1.5, -1.5, 2.5, -0.25], np.float32)
    for suffix, wanted in (
        ("rn", [2, -2, 2, 0]),
        ("rz", [1, -1, 2, 0]),
        ("rd", [1, -2, 2, -1]),
        ("ru", [2, -1, 3, 0]),
    ):
        got = evaluate(getattr(libdevice, f"float2int_{suffix}"), x)
        assert got.dtype == np.int32
        np.testing.assert_array_equal(got, wanted)
    bits = evaluate(libdevice.float_as_int, x)
    np.testing.assert_array_equal(bits, x.view(np.int32))
    np.testing.assert_array_equal(evaluate(libdevice.int_as_float, bits), x)
    np.testing.assert_array_equal(evaluate(libdevice.llrint, x), [2, -2, 2, 0])
    np.testing.assert_array_equal(evaluate(libdevice.llround, x), [2, -2, 3, 0])


def test_libdevice_takes_the_listed_dtypes_only() -> None:
    with pytest.raises(
        TypeError, match=r"libdevice.tanh takes \(fp32\) or \(fp64\), but got \(fp16"
    ):
        emit(libdevice.tanh, value("fp16", (8,)))
    with pytest.raises(TypeError, match=r"libdevice.pow takes .* but got \(fp16\[\], bf16\[\]\)"):
        emit(libdevice.pow, value("fp16"), value("bf16"))


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ("float32", "float16", "float32"),
        ("float64", "float32", "float64"),
        ("int64", "float32", "float32"),
    ],
)
def test_operands_of_several_dtypes_are_promoted(one: str, other: str, common: str) -> None:
    x, y = np.array([1, 2, 3, 4]).astype(one), np.array([2, 1, 3, 2]).astype(other)
    got = evaluate(libdevice.pow, x, y)
    assert got.dtype == common
    np.testing.assert_allclose(got, [1, 2, 27, 16], rtol=1e-6)


def test_every_name_has_its_modules() -> None:
    assert len(NAMES) == 198
    for module in (libdevice, cuda_libdevice, hip_libdevice, tl.extra.libdevice):
        assert all(callable(getattr(module, n)) for n in NAMES)
        with pytest.raises(AttributeError, match="no_such"):
            _ = module.no_such
    assert tl.math.lgamma is libdevice.lgamma
    with pytest.raises(AttributeError, match=r"tl\.math has no function 'no_such'"):
        _ = tl.math.no_such
    with pytest.raises(TypeError, match=r"libdevice.pow takes 2 operands, but got 1"):
        emit(libdevice.pow, value("fp32"))
