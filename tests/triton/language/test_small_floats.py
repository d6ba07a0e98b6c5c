"""Floats held as bytes, against their definition: every code, and every tie between two of them."""

from __future__ import annotations

import bisect
import functools
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from language_harness import emit, evaluate, value

import emu.triton.language as tl
from emu.triton.language.small_floats import E2M1, ENCODINGS, Encoding, code_of, decode

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

NAMES = list(ENCODINGS)
SOURCES = ["float16", "bfloat16", "float32", "float64"]
NUMPY: dict[str, np.dtype[Any]] = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
}
FNUZ = {"fp8e4b8": ml_dtypes.float8_e4m3fnuz, "fp8e5b16": ml_dtypes.float8_e5m2fnuz}
natively = pytest.mark.parametrize("native", [False, True], ids=["reference", "cpu"])


def language(name: str) -> Any:
    return getattr(tl, "float" + name[2:])


def number(code: int, encoding: Encoding) -> float:
    """Return the value of a code, by the definition of its format."""
    if code == encoding.nan:
        return math.nan
    sign = -1.0 if code >> (encoding.bits - 1) else 1.0
    exponent, mantissa = divmod(code & encoding.largest, 1 << encoding.mantissa)
    unit = 2.0 ** (1 - encoding.bias - encoding.mantissa)
    if exponent == 0:
        return sign * mantissa * unit
    return sign * ((1 << encoding.mantissa) + mantissa) * unit * 2.0 ** (exponent - 1)


def table(encoding: Encoding) -> np.ndarray[Any, Any]:
    return np.array([number(c, encoding) for c in range(1 << encoding.bits)])


@functools.cache
def magnitudes(encoding: Encoding) -> list[float]:
    return [number(c, encoding) for c in range(encoding.largest + 1)]


def code(x: float, encoding: Encoding, rounding: str) -> int:
    """Return the code of a number, found among all: the nearest, or the nearest toward zero."""
    if math.isnan(x):
        return encoding.largest if encoding.nan is None else encoding.nan
    values, size = magnitudes(encoding), abs(x)
    below = bisect.bisect_right(values, size) - 1
    found = below
    if rounding == "rtne" and below < encoding.largest:
        middle = (values[below] + values[below + 1]) / 2  # exact in fp64
        if size > middle or (size == middle and below % 2):
            found = below + 1
    if math.copysign(1, x) > 0 or (found == 0 and not encoding.negative_zero):
        return found
    return found | 1 << (encoding.bits - 1)


