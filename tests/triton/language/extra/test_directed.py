"""Directed roundings, against exact fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from language_harness import evaluate

from emu.triton.language.extra import libdevice

# The references leave the range on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

COUNT = 256
MODES = ("rz", "rd", "ru")
FLOATS = (np.float32, np.float64)


def _numbers(dtype: Any, seed: int) -> np.ndarray[Any, Any]:
    """Numbers of every kind: any bits, ends of the range, subnormal ones, ordinary ones."""
    rng = np.random.default_rng(seed)
    info = np.finfo(dtype)
    word = {np.float32: np.uint32, np.float64: np.uint64}[dtype]
    found = rng.integers(0, np.iinfo(word).max, COUNT, dtype=word, endpoint=True).view(dtype)
    ends = [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, info.max, -info.max, info.tiny]
    ends += [info.smallest_subnormal, 1 + info.eps, 1 - info.eps / 2, 3, 1 / 3]
    part = COUNT // 4
    found[:part] = rng.choice(np.array(ends, dtype), part)
    found[part : 2 * part] = rng.standard_normal(part).astype(dtype)
    found[-part // 2 :] = (rng.integers(-8, 8, part // 2) * info.smallest_subnormal).astype(dtype)
    rng.shuffle(found)
    return found


def _directed(dtype: Any, exact: Fraction, mode: str) -> Any:
    """The neighbour of an exact number that a mode asks for."""
    try:
        near = dtype(exact.numerator / exact.denominator)
    except OverflowError:
        near = dtype(math.inf if exact > 0 else -math.inf)
    info = np.finfo(dtype)
    below = min(max(near, -info.max), info.max)
    while np.isfinite(below) and Fraction(float(below)) > exact:
        below = np.nextafter(below, dtype(-np.inf))
    while True:
        above = np.nextafter(below, dtype(np.inf))
        if np.isinf(above) or Fraction(float(above)) > exact:
            break
        below = above
    if np.isfinite(below) and Fraction(float(below)) == exact:
        return below
    if mode == "rd" or (mode == "rz" and exact > 0):
        return below
    return np.nextafter(below, dtype(np.inf))


OPERATIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "add": (2, lambda x, y: x + y),
    "sub": (2, lambda x, y: x - y),
    "mul": (2, lambda x, y: x * y),
    "div": (2, lambda x, y: x / y),
    "fma": (3, lambda x, y, z: x * y + z),
    "rcp": (1, lambda x: 1 / x),
}


def _operands(dtype: Any, count: int) -> list[np.ndarray[Any, Any]]:
    x, y, z = (_numbers(dtype, seed) for seed in (1, 2, 3))
    quarter = COUNT // 4
    with np.errstate(all="ignore"):
        z[:quarter] = -(x * y)[:quarter]
    y[2 * quarter : 3 * quarter] = -x[2 * quarter : 3 * quarter]
    return [x, y, z][:count]


@pytest.mark.parametrize("name", list(OPERATIONS))
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", MODES)
def test_arithmetic_rounds_as_its_name_says(name: str, dtype: Any, mode: str) -> None:
    count, function = OPERATIONS[name]
    operands = _operands(dtype, count)
    got = evaluate(getattr(libdevice, f"{name}_{mode}"), *operands, native=True)
    nearest = evaluate(getattr(libdevice, f"{name}_rn"), *operands, native=True)
    finite = np.all([np.isfinite(o) for o in operands], axis=0)
    np.testing.assert_array_equal(got[~finite], nearest[~finite])
    checked = 0
    for i in np.flatnonzero(finite):
        try:
            exact = function(*(Fraction(float(o[i])) for o in operands))
        except ZeroDivisionError:
            assert got[i] == nearest[i] or np.isnan(nearest[i])
            continue
        wanted = _directed(dtype, exact, mode) if exact else dtype(0)
        assert got[i] == wanted, ([o[i] for o in operands], got[i], wanted)
        if wanted == 0 and exact:
            assert np.signbit(got[i]) == (exact < 0)
        checked += 1
    assert checked > COUNT // 2


@pytest.mark.parametrize("dtype", FLOATS)
def test_exact_zeros_are_negative_only_when_rounding_down(dtype: Any) -> None:
    x = np.array([1, 1, 0, -0.0, 0, -0.0, np.finfo(dtype).max, 2], dtype)
    y = np.array([-1, -1, 0, -0.0, -0.0, 0, -np.finfo(dtype).max, -2], dtype)
    for mode in MODES:
        got = evaluate(getattr(libdevice, f"add_{mode}"), x, y)
        fused = evaluate(getattr(libdevice, f"fma_{mode}"), x, np.ones_like(x), y)
        down = mode == "rd"
        wanted = [down, down, False, True, down, down, down, down]
        np.testing.assert_array_equal(np.signbit(got), wanted)
        np.testing.assert_array_equal(np.signbit(fused), wanted)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", MODES)
def test_square_roots_round_as_their_names_say(dtype: Any, mode: str) -> None:
    x = _numbers(dtype, 4)
    got = evaluate(getattr(libdevice, f"sqrt_{mode}"), x, native=True)
    for given, root in zip(x, got, strict=True):
        if not np.isfinite(given) or given <= 0:
            with np.errstate(invalid="ignore"):
                np.testing.assert_array_equal(root, np.sqrt(given))
            continue
        exact = Fraction(float(given))
        up, down = np.nextafter(root, dtype(np.inf)), np.nextafter(root, dtype(0))
        if mode == "ru":
            assert Fraction(float(down)) ** 2 < exact <= Fraction(float(root)) ** 2
        else:
            assert Fraction(float(root)) ** 2 <= exact < Fraction(float(up)) ** 2


@pytest.mark.parametrize("mode", MODES)
def test_conversions_to_floats_round_as_their_names_say(mode: str) -> None:
    rng = np.random.default_rng(6)
    x = _numbers(np.float64, 5)
    got = evaluate(getattr(libdevice, f"double2float_{mode}"), x)
    for given, single in zip(x, got, strict=True):
        if not np.isfinite(given) or given == 0:
            np.testing.assert_array_equal(single, np.float32(given))
        else:
            assert single == _directed(np.float32, Fraction(float(given)), mode)
    sources = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64}
    for name, kind in sources.items():
        info = np.iinfo(kind)
        numbers = rng.integers(info.min, info.max, COUNT, dtype=kind, endpoint=True)
        numbers[: COUNT // 2] >>= rng.integers(0, info.bits, COUNT // 2).astype(kind)
        for target, dtype in (("float", np.float32), ("double", np.float64)):
            if target == "double" and info.bits == 32:
                continue
            got = evaluate(getattr(libdevice, f"{name}2{target}_{mode}"), numbers, native=True)
            wanted = [_directed(dtype, Fraction(int(n)), mode) if n else 0 for n in numbers]
            np.testing.assert_array_equal(got, np.array(wanted, dtype))


@pytest.mark.parametrize("source", ["float", "double"])
def test_conversions_to_integers_saturate(source: str) -> None:
    dtype = np.float32 if source == "float" else np.float64
    x = np.array([1e30, -1e30, np.inf, -np.inf, np.nan, -1.5, 2.5, 0.5], dtype)
    for name, bits, signed in (
        ("int", 32, True),
        ("uint", 32, False),
        ("ll", 64, True),
        ("ull", 64, False),
    ):
        kind = np.dtype(f"{'i' if signed else 'u'}{bits // 8}")
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        nan = 0 if source == "float" and bits == 32 else (low if signed else 1 << 63 >> (64 - bits))
        for mode, ends in (
            ("rn", [-2, 2, 0]),
            ("rz", [-1, 2, 0]),
            ("rd", [-2, 2, 0]),
            ("ru", [-1, 3, 1]),
        ):
            got = evaluate(getattr(libdevice, f"{source}2{name}_{mode}"), x)
            # Unsigned results have signed dtypes in Triton; their bits count.
            assert got.dtype == np.dtype(f"i{bits // 8}")
            wanted = [high, low, high, low, nan, max(ends[0], low), *ends[1:]]
            np.testing.assert_array_equal(got.view(kind), np.array(wanted, kind))
