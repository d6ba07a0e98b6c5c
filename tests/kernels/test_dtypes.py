"""The public conversions in a function of a user's, from Python's point of view: arrays of bit patterns."""

from __future__ import annotations

import numpy as np
import pytest

from emu.kernels import dtypes
from emu.kernels.jit import jit

NARROW = {
    "bf16": dtypes.BFLOAT16,
    "f16": np.dtype(np.float16),
    "f8_e4m3fn": dtypes.FLOAT8_E4M3FN,
    "f8_e5m2": dtypes.FLOAT8_E5M2,
}


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("suffix", ["", "_saturated"])
def test_a_users_function_doubles_every_finite_value(name, suffix):
    widen = getattr(dtypes, f"{name}_to_f32")
    narrow = getattr(dtypes, f"f32_to_{name}{suffix}")

    @jit
    def double(bits, result):
        for i in range(bits.size):
            result[i] = narrow(widen(bits[i]) * np.float32(2))

    dtype = NARROW[name]
    unsigned = np.dtype(f"u{dtype.itemsize}")
    bits = np.arange(1 << 8 * dtype.itemsize).astype(unsigned)
    values = bits.view(dtype).astype(np.float32)
    bits, values = bits[np.isfinite(values)], values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        expected = (values * 2).astype(dtype)
        if suffix:
            largest = values.max()
            expected = np.clip(values * 2, -largest, largest).astype(dtype)
    result = np.empty_like(bits)
    double(bits, result)
    np.testing.assert_array_equal(result, expected.view(unsigned))
