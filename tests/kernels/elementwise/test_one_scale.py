"""Quantisation in groups by one divisor: groups with NaN or infinities, and rows that end within one."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from emu.kernels.elementwise.one_scale import GROUP
from emu.kernels.quant import dynamic_quantize, quantize

DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16]
SPECIAL = [np.nan, -np.nan, np.inf, -np.inf, 3e38, -3e38, 60000.0, -60000.0]


def _reference(x: np.ndarray, scale: np.float32, zero: np.float32) -> np.ndarray:
    with np.errstate(all="ignore"):
        total = x.astype(np.float32) / scale + zero
        whole = np.clip(np.rint(total), -128, 127)
    return np.where(np.isnan(total), 0, whole).astype(np.int8)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("scale", "zero"), [(0.5, 2.0), (0.013, 0.0), (-0.3, -7.25), (1e-9, 0.0)])
def test_one_strange_value_changes_no_other(dtype, scale, zero):
    a, z = np.float32(scale), np.float32(zero)
    rng = np.random.default_rng(7)
    n = 2 * GROUP + 5
    plain = (rng.uniform(-140, 140, n) * abs(scale)).astype(np.float32)
    with np.errstate(over="ignore"):
        for value in SPECIAL:
            x = np.tile(plain, (n, 1))
            np.fill_diagonal(x, value)
            x = x.astype(dtype)
            meant = _reference(x, a, z)
            np.testing.assert_array_equal(quantize(x, a, z), meant)
            for row in x[:3]:
                np.testing.assert_array_equal(quantize(row, a, z), _reference(row, a, z))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("step", [1, 3, -1])
def test_rows_that_end_within_a_group(dtype, step):
    rng = np.random.default_rng(8)
    for n in [*range(1, 2 * GROUP + 2), 1023, 1024, 1025, 2100]:
        x = rng.normal(0, 40, (3, n * abs(step))).astype(dtype)[:, ::step]
        out = np.full((3, n + 2), 99, np.int8)
        quantize(x, 0.7, 1.0, out=out[:, 1:-1])
        meant = _reference(x, np.float32(0.7), np.float32(1.0))
        np.testing.assert_array_equal(out[:, 1:-1], meant)
        assert (out[:, [0, -1]] == 99).all()
        values, scales = dynamic_quantize(x)
        largest = np.abs(x.astype(np.float32)).max(1)
        np.testing.assert_array_equal(scales, largest / np.float32(127))
        for row, scale, found in zip(x, scales, values, strict=True):
            np.testing.assert_array_equal(found, _reference(row, scale, np.float32(0)))


def test_values_at_the_ends_of_int8():
    for scale in [0.1, 0.3, 1.0, -2.5, 1e-6, 12345.678]:
        for zero in [0.0, 0.5, 127.0, -128.0, 126.5, 300.0, -300.25]:
            a, z = np.float32(scale), np.float32(zero)
            ends = (
                (np.array([-129, -128.5, -128, -127.5, 126.5, 127, 127.5, 128]) - z) * a
            ).astype(np.float32)
            x = np.concatenate([ends, np.nextafter(ends, np.inf), np.nextafter(ends, -np.inf)])
            x = np.concatenate(
                [x.astype(np.float32), [np.float32(np.inf)] * 3, np.zeros(60, np.float32)]
            )
            np.testing.assert_array_equal(quantize(x, a, z), _reference(x, a, z))
