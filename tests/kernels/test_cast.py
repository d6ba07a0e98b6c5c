"""Conversion of arrays against NumPy and ml_dtypes: every pair of dtypes, layout and rounding."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.kernels.cast import cast
from emu.kernels.core.dtypes import BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2, FLOATS
from emu.kernels.errors import ArgumentError

F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
NARROW = [F16, BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2]
EVERY = list(FLOATS)
PAIRS = [(a, b) for a in EVERY for b in EVERY]


def reference(source: np.ndarray, dtype: np.dtype[Any], saturate: bool = False) -> np.ndarray:
    """What a conversion means.

    ml_dtypes rounds fp64 twice on its way to bf16 and fp8. Once is meant: fp64 is first rounded to
    the grid of the narrow dtype, exactly, by adding and taking away a power of two.
    """
    with np.errstate(all="ignore"):
        if source.dtype == F64 and dtype in NARROW and dtype != F16:
            source = _on_grid(source, dtype)
        if saturate:
            largest = float(ml_dtypes.finfo(dtype).max)
            source = np.clip(source.astype(F64), -largest, largest)
        return source.astype(dtype)


def _on_grid(values: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    info = ml_dtypes.finfo(dtype)
    _, exponent = np.frexp(values)
    place = np.maximum(exponent - 1, info.minexp) - info.nmant
    return np.ldexp(np.rint(np.ldexp(values, -place)), place)


def assert_same(actual: np.ndarray, expected: np.ndarray) -> None:
    """Compare bits; of NaNs only that both are."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    bits = f"u{actual.itemsize}"
    same = np.ascontiguousarray(actual).view(bits) == np.ascontiguousarray(expected).view(bits)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        assert (same | (np.isnan(actual) & np.isnan(expected))).all()


