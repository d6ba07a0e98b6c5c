"""The dtypes that PEs exchange, and conversion of fp16 and bf16 to and from fp32.

Numba has no arithmetic on fp16 and does not know bf16: kernels hold both as ``uint16`` bit patterns
and convert at the edge, with one rounding (to nearest, ties to even). NaN stays NaN.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from llvmlite import ir
from numba import types

from emu.kernels.jit import intrinsic, jit

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

# Arithmetic kinds: what a kernel must know to add. Signed and unsigned wrap alike.
BOOL, I8, I16, I32, I64, F16, BF16, F32, F64 = range(9)

KINDS: dict[np.dtype[Any], int] = {
    np.dtype(np.bool_): BOOL,
    np.dtype(np.int8): I8,
    np.dtype(np.uint8): I8,
    np.dtype(np.int16): I16,
    np.dtype(np.uint16): I16,
    np.dtype(np.int32): I32,
    np.dtype(np.uint32): I32,
    np.dtype(np.int64): I64,
    np.dtype(np.uint64): I64,
    np.dtype(np.float16): F16,
    BFLOAT16: BF16,
    np.dtype(np.float32): F32,
    np.dtype(np.float64): F64,
}
"""Every dtype of the symmetric heap, with its arithmetic kind."""

DTYPES: tuple[np.dtype[Any], ...] = tuple(KINDS)
"""The same dtypes in a fixed order; the index of one is its code in shared memory."""


def _conversion(source: Any, target: Any, build: Any) -> Any:
    @intrinsic
    def convert(typingctx: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return build(builder, args[0])

        return target(source), codegen

    return convert


f16_to_f32 = _conversion(
    types.uint16,
    types.float32,
    lambda b, v: b.fpext(b.bitcast(v, ir.HalfType()), ir.FloatType()),
)
f32_to_f16 = _conversion(
    types.float32,
    types.uint16,
    lambda b, v: b.bitcast(b.fptrunc(v, ir.HalfType()), ir.IntType(16)),
)
f32_bits = _conversion(types.float32, types.uint32, lambda b, v: b.bitcast(v, ir.IntType(32)))
bits_f32 = _conversion(types.uint32, types.float32, lambda b, v: b.bitcast(v, ir.FloatType()))


@jit(inline="always")
def bf16_to_f32(bits: int) -> Any:
    """Widen a bf16 bit pattern; exact."""
    return bits_f32(np.uint32(bits) << np.uint32(16))


@jit(inline="always")
def f32_to_bf16(value: float) -> Any:
    """Round an fp32 value to a bf16 bit pattern, to nearest, ties to even; NaN gives a quiet NaN."""
    bits = f32_bits(value)
    rounded = np.uint32(bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    # A select on the bit pattern rather than on `value != value`: it vectorises.
    is_nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.uint16(0x7FC0) if is_nan else np.uint16(rounded >> np.uint32(16))
