"""Narrow floating-point dtypes, and conversions of single values for compiled functions of your own.

    import numpy as np
    from emu.kernels.dtypes import bf16_to_f32, f32_to_bf16
    from emu.kernels.jit import jit

    @jit
    def double(bits):  # a uint16 array: array.view(np.uint16)
        for i in range(bits.size):
            bits[i] = f32_to_bf16(bf16_to_f32(bits[i]) * np.float32(2))

Numba knows neither bf16 nor the two fp8 formats, and has no arithmetic on fp16: compiled code holds them as bit
patterns, ``uint16`` or ``uint8``, and computes in fp32. ``BFLOAT16``, ``FLOAT8_E4M3FN`` and ``FLOAT8_E5M2`` are
the NumPy dtypes of such arrays.

A conversion to fp32 is exact; one from fp32 rounds to nearest, ties to even. NaN stays NaN and keeps its sign. What
is too large becomes infinity, or NaN in e4m3fn, which has no infinity; a function whose name ends in ``saturated``
gives the largest finite value instead, for an infinity too. Whole arrays: :func:`emu.kernels.cast.cast`.
"""

from __future__ import annotations

from emu.kernels.core.dtypes import (
    BFLOAT16,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    bf16_to_f32,
    f8_e4m3fn_to_f32,
    f8_e5m2_to_f32,
    f16_to_f32,
    f32_to_bf16,
    f32_to_bf16_saturated,
    f32_to_f8_e4m3fn,
    f32_to_f8_e4m3fn_saturated,
    f32_to_f8_e5m2,
    f32_to_f8_e5m2_saturated,
    f32_to_f16,
    f32_to_f16_saturated,
)

__all__ = [
    "BFLOAT16",
    "FLOAT8_E4M3FN",
    "FLOAT8_E5M2",
    "bf16_to_f32",
    "f8_e4m3fn_to_f32",
    "f8_e5m2_to_f32",
    "f16_to_f32",
    "f32_to_bf16",
    "f32_to_bf16_saturated",
    "f32_to_f8_e4m3fn",
    "f32_to_f8_e4m3fn_saturated",
    "f32_to_f8_e5m2",
    "f32_to_f8_e5m2_saturated",
    "f32_to_f16",
    "f32_to_f16_saturated",
]
