"""Products of scaled matrices, against their definition in NumPy: decode, scale, round, multiply."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from language_harness import emit, evaluate, value
from variants import thorough

import emu.triton.language as tl

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

RNG = np.random.default_rng(11)
BF16 = np.dtype(ml_dtypes.bfloat16)
VALUES: dict[str, np.dtype[Any]] = {
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "bf16": BF16,
    "fp16": np.dtype(np.float16),
}
FORMATS = ["e2m1", *VALUES]
PAIRS = list(itertools.product(FORMATS, FORMATS))
E2M1 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], np.float32)
natively = pytest.mark.parametrize("native", [False, True], ids=["reference", "cpu"])


def packed(codes: Any, axis: int) -> Any:
    """Pack each two neighbours along an axis into a byte, the first in its lower bits."""
    first, second = np.moveaxis(np.moveaxis(codes, axis, -1).reshape(*_halved(codes, axis)), -1, 0)
    return np.ascontiguousarray(np.moveaxis(first | second << 4, -1, axis))


def _halved(codes: Any, axis: int) -> tuple[int, ...]:
    shape = list(np.moveaxis(codes, axis, -1).shape)
    return (*shape[:-1], shape[-1] // 2, 2)


def drawn(format_: str, *shape: int) -> Any:
    """Return codes of a format, without NaN and infinity."""
    if format_ == "e2m1":
        return RNG.integers(0, 16, shape).astype(np.uint8)
    return RNG.standard_normal(shape).astype(np.float32).astype(VALUES[format_])


def numbers(codes: Any, format_: str) -> Any:
    if format_ != "e2m1":
        return codes.astype(np.float32)
    return np.where(codes & 8, -E2M1[codes & 7], E2M1[codes & 7])


def scaled(codes: Any, format_: str, scale: Any, to: np.dtype[Any], fast: bool = False) -> Any:
    """Return a matrix, k last, times its scales: elements, scales and products are rounded to ``to``."""
    values = numbers(codes, format_).astype(to)
    if scale is None:
        return values.astype(np.float64)
    powers = (scale.astype(np.uint32) << 23).view(np.float32).astype(to)
    factor = np.repeat(powers, codes.shape[-1] // scale.shape[-1], axis=-1)
    product = (values.astype(np.float32) * factor.astype(np.float32)).astype(to)
    if not fast:
        nan = np.repeat(scale == 0xFF, codes.shape[-1] // scale.shape[-1], axis=-1)
        product = np.where(nan, to.type(np.nan), product)
    return product.astype(np.float64)


def of_both(*formats: str) -> np.dtype[Any]:
    return np.dtype(np.float16) if "fp16" in formats else BF16


def compare(got: Any, a: Any, b: Any, start: Any = 0.0) -> None:
    """Compare with the exact product of decoded matrices, k last in both."""
    right = np.swapaxes(b, -1, -2)
    exact = a @ right + start
    size = np.abs(a) @ np.abs(right) + np.abs(start)
    finite = np.isfinite(exact) & (size < 1e38)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    assert np.all(np.abs(got - exact)[finite] <= 1e-5 * size[finite] + 1e-44)


@natively
@pytest.mark.parametrize(
    ("x", "y"),
    thorough(PAIRS, ("e2m1", "e4m3"), ("fp16", "e2m1"), ("e5m2", "bf16"), ("e4m3", "e4m3")),
)
def test_every_pair_of_formats(x: str, y: str, native: bool) -> None:
    m, n, k = 16, 8, 64
    a, b = drawn(x, m, k), drawn(y, n, k)
    low, high = (120, 134) if "fp16" in (x, y) else (100, 150)
    scale_a, scale_b = (RNG.integers(low, high, (e, k // 32)).astype(np.uint8) for e in (m, n))
    left = packed(a, 1) if x == "e2m1" else a
    right = np.ascontiguousarray((packed(b, 1) if y == "e2m1" else b).T)
    for one, other in itertools.product((scale_a, None), (scale_b, None)):
        given = [left, right, *(s for s in (one, other) if s is not None)]

        def multiply(p: Any, q: Any, *scales: Any, one: Any = one, other: Any = other) -> Any:
            rest = list(scales)
            first = rest.pop(0) if one is not None else None
            second = rest.pop(0) if other is not None else None
            return tl.dot_scaled(p, first, x, q, second, y)

        got = evaluate(multiply, *given, native=native)
        assert got.dtype == np.float32
        assert got.shape == (m, n)
        to = of_both(x, y)
        compare(got, scaled(a, x, one, to), scaled(b, y, other, to))


@natively
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("other", ["bf16", "fp16"])
def test_every_scale(other: str, fast: bool, native: bool) -> None:
    a, scales = drawn("e2m1", 256, 32), np.arange(256).astype(np.uint8).reshape(256, 1)
    b = np.eye(32, dtype=np.float32).astype(VALUES[other])

    def multiply(p: Any, s: Any, q: Any) -> Any:
        return tl.dot_scaled(p, s, "e2m1", q, None, other, fast_math=fast)

    got = evaluate(multiply, packed(a, 1), scales, b, native=native)
    wanted = scaled(a, "e2m1", scales, of_both(other), fast)
    # The zeros beside the diagonal: 0 times infinity is NaN.
    wanted = np.where(np.isfinite(wanted).all(1, keepdims=True), wanted, np.nan)
    np.testing.assert_array_equal(got, wanted)


@natively
@pytest.mark.parametrize("format_", ["e4m3", "e5m2"])
def test_every_code_of_eight_bits(format_: str, native: bool) -> None:
    codes = np.arange(256).astype(np.uint8).reshape(256, 1)
    one = np.ones((1, 1), np.float32).astype(BF16)
    got = evaluate(
        lambda p, q: tl.dot_scaled(p, None, format_, q, None, "bf16"), codes, one, native=native
    )
    np.testing.assert_array_equal(got, codes.view(VALUES[format_]).astype(np.float32))


@natively
def test_codes_may_be_packed_along_m_and_n(native: bool) -> None:
    m, n, k = 32, 16, 64
    a, b = drawn("e2m1", m, k), drawn("e2m1", n, k)
    scale_a, scale_b = (RNG.integers(120, 134, (e, k // 32)).astype(np.uint8) for e in (m, n))
    for k_a, k_b in itertools.product((True, False), repeat=2):

        def multiply(p: Any, s: Any, q: Any, t: Any, k_a: bool = k_a, k_b: bool = k_b) -> Any:
            return tl.dot_scaled(p, s, "e2m1", q, t, "e2m1", lhs_k_pack=k_a, rhs_k_pack=k_b)

        left = packed(a, 1 if k_a else 0)
        right = packed(np.ascontiguousarray(b.T), 0 if k_b else 1)
        got = evaluate(multiply, left, scale_a, right, scale_b, native=native)
        compare(got, scaled(a, "e2m1", scale_a, BF16), scaled(b, "e2m1", scale_b, BF16))


@natively
def test_batches_groups_of_16_one_scale_and_an_accumulator(native: bool) -> None:
    a, b = drawn("e4m3", 2, 16, 64), drawn("e5m2", 2, 8, 64)
    scale_a = RNG.integers(120, 134, (2, 16, 4)).astype(np.uint8)
    single = np.full((1, 1), 129, np.uint8)
    start = RNG.standard_normal((2, 16, 8)).astype(np.float32)

    def multiply(p: Any, s: Any, q: Any, t: Any, c: Any) -> Any:
        return tl.dot_scaled(p, s, "e4m3", q, t, "e5m2", acc=c)

    right = np.ascontiguousarray(np.swapaxes(b, 1, 2))
    got = evaluate(multiply, a, scale_a, right, single, start, native=native)
    every = np.full((2, 8, 1), 129, np.uint8)
    compare(got, scaled(a, "e4m3", scale_a, BF16), scaled(b, "e5m2", every, BF16), start)


def test_scales_with_a_mantissa() -> None:
    a, b = drawn("e2m1", 16, 32), drawn("e2m1", 8, 32)
    scales = [RNG.uniform(0.1, 8, (e, 2)).astype(VALUES["e4m3"]) for e in (16, 8)]

    def multiply(p: Any, s: Any, q: Any, t: Any) -> Any:
        return tl.dot_scaled(p, s, "e2m1", q, t, "e2m1")

    right = np.ascontiguousarray(packed(b, 1).T)
    got = evaluate(multiply, packed(a, 1), scales[0], right, scales[1], native=True)
    x, y = (
        numbers(c, "e2m1").astype(np.float64) * np.repeat(s.astype(np.float64), 16, axis=-1)
        for c, s in zip((a, b), scales, strict=True)
    )
    compare(got, x, y)


def test_wrong_arguments_are_named() -> None:
    a, b = value("uint8", (16, 32)), value("bf16", (64, 8))
    half, scale = value("fp16", (64, 8)), value("uint8", (16, 2))

    def multiply(p: Any = a, s: Any = scale, f: Any = "e2m1", q: Any = b, **keywords: Any) -> Any:
        kind = keywords.pop("g", "bf16")
        return tl.dot_scaled(p, s, f, q, keywords.pop("t", None), kind, **keywords)

    cases: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (TypeError, "lhs of dot_scaled must be a tensor of 2 or 3 axes, but got 3", {"p": 3}),
        (TypeError, "must be a tensor of 2 or 3 axes", {"p": value("uint8", (4,))}),
        (ValueError, "lhs_format must be one of .* but got 'e3m2'", {"f": "e3m2"}),
        (ValueError, "rhs_format must be one of .* but got 8", {"g": 8}),
        (
            TypeError,
            r"rhs of dot_scaled must have dtype bf16 or uint16 .* fp16\[64, 8\]",
            {"q": half},
        ),
        (TypeError, "lhs of dot_scaled must have dtype uint8", {"p": value("int8", (16, 32))}),
        (ValueError, "rhs_k_pack must be True for the format bf16", {"rhs_k_pack": False}),
        (TypeError, "lhs_scale must be a tensor or None, but got 3", {"s": 3}),
        (TypeError, "lhs_scale must be uint8", {"s": value("fp32", (16, 2))}),
        (
            ValueError,
            r"lhs_scale must have shape \(16, 64 / group\)",
            {"s": value("uint8", (2, 16))},
        ),
        (ValueError, "lhs_scale must have shape", {"s": value("uint8", (16, 8))}),
        (
            ValueError,
            r"must have the same scale factor; \(lhs: 32 vs rhs: 16\)",
            {"t": value("uint8", (8, 4))},
        ),
        (ValueError, "rhs_scale must have shape", {"t": value("uint8", (8, 8))}),
        (
            ValueError,
            "as many elements along k, but got 64 .* and 32",
            {"q": value("bf16", (32, 8))},
        ),
        (ValueError, "the same batches", {"q": value("bf16", (2, 64, 8))}),
        (ValueError, r"acc of dot_scaled must be fp32\[16, 8\]", {"acc": value("fp32", (8, 8))}),
        (ValueError, "acc of dot_scaled must be", {"acc": 3}),
        (ValueError, "out_dtype of dot_scaled must be float32", {"out_dtype": tl.float16}),
    ]
    for error, said, keywords in cases:
        with pytest.raises(error, match=said):
            emit(lambda k=keywords: multiply(**k))
