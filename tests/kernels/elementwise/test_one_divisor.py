"""Division by one divisor without dividing: every bit as a division has it."""

from __future__ import annotations

import numpy as np
import pytest

from emu.kernels.core.address import as_pointer
from emu.kernels.core.jit import carray, jit
from emu.kernels.elementwise import one_divisor
from emu.kernels.quant import dynamic_quantize, quantize

BOUND = np.float32(2.0**24)


@jit()
def _divide(target: int, source: int, divisor_at: int, n: int) -> None:
    out = carray(as_pointer(target), (n,), np.float32)
    x = carray(as_pointer(source), (n,), np.float32)
    divisor = carray(as_pointer(divisor_at), (1,), np.float32)[0]
    high, low = one_divisor.reciprocal(divisor)
    for i in range(n):
        out[i] = one_divisor.quotient(x[i], divisor, high, low)


def _divisors() -> list[np.float32]:
    rng = np.random.default_rng(3)
    mantissas = 1 + rng.integers(0, 1 << 23, 200) / 2.0**23
    found = [
        np.float32(np.ldexp(m, int(e)))
        for m, e in zip(mantissas, rng.integers(-39, 40, 200), strict=True)
    ]
    ends = [np.float32(2.0**-40), np.float32(2.0**40), np.float32(1.0), np.float32(3.0)]
    inward = [np.nextafter(np.float32(2.0) ** e, np.float32(0)) for e in (-39, 0, 1, 40)]
    return [*found, *ends, *inward, *(-d for d in found[:20])]


def test_quotients_are_rounded_as_by_a_division():
    rng = np.random.default_rng(4)
    for divisor in _divisors():
        # Close to the middle between two neighbours, where a division is hardest to round.
        odd = rng.integers(-1 << 24, 1 << 24, 4000) + 0.5
        middle = (odd * float(divisor) * 2.0 ** rng.integers(-24, 0, 4000)).astype(np.float32)
        x = np.concatenate(
            [middle, np.nextafter(middle, np.float32(np.inf)), np.zeros(1, np.float32)]
        )
        out, at = np.empty_like(x), np.array([divisor])
        _divide(out.ctypes.data, x.ctypes.data, at.ctypes.data, x.size)
        np.testing.assert_array_equal(out, x / divisor)


def _reference(x: np.ndarray, scale: np.float32, zero: np.float32) -> np.ndarray:
    with np.errstate(all="ignore"):
        total = x / scale + zero
        whole = np.clip(np.rint(total), -128, 127)
    return np.where(np.isnan(total), 0, whole).astype(np.int8)


@pytest.mark.parametrize("zero", [0.0, 0.5, -3.25, 1048576.0, -1048577.0, 1e-30, np.inf])
@pytest.mark.parametrize(
    "scale",
    [0.1, -0.1, 1.0, 1e-12, 2.0**-40, 2.0**-41, 2.0**40, 2.0**41, 1e-40, 1e38, 0.0, np.inf, np.nan],
)
def test_one_scale_of_any_size(scale, zero):
    a, z = np.float32(scale), np.float32(zero)
    ties = (np.arange(-300, 300, dtype=np.float32) * np.float32(0.5)) - z
    with np.errstate(all="ignore"):
        near = ties * a
        special = np.array(
            [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-45, -1e-45, 1e-30, 3e38, -3e38], np.float32
        )
        x = np.concatenate([near, np.nextafter(near, np.float32(np.inf)), special, special * a])
    np.testing.assert_array_equal(quantize(x, a, z), _reference(x, a, z))


@pytest.mark.parametrize("size", [1e-43, 1e-20, 2.0**-33, 1.0, 1e14, 3e38])
def test_dynamic_rows_of_any_size(size):
    rng = np.random.default_rng(5)
    x = (rng.uniform(-1, 1, (7, 1100)) * size).astype(np.float32)
    x[1, 1:] = (np.arange(1099) % 255 - 127) * np.float32(0.5) * (x[1, 0] / np.float32(127))
    values, scales = dynamic_quantize(x)
    with np.errstate(all="ignore"):
        meant = np.abs(x).max(1) / np.float32(127)
        np.testing.assert_array_equal(scales, meant)
        for row, scale, found in zip(x, meant, values, strict=True):
            np.testing.assert_array_equal(found, _reference(row, scale, np.float32(0)))
