"""Runs of fp32 divided by one number have the bits of the division, whatever lies in them."""

from __future__ import annotations

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton

RNG = np.random.default_rng(3)
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3e38, -1e-38], np.float32)


@triton.jit
def divide(x, out, s, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) / tl.load(s))


@triton.jit
def divide_rows(x, out, s, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.arange(0, ROWS)[:, None]
    at = rows * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + at, tl.load(x + at) / tl.load(s + rows))


def floats(count: int, low: int, high: int) -> np.ndarray:
    """Return floats of either sign with all mantissas and the exponents ``low`` to ``high`` as they are stored."""
    bits = RNG.integers(low, high, count, dtype=np.uint32, endpoint=True) << np.uint32(23)
    bits |= RNG.integers(0, 1 << 23, count, dtype=np.uint32)
    return (bits | RNG.integers(0, 2, count, dtype=np.uint32) << np.uint32(31)).view(np.float32)


def assert_same_bits(found: np.ndarray, wanted: np.ndarray) -> None:
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(found), ~numbers)
    np.testing.assert_array_equal(found.view(np.uint32)[numbers], wanted.view(np.uint32)[numbers])


@pytest.mark.parametrize("exponents", [(120, 134), (67, 186), (60, 195), (0, 255)])
@pytest.mark.parametrize("special", [False, True])
def test_quotients_are_those_of_a_division(exponents: tuple[int, int], special: bool) -> None:
    count = 1 << 12
    for _ in range(30):
        x, s = floats(count, *exponents), floats(1, *exponents)
        if special:
            x[RNG.integers(0, count, 40)] = RNG.choice(SPECIAL, 40)
        out = np.empty_like(x)
        divide[(count // 1024,)](x, out, s, BLOCK=1024)
        with np.errstate(all="ignore"):
            assert_same_bits(out, x / s[0])


@pytest.mark.parametrize("divisor", [*SPECIAL, -3.0, 1.0, 2.0**60, 2.0**61, 2.0**-61])
def test_every_divisor_is_divided_by(divisor: float) -> None:
    x, s = floats(1024, 100, 150), np.array([divisor], np.float32)
    x[:3] = 0.0, -0.0, 1.0
    out = np.empty_like(x)
    divide[(1,)](x, out, s, BLOCK=1024)
    with np.errstate(all="ignore"):
        assert_same_bits(out, x / s[0])


@pytest.mark.parametrize("columns", [16, 32, 64])
def test_each_row_has_its_divisor(columns: int) -> None:
    x, s = floats(32 * columns, 100, 150).reshape(32, columns), floats(32, 90, 160)
    out = np.empty_like(x)
    divide_rows[(1,)](x, out, s, ROWS=32, COLUMNS=columns)
    with np.errstate(all="ignore"):
        assert_same_bits(out, x / s[:, None])