def samples(encoding: Encoding, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return all numbers of a format, the middles between them, what is beside these, and what is far off."""
    every = np.unique(np.abs(table(encoding)[~np.isnan(table(encoding))]))
    middles = (every[1:] + every[:-1]) / 2
    beyond = [
        every[-1] * 1.0625,
        every[-1] * 1.1,
        every[-1] * 2,
        1e30,
        1e300,
        1e-30,
        1e-310,
        math.inf,
    ]
    numbers = np.concatenate([every, middles, beyond]).astype(dtype)
    down = np.nextafter(numbers, np.array(0, dtype))
    up = np.nextafter(numbers, np.array(math.inf, dtype))
    all_ = np.concatenate([numbers, down, up, np.array([math.nan], dtype)])
    all_ = np.concatenate([all_, -all_])
    padded = np.zeros(1 << (len(all_) - 1).bit_length(), dtype)
    padded[: len(all_)] = all_
    return padded


@natively
@pytest.mark.parametrize("to", SOURCES)
@pytest.mark.parametrize("name", NAMES)
def test_every_code_has_its_value(name: str, to: str, native: bool) -> None:
    codes = np.arange(256).astype(np.uint8)

    def convert(x: Any) -> Any:
        return x.to(language(name), bitcast=True).to(getattr(tl, to))

    got = evaluate(convert, codes, native=native)
    assert got.dtype == NUMPY[to]
    wanted = table(ENCODINGS[name])
    np.testing.assert_array_equal(got.astype(np.float64), wanted)
    zero = wanted == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(wanted[zero]))


@pytest.mark.parametrize("name", FNUZ)
def test_values_are_those_of_ml_dtypes(name: str) -> None:
    codes = np.arange(256).astype(np.uint8)
    np.testing.assert_array_equal(
        table(ENCODINGS[name]), codes.view(np.dtype(FNUZ[name])).astype(np.float64)
    )


@natively
def test_every_code_of_four_bits_has_its_value(native: bool) -> None:
    codes = np.arange(256).astype(np.uint8)
    got = evaluate(lambda x: tl.tensor(decode(x.handle, E2M1), float32_of(x)), codes, native=native)
    values = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    wanted = np.array([*values, *(-v for v in values)] * 16)
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))


def float32_of(x: Any) -> Any:
    return x.type.with_element_ty(tl.float32)


@natively
@pytest.mark.parametrize("rounding", ["rtne", "rtz"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", NAMES)
def test_floats_are_rounded_once(name: str, source: str, rounding: str, native: bool) -> None:
    encoding, x = ENCODINGS[name], samples(ENCODINGS[name], NUMPY[source])

    def convert(t: Any) -> Any:
        return t.to(language(name), fp_downcast_rounding=rounding).to(tl.uint8, bitcast=True)

    got = evaluate(convert, x, native=native)
    wanted = [code(v, encoding, rounding) for v in x.astype(np.float64).tolist()]
    bad = np.flatnonzero(got != np.array(wanted))
    assert not len(bad), [(x[i], got[i], wanted[i]) for i in bad[:5]]


@pytest.mark.parametrize("name", NAMES)
def test_constants_are_rounded_as_tensors_are(name: str) -> None:
    encoding = ENCODINGS[name]
    for x in samples(encoding, np.dtype(np.float64)).tolist():
        assert code_of(x, encoding) == code(x, encoding, "rtne"), x


@natively
@pytest.mark.parametrize("name", NAMES)
def test_other_fp8_are_converted(name: str, native: bool) -> None:
    codes = np.arange(256).astype(np.uint8)
    for other in ("fp8e4nv", "fp8e5", *NAMES):

        def convert(x: Any, other: str = other) -> Any:
            y = x.to(language(name), bitcast=True)
            there = y.to(language(other))
            back = there.to(tl.float32)
            return back, y.to(tl.float32).to(language(other)).to(tl.float32)

        got, wanted = evaluate(convert, codes, native=native)
        np.testing.assert_array_equal(got, wanted)


@natively
@pytest.mark.parametrize("name", NAMES)
def test_arithmetic_is_that_of_fp32_rounded(name: str, native: bool) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 256, (2, 512)).astype(np.uint8)

    def compute(x: Any, y: Any) -> Any:
        x, y = (t.to(language(name), bitcast=True) for t in (x, y))
        results = [
            *(x + y, x - y, x * y, -x, tl.abs(x), tl.maximum(x, y), tl.fma(x, y, x)),
            *(tl.where(x < y, x, y), tl.full((512,), 0.75, x.dtype), tl.zeros((512,), x.dtype)),
        ]
        assert all(r.dtype == x.dtype for r in results)
        return *(r.to(tl.uint8, bitcast=True) for r in results), x == y, x < y

    *got, equal, less = evaluate(compute, a, b, native=native)
    encoding = ENCODINGS[name]
    values = table(encoding)
    x, y = values[a].astype(np.float32), values[b].astype(np.float32)
    numbers = [
        x + y,
        x - y,
        x * y,
        -x,
        np.abs(x),
        np.fmax(x, y),
        (values[a] * values[b] + values[a]),
    ]
    wanted = [[code(v, encoding, "rtne") for v in n.astype(np.float64).tolist()] for n in numbers]
    wanted.append(np.where(x < y, a, b).tolist())
    wanted += [[code(0.75, encoding, "rtne")] * 512, [0] * 512]
    for n, (found, right) in enumerate(zip(got, wanted, strict=True)):
        # Zeros of both signs are equal: which one a maximum gives is not defined.
        np.testing.assert_array_equal(values[found], values[np.array(right)], str(n))
    np.testing.assert_array_equal(equal, x == y)
    np.testing.assert_array_equal(less, x < y)


@pytest.mark.parametrize("name", NAMES)
def test_products_take_them(name: str) -> None:
    a = np.arange(256).astype(np.uint8).reshape(16, 16) & 0x7F

    def multiply(x: Any) -> Any:
        x = x.to(language(name), bitcast=True)
        return tl.dot(x, tl.trans(x))

    exact = table(ENCODINGS[name])[a]
    np.testing.assert_allclose(evaluate(multiply, a), exact @ exact.T, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_only_floats_are_converted(name: str) -> None:
    for source in ("int8", "int32", "int1"):
        with pytest.raises(TypeError, match="go by way of float32"):
            emit(lambda t: t.to(language(name)), value(source))
    with pytest.raises(ValueError, match="fp_downcast_rounding must be 'rtne' or 'rtz'"):
        emit(lambda t: t.to(language(name), fp_downcast_rounding="up"), value("fp32"))