def every_pattern(dtype: np.dtype[Any]) -> np.ndarray:
    return np.arange(1 << (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}").view(dtype)


def some(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Random bit patterns: every exponent, subnormals, infinities and NaN among them."""
    bits = rng.integers(0, 1 << (8 * dtype.itemsize), shape, np.uint64, endpoint=False)
    return bits.astype(f"u{dtype.itemsize}").view(dtype)


@np.errstate(all="ignore")
def awkward(rng: np.random.Generator, dtype: np.dtype[Any], wide: np.dtype[Any]) -> np.ndarray:
    """The mid-points of all neighbours in ``dtype`` and their neighbours in ``wide``, and others."""
    grid = np.unique(every_pattern(dtype).astype(F64))
    grid = grid[np.isfinite(grid)]
    grid = np.concatenate([grid, [2 * grid[0] - grid[1], 2 * grid[-1] - grid[-2]]])
    grid.sort()
    middle = ((grid[1:] + grid[:-1]) / 2).astype(wide)
    near = [middle, grid.astype(wide)]
    for values in tuple(near):
        near += [np.nextafter(values, wide.type(np.inf)), np.nextafter(values, wide.type(-np.inf))]
    if wide == F64:  # one rounding to fp32 would land on a tie
        near += [middle * (1 + s * 2.0**-e) for e in (26, 30, 45) for s in (-1, 1)]
    scale = wide.type(2) ** rng.integers(-160, 140, 1 << 20).astype(wide)
    near.append(rng.standard_normal(1 << 20).astype(wide) * scale)
    near.append(rng.standard_normal(1 << 20).astype(wide))
    near.append(some(rng, (1 << 20,), wide))
    return np.concatenate(near)


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda dtype: str(dtype))
@pytest.mark.parametrize("saturate", [False, True], ids=["plain", "saturated"])
def test_every_narrow_pattern_to_every_dtype(
    source: np.dtype[Any], target: np.dtype[Any], saturate: bool
) -> None:
    if source in NARROW:
        values = every_pattern(source)
    else:
        values = some(np.random.default_rng(1), (1 << 16,), source)
    before = values.tobytes()
    assert_same(cast(values, target, saturate=saturate), reference(values, target, saturate))
    assert values.tobytes() == before


@pytest.mark.parametrize("target", NARROW, ids=str)
@pytest.mark.parametrize("wide", [F32, F64], ids=str)
def test_ties_their_neighbours_and_random_values(
    wide: np.dtype[Any], target: np.dtype[Any]
) -> None:
    values = awkward(np.random.default_rng(2), target, wide)
    assert_same(cast(values, target), reference(values, target))
    assert_same(cast(values, target, saturate=True), reference(values, target, saturate=True))


def test_fp64_to_fp32_rounds_and_saturates() -> None:
    largest = float(np.finfo(np.float32).max)
    values = np.array([largest, 2 * largest, -np.inf, np.nan, 1 + 2.0**-24, 1e-50, 1e308])
    with np.errstate(over="ignore"):
        assert_same(cast(values, F32), values.astype(F32))
    expected = [largest, largest, -largest, np.nan, 1, 0, largest]
    assert_same(cast(values, np.float32, saturate=True), np.array(expected, F32))
    assert cast(np.array([np.inf, -np.inf], F16), F64, saturate=True).tolist() == [
        np.finfo(np.float64).max,
        np.finfo(np.float64).min,
    ]


@pytest.mark.parametrize("target", [BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2], ids=str)
def test_fp64_is_rounded_once(target: np.dtype[Any]) -> None:
    """Just above a tie is not a tie, though fp32 cannot tell; decided here in exact fractions."""
    step = Fraction(1, 1 << ml_dtypes.finfo(target).nmant)
    above = float(1 + step / 2 + Fraction(1, 1 << 40))
    below = float(1 + 3 * step / 2 - Fraction(1, 1 << 40))
    got = cast(np.array([above, below, -above]), target).astype(F64)
    assert got.tolist() == [float(1 + step), float(1 + step), -float(1 + step)]


LAYOUTS = st.tuples(st.integers(1, 5), st.integers(1, 3), st.booleans(), st.integers(0, 2))


def view(axes: list[tuple[int, int, bool, int]], flip: int, dtype: np.dtype[Any]) -> np.ndarray:
    """A view of that shape: each axis with a step, a direction and a border, axes in some order."""
    shape = [extent * step + border for extent, step, _, border in axes]
    order = np.random.default_rng(flip).permutation(len(axes))
    base = np.zeros([shape[i] for i in order], dtype).transpose(np.argsort(order))
    cut = tuple(
        slice(None, n * s, s) if not back else slice(n * s - 1, None, -s) for n, s, back, _ in axes
    )
    return base[(*cut, ...)][(*(slice(0, n) for n, *_ in axes), ...)]


@settings(deadline=None, max_examples=200)
@given(
    axes=st.lists(LAYOUTS, max_size=5),
    pair=st.sampled_from(PAIRS),
    saturate=st.booleans(),
    seed=st.integers(0, 999),
    given_out=st.booleans(),
)
def test_any_strides(
    axes: list[tuple[int, int, bool, int]],
    pair: tuple[np.dtype[Any], np.dtype[Any]],
    saturate: bool,
    seed: int,
    given_out: bool,
) -> None:
    source = view(axes, seed, pair[0])
    source[...] = some(np.random.default_rng(seed), source.shape, pair[0])
    out = None
    if given_out:
        out = view([(n, 1 + s % 3, not b, g) for n, s, b, g in axes], seed + 1, pair[1])
    result = cast(source, pair[1], saturate=saturate, out=out)
    assert out is None or result is out
    assert_same(result, reference(source, pair[1], saturate))
    if out is not None and out.base is not None:  # nothing was written around it
        written = result.copy()
        result[...] = 0
        assert not out.base.view(f"u{out.itemsize}").any()
        assert written.shape == source.shape


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 63, 1023, 1024, 1025, 5000])
@pytest.mark.parametrize("pair", [(F32, F16), (BFLOAT16, F32), (F16, FLOAT8_E5M2), (F64, F16)])
def test_tails(n: int, pair: tuple[np.dtype[Any], np.dtype[Any]]) -> None:
    source = some(np.random.default_rng(n), (2 * n,), pair[0])
    for step in (1, 2):
        memory = np.zeros(n + 2, pair[1])
        cast(source[::step][:n], pair[1], out=memory[1:-1])
        assert_same(memory[1:-1], reference(source[::step][:n], pair[1]))
        assert memory.view(f"u{memory.itemsize}")[[0, -1]].tolist() == [0, 0]


def test_a_new_array_keeps_the_order_of_the_axes() -> None:
    source = np.ones((3, 4, 5), np.float32).transpose(2, 0, 1)
    assert cast(source, np.float16).strides == (2, 40, 10)
    assert cast(np.ones((), np.float32), np.float16).shape == ()


@pytest.mark.parametrize("shape", [(70, 33), (5, 2000), (31, 1)])
def test_a_transposition(shape: tuple[int, int]) -> None:
    source = some(np.random.default_rng(0), shape, F32)
    memory = np.zeros((shape[1], shape[0] + 1), np.float16)
    cast(source.T, F16, out=memory[:, :-1])
    assert_same(memory[:, :-1], reference(source.T, F16))
    assert not memory[:, -1].view(np.uint16).any()


def test_in_place_where_the_sizes_agree() -> None:
    source = some(np.random.default_rng(0), (3000,), F16)
    expected = reference(source.copy(), BFLOAT16)
    out = source.view(BFLOAT16)
    with pytest.raises(ArgumentError, match="out must not share memory with source"):
        cast(source[:-1], BFLOAT16, out=out[1:])
    assert_same(cast(source, BFLOAT16, out=out), expected)


def test_arrays_that_interleave_do_not_overlap() -> None:
    memory = np.arange(64, dtype=np.float16).reshape(8, 8)
    cast(memory[:, ::2], BFLOAT16, out=memory[:, 1::2].view(BFLOAT16))
    assert memory[:, 1::2].view(BFLOAT16).astype(F32).tolist() == memory[:, ::2].tolist()


def _readonly() -> np.ndarray:
    out = np.zeros((2, 3), np.float16)
    out.flags.writeable = False
    return out


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.zeros((3, 2), F16), r"out must have shape \(2, 3\), but got \(3, 2\)"),
        (np.zeros((2, 3), F32), r"out must have dtype float16, but got float32"),
        (np.zeros((2, 3), ">f2"), r"out must have dtype float16, but got >f2"),
        (_readonly(), r"out must be writable, but got a read-only array"),
        ([[0.0] * 3] * 2, r"out must be a NumPy array, but got list"),
        (
            np.lib.stride_tricks.as_strided(np.zeros(9, F16), (2, 3), (2, 2)),
            r"out must not overlap itself, but got shape \(2, 3\) with strides \(2, 2\)",
        ),
        (
            np.zeros(13, np.uint8)[1:].view(F16).reshape(2, 3),
            r"out must have aligned elements, but got strides \(6, 2\)",
        ),
    ],
)
def test_an_out_that_does_not_fit_is_refused(out: Any, message: str) -> None:
    before = bytes(np.asarray(out).tobytes())
    with pytest.raises(ArgumentError, match=message):
        cast(np.ones((2, 3), np.float32), np.float16, out=out)
    assert np.asarray(out).tobytes() == before


def test_other_dtypes_are_refused() -> None:
    names = "float16, bfloat16, float32, float64, float8_e4m3fn, float8_e5m2"
    with pytest.raises(ArgumentError, match=f"^dtype must be one of {names}, but got int32$"):
        cast(np.ones(3, np.float32), np.int32)
    with pytest.raises(ArgumentError, match=r"^source\.dtype must be one of .*, but got int8$"):
        cast(np.ones(3, np.int8), np.float16)
    with pytest.raises(ArgumentError, match=r"^source must be a NumPy array, but got float$"):
        cast(1.0, np.float16)  # type: ignore[arg-type]


def test_a_mapped_file_is_written_and_returned(tmp_path: Path) -> None:
    out = np.memmap(tmp_path / "halves", np.float16, "w+", shape=(100,))
    assert cast(np.arange(100, dtype=np.float32), np.float16, out=out) is out
    assert out.tolist() == list(range(100))


@pytest.mark.parametrize("narrow", [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)], ids=str)
@pytest.mark.parametrize("count", [(1 << 14) - 1, 1 << 14, (1 << 14) + 1, (1 << 14) + 63, 20001])
def test_long_runs_and_their_tails(narrow: np.dtype[Any], count: int) -> None:
    """Long runs go in groups; what is left over, and the memory beside them, is as it should be."""
    source = np.random.default_rng(count).standard_normal(count).astype(np.float32)
    halves, wide = np.full(count + 64, 7, narrow), np.full(count + 64, 7, np.float32)
    cast(source, narrow, out=halves[:count])
    np.testing.assert_array_equal(
        halves[:count].view(np.uint16), source.astype(narrow).view(np.uint16)
    )
    cast(halves[:count], np.float32, out=wide[:count])
    np.testing.assert_array_equal(wide[:count], halves[:count].astype(np.float32))
    assert (halves[count:] == 7).all()
    assert (wide[count:] == 7).all()
