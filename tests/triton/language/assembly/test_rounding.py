"""Conversions that random bits round, against exact arithmetic in Python."""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from language_harness import evaluate

import emu.triton.language as tl

RNG = np.random.default_rng(23)
X = np.concatenate(
    [
        RNG.standard_normal(96) * 10.0 ** RNG.integers(-9, 6, 96),
        RNG.uniform(-7, 7, 144),
        [0.0, -0.0, 0.5, 6.0, 448.0, 65504.0, 65519.0, -65535.0, 65536.0, 1e9, -3.4e38, 2.0**-24],
        [np.inf, -np.inf, 2.0**-149, 2.0**-130],
    ]
).astype(np.float32)
RANDOM = RNG.integers(0, 2**32, X.size, dtype=np.uint32)
KINDS: dict[str, tuple[Any, int, float]] = {
    "f16x2": (np.float16, 13, 65504.0),
    "bf16x2": (ml_dtypes.bfloat16, 16, float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)),
    "e4m3x4": (ml_dtypes.float8_e4m3fn, 8, 448.0),
    "e5m2x4": (ml_dtypes.float8_e5m2, 8, 57344.0),
    "e2m1x4": (ml_dtypes.float4_e2m1fn, 8, 6.0),
}


def _convert(kind: str, values: list[Any], random: Any, satfinite: bool) -> list[Any]:
    """Return the bits of each value's result."""
    name = f"cvt.rs{'.satfinite' if satfinite else ''}.{kind}.f32"
    width = {"e2m1x4": 4, "e4m3x4": 8, "e5m2x4": 8}.get(kind, 16)
    if kind.endswith("x4"):
        text = f"{{ .reg .b{4 * width} r; {name} r, {{$1, $2, $3, $4}}, $5; cvt.u32.u{4 * width} $0, r; }}"
    else:
        text = f"{name} $0, $1, $2, $3;"
    constraints = "=r," + ",".join("r" for _ in (*values, random))
    word = evaluate(
        lambda *a: tl.inline_asm_elementwise(text, constraints, list(a), tl.uint32, True, 1),
        *values,
        random,
        native=True,
    )
    return [word >> (width * place) & ((1 << width) - 1) for place in range(len(values))][::-1]


@functools.cache
def _grid(kind: str) -> Any:
    """Return every finite number of a dtype that is not negative, in order."""
    to = KINDS[kind][0]
    bits = np.uint16 if np.dtype(to).itemsize == 2 else np.uint8
    count = 8 if kind == "e2m1x4" else 1 << (np.iinfo(bits).bits - 1)
    codes = np.arange(count, dtype=bits).view(to)
    with np.errstate(invalid="ignore"):  # some codes are signalling NaN
        values = codes.astype(np.float64)
    return values[np.isfinite(values)]


def _rounded(x: float, random: int, kind: str) -> float:
    """Return one number's result by exact arithmetic; the largest number for what is larger."""
    _, count, largest = KINDS[kind]
    size, grid = min(abs(x), largest), _grid(kind)
    place = int(np.searchsorted(grid, size, side="right")) - 1
    below = grid[place]
    if below == size:
        return float(np.copysign(below, x))
    step = Fraction(grid[place + 1]) - Fraction(below)
    cut = (Fraction(size) - Fraction(below)) / step * 2**count // 1
    return float(np.copysign(grid[place + 1] if cut + random >= 2**count else below, x))


@pytest.mark.parametrize("kind", list(KINDS))
def test_random_bits_choose_between_the_neighbours(kind: str) -> None:
    to, count, _ = KINDS[kind]
    values = [X, X[::-1].copy()] if kind.endswith("x2") else [np.roll(X, n) for n in range(4)]
    got = _convert(kind, values, RANDOM, True)
    apart = 16 if kind.endswith("x2") else 8
    for place, (value, codes) in enumerate(zip(values, got, strict=True)):
        random = RANDOM >> (apart * (len(values) - 1 - place)) & ((1 << count) - 1)
        wanted = [_rounded(float(v), int(r), kind) for v, r in zip(value, random, strict=True)]
        bits = codes.astype(np.uint16 if apart == 16 else np.uint8).view(to)
        np.testing.assert_array_equal(bits.astype(np.float64), wanted)


def test_results_are_right_on_average() -> None:
    x = np.full(4096, 1 + 2.0**-11 + 2.0**-12, np.float32)
    random = RNG.integers(0, 2**32, x.size, dtype=np.uint32)
    for codes in _convert("f16x2", [x, x], random, False):
        halves = codes.astype(np.uint16).view(np.float16).astype(np.float64)
        assert set(halves) == {1.0, 1 + 2.0**-10}
        assert abs(halves.mean() - x[0]) < 2.0**-10 * 0.05


def test_what_is_too_large_becomes_infinite_and_nan_stays() -> None:
    x = np.array([65536.0, -1e30, np.inf, np.nan], np.float32)
    got, _ = _convert("f16x2", [x, x], np.zeros(4, np.uint32), False)
    halves = got.astype(np.uint16).view(np.float16)
    np.testing.assert_array_equal(halves, [np.inf, -np.inf, np.inf, np.nan])
    ones = np.full(4, 0xFFFFFFFF, np.uint32)
    just = np.array([65504.0, 65504.01, 65535.0, -65519.0], np.float32)
    got, _ = _convert("f16x2", [just, just], ones, False)
    halves = got.astype(np.uint16).view(np.float16)
    np.testing.assert_array_equal(halves, [65504, np.inf, np.inf, -np.inf])
    assert (_convert("e2m1x4", [x] * 4, ones, True)[0] == [7, 15, 7, 7]).all()


@pytest.mark.parametrize(
    "text",
    ["cvt.rs.f16x2.f32 $0, $1, $1;", "cvt.rs.satfinite.e2m3x4.f32 $0, {$1, $1, $1, $1}, $1;"],
)
def test_what_is_missing_is_named(text: str) -> None:
    with pytest.raises(NotImplementedError, match=r"conversion of \.f32 to"):
        evaluate(
            lambda x: tl.inline_asm_elementwise(text, "=r,r", [x], tl.uint32, True, 1),
            X[:8],
            native=False,
        )
