"""What :mod:`emu.kernels.matmul` accepts: dtypes, shapes, factors and precisions, checked before anything is changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from emu.kernels.core.annotations import Array
from emu.kernels.core.checks import check
from emu.kernels.core.dtypes import BF16, BFLOAT16, F16, F32, F64, I8
from emu.kernels.core.messages import shown
from emu.kernels.core.tile_data import is_permitted
from emu.kernels.errors import ArgumentError
from emu.kernels.gemm.microkernel import BF16_AMX, BF16_PAIRS, HAS_PAIRS, INT8_AMX, LAYOUT

_F16, _F32, _F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
_I8, _I32 = np.dtype(np.int8), np.dtype(np.int32)

PRECISIONS = ("exact", "native")
"""How products of 16-bit types are computed: see :func:`emu.kernels.matmul.matmul`."""

# dtype of the operands: arithmetic kind, dtype of the sums, dtypes that the result may have.
_PLANS: dict[
    np.dtype[np.generic], tuple[int, np.dtype[np.generic], tuple[np.dtype[np.generic], ...]]
] = {
    _F32: (F32, _F32, (_F32, _F16, BFLOAT16)),
    _F16: (F16, _F32, (_F16, _F32, BFLOAT16)),
    BFLOAT16: (BF16, _F32, (BFLOAT16, _F32, _F16)),
    _F64: (F64, _F64, (_F64,)),
    _I8: (I8, _I32, (_I32,)),
}


def has_amx() -> bool:
    """Return whether products of int8 and native bf16 use AMX: this CPU has it, and this process may use it."""
    return LAYOUT.amx and is_permitted()


def kind_for(kind: int, precision: object) -> int:
    """Return the arithmetic kind of a product of operands of a kind, in a precision.

    Raises:
        ArgumentError: There is no such precision.
    """
    if not isinstance(precision, str) or precision not in PRECISIONS:
        names = ", ".join(map(repr, PRECISIONS))
        raise ArgumentError(f"precision must be one of {names}, but got {shown(precision)}")
    if kind == I8:
        return INT8_AMX if has_amx() else kind
    if kind != BF16 or precision != "native":
        return kind
    return BF16_AMX if has_amx() else BF16_PAIRS if HAS_PAIRS else kind


def factors(kind: int, alpha: object, beta: object) -> tuple[float, float]:
    """Check and return alpha and beta."""
    if type(alpha) is type(beta) is float and (kind != I8 or (alpha == 1.0 and beta == 0.0)):
        return alpha, beta
    numbers = check.number("alpha", alpha), check.number("beta", beta)
    for name, value in zip(("alpha", "beta"), numbers, strict=True):
        if kind == I8 and not (value.is_integer() and abs(value) < 1 << 63):
            raise ArgumentError(
                f"alpha and beta must be integral for int8, and fit 64 bits, but got {name} {value}"
            )
    return numbers


def plan_of(
    a: Array, b: Array, first: str = "a"
) -> tuple[int, np.dtype[np.generic], tuple[np.dtype[np.generic], ...]]:
    """Check the operands; return their kind, the dtype of the sums, and the dtypes that the result may have."""
    operands: tuple[tuple[str, Any], ...] = ((first, a), ("b", b))
    for name, array in operands:
        # Tested here, because a call costs small products 2 %.
        if not isinstance(array, np.ndarray):
            check.ndarray(name, array)
        if array.ndim < 2:
            raise ArgumentError(f"{name} must have at least 2 axes, but got shape {array.shape}")
    plan = _PLANS.get(a.dtype)
    if plan is None:
        names = ", ".join(map(str, _PLANS))
        raise ArgumentError(f"{first} must have one of the dtypes {names}, but got {a.dtype}")
    if b.dtype != a.dtype:
        raise ArgumentError(f"b must have the dtype of a, {a.dtype}, but got {b.dtype}")
    return plan


def result_array(
    left: Array,
    right: Array,
    out: Array | None,
    dtype: npt.DTypeLike | None,
    allowed: tuple[np.dtype[np.generic], ...],
    a: Array,
    b: Array,
) -> Array:
    """Check the shapes and return the array to write to."""
    if left.shape[-1] != right.shape[-2]:
        raise ArgumentError(
            f"b must have a's k of {left.shape[-1]}, but got {right.shape[-2]} "
            f"(a has shape {a.shape}, b {b.shape})"
        )
    shape: tuple[int, ...] = (left.shape[-2], right.shape[-1])
    if left.ndim > 2 or right.ndim > 2:
        try:
            shape = np.broadcast_shapes(left.shape[:-2], right.shape[:-2]) + shape
        except ValueError:
            raise ArgumentError(
                f"a and b must broadcast before the last two axes, but got {a.shape} and {b.shape}"
            ) from None
    if dtype is not None:
        dtype = check.dtype("dtype", dtype)
    if out is None:
        dtype = allowed[0] if dtype is None else dtype
    else:
        if type(out) is not np.ndarray or out.shape != shape or not out.flags.writeable or dtype:
            check.target("out", out, shape, dtype)
        dtype = out.dtype
    if dtype not in allowed:
        names = ", ".join(str(d) for d in allowed)
        raise ArgumentError(
            f"the result of {a.dtype} must have one of the dtypes {names}, but got "
            f"{'dtype' if out is None else 'out with dtype'} {dtype}"
        )
    return np.empty(shape, dtype) if out is None else out


def check_bias(bias: Array | None, n: int, sums: np.dtype[np.generic]) -> Array | None:
    """Check and return the bias, in the dtype of the sums."""
    if bias is None:
        return None
    array = check.array("bias", bias)
    if array.dtype.kind not in "biuf" and array.dtype != BFLOAT16:
        raise ArgumentError(f"bias must have a dtype of real numbers, but got {array.dtype}")
    if array.shape != (n,):
        raise ArgumentError(f"bias must have shape ({n},), but got {array.shape}")
    if sums == _I32 and array.dtype.kind not in "iu":
        raise ArgumentError(f"bias must be of integers for int8, but got {array.dtype}")
    return np.ascontiguousarray(array, sums)
