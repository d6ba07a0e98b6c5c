"""Promotion: the dtype in which an operation on two dtypes is computed."""

from __future__ import annotations

import math

from emu.triton.language.types import (
    bfloat16,
    dtype,
    float16,
    float32,
    float64,
    int1,
    int32,
    int64,
    uint32,
    uint64,
)

_SMALLEST_F32 = 2.0**-126
_LARGEST_F32 = (2 - 2.0**-23) * 2.0**127


def scalar_dtype(value: object) -> dtype:
    """Return the dtype of a Python number: the smallest of 32 or 64 bits that holds it.

    Raises:
        ValueError: No dtype holds the integer.
        TypeError: The value is not a number.
    """
    if isinstance(value, bool):
        return int1
    if isinstance(value, int):
        for candidate in (int32, uint32, int64, uint64):
            if candidate.get_int_min_value() <= value <= candidate.get_int_max_value():
                return candidate
        raise ValueError(f"an integer must be in [-2**63, 2**64), but got {value}")
    if isinstance(value, float):
        size = abs(value)
        normal = _SMALLEST_F32 <= size <= _LARGEST_F32
        return float32 if normal or size == 0 or not math.isfinite(size) else float64
    hint = ""
    if hasattr(value, "__array__"):
        hint = "; an array is no value of a kernel: pass it as an argument, or compute it with tl.arange"
    raise TypeError(
        f"cannot convert {value!r:.200} of type {type(value).__name__} to a tensor{hint}"
    )


def integer_promote(a: dtype, b: dtype) -> dtype:
    """Return the wider integer dtype, the unsigned one where both are equally wide."""
    if a.int_signedness == b.int_signedness:
        return a if a.int_bitwidth > b.int_bitwidth else b
    unsigned, signed = (a, b) if a.is_int_unsigned() else (b, a)
    return unsigned if unsigned.int_bitwidth >= signed.int_bitwidth else signed


def computation_type(
    a: dtype, a_is_scalar: bool, b: dtype, b_is_scalar: bool, division: bool = False
) -> dtype:
    """Return the dtype in which two operands are combined.

    Args:
        a: Dtype of one.
        a_is_scalar: Whether it is a Python number, which takes part only if its kind is higher.
        b: Dtype of the other.
        b_is_scalar: The same of the other.
        division: Whether this is ``/``, ``//`` or ``%``, for which floats are fp32 at least.

    Raises:
        TypeError: An operand is not a number, or integers that are divided differ in their signedness.
    """
    if a_is_scalar != b_is_scalar:
        number, other = (a, b) if a_is_scalar else (b, a)
        if number.kind().value <= other.kind().value:
            a = b = other
    common = _common_float(a, b, division)
    if common is not None:
        return common
    if not (a.is_int() and b.is_int()):
        raise TypeError(f"unexpected type {a} and {b}; cast one of them")
    if division and a.int_signedness != b.int_signedness:
        raise TypeError(
            f"Cannot use /, // or % with {a} and {b} because they have different signedness; "
            "cast one of them"
        )
    return integer_promote(a, b)


def _common_float(a: dtype, b: dtype, division: bool) -> dtype | None:
    """Return the float dtype of two operands; None where neither is a float, or one alone is fp8."""
    both = (a, b)
    if float64 in both:
        return float64
    if float32 in both or (division and any(t.is_floating() for t in both)):
        return float32
    if float16 in both:
        return float16
    if bfloat16 in both:
        # Beside any other dtype, an integer too, bf16 becomes fp32, as in Triton.
        return bfloat16 if a == b else float32
    if all(t.is_fp8() for t in both):
        return a if a == b else float16
    return None
