"""Quantisation of values with a scale each: the same bits as by dividing, whatever the scales, the values and the rows."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from emu.kernels.quant import quantize

DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16]
SPECIAL = [np.nan, -np.nan, np.inf, -np.inf, 3e38, -3e38, 60000.0, -60000.0, 1e-44, -0.0]
RNG = np.random.default_rng(9)


def reference(x: np.ndarray, scales: np.ndarray, zeros: np.ndarray, multiply: bool) -> np.ndarray:
    with np.errstate(all="ignore"):
        wide = x.astype(np.float32)
        total = (wide * scales if multiply else wide / scales) + zeros
        whole = np.clip(np.rint(total), -128, 127)
    return np.where(np.isnan(total), 0, whole).astype(np.int8)


def check(x: np.ndarray, scales: np.ndarray, zeros: np.ndarray) -> None:
    for multiply in (False, True):
        found = quantize(x, scales, zeros, multiply=multiply)
        np.testing.assert_array_equal(found, reference(x, scales, zeros, multiply))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", [1, 5, 63, 64, 65, 128, 200, 1023, 1024, 1025])
def test_every_number_of_channels(dtype, channels):
    rows = 9
    x = RNG.normal(0, 40, (rows, channels)).astype(dtype)
    scales = RNG.uniform(0.1, 1.5, channels).astype(np.float32)
    zeros = RNG.uniform(-5, 5, channels).astype(np.float32)
    check(x, scales, zeros)
    check(x[:2], scales, zeros)  # too few rows for tables
    wide = RNG.normal(0, 40, (rows, 3 * channels)).astype(dtype)
    check(wide[:, ::3], scales, zeros)
    check(wide[:, :channels], scales, -zeros)


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_strange_value_changes_no_other(dtype):
    channels = 128
    scales = np.where(np.arange(channels) % 7, 0.25, -0.013).astype(np.float32)
    zeros = np.linspace(-9, 9, channels, dtype=np.float32)
    x = (RNG.uniform(-140, 140, (channels, channels)) * scales).astype(np.float32)
    with np.errstate(over="ignore"):
        for value in SPECIAL:
            np.fill_diagonal(x, value)
            check(x.astype(dtype), scales, zeros)


@pytest.mark.parametrize("odd", [0.0, np.nan, np.inf, 1e-30, 1e30, 2.0**-127])
def test_one_scale_that_has_no_reciprocal(odd):
    x = RNG.normal(0, 3, (16, 192)).astype(np.float32)
    scales = np.full(192, 0.3, np.float32)
    zeros = np.zeros(192, np.float32)
    scales[77] = odd
    check(x, scales, zeros)
    scales[77] = 0.3
    zeros[5] = np.float32(3e8)
    check(x, scales, zeros)
    zeros[5] = np.nan
    check(x, scales, zeros)


def test_halves_round_to_even_and_neighbours_do_not():
    channels = 256
    scales = (RNG.integers(1, 2**24, channels) * 2.0 ** RNG.integers(-30, 5, channels)).astype(
        np.float32
    )
    zeros = RNG.integers(-3, 4, channels).astype(np.float32)
    wholes = RNG.integers(-260, 260, (64, channels)).astype(np.float32) / 2
    x = (wholes * scales).astype(np.float32)
    check(x, scales, zeros)
    check(np.nextafter(x, np.inf, dtype=np.float32), scales, zeros)
    check(np.nextafter(x, -np.inf, dtype=np.float32), scales, zeros)


def test_scales_along_an_axis_in_the_middle_and_rows_that_repeat_them():
    x = RNG.normal(0, 40, (3, 70, 5, 66)).astype(np.float32)
    for axis in range(4):
        shape = [1, 1, 1, 1]
        shape[axis] = x.shape[axis]
        scales = RNG.uniform(0.1, 1.5, x.shape[axis]).astype(np.float32)
        zeros = RNG.uniform(-5, 5, x.shape[axis]).astype(np.float32)
        found = quantize(x, scales, zeros, axis=axis)
        meant = reference(x, scales.reshape(shape), zeros.reshape(shape), False)
        np.testing.assert_array_equal(found, meant)
