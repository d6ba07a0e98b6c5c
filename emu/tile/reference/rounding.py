"""Exact arithmetic for the reference: conversions and multiply-add that round once.

NumPy rounds f64 to bf16 and fp8 by way of f32, and has no fused multiply-add. Both are made here by
rounding to odd: the nearest value towards zero or away from it whose last bit is set, unless the value
is exact. What is rounded to odd with at least two bits to spare may be rounded again without harm.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from emu.tile.types import F32, F64, FROM_NUMPY, DType

Array = np.ndarray[Any, Any]


def bits_of(x: Array) -> Array:
    """Return the elements' bits as unsigned integers of the same width."""
    return np.ascontiguousarray(x).reshape(x.shape).view(f"u{x.dtype.itemsize}")


def _to_odd(nearest: Array, error: Array) -> Array:
    """Return values rounded to odd, given those rounded to nearest and their errors."""
    even = bits_of(nearest) & 1 == 0
    inexact = np.isfinite(nearest) & np.isfinite(error) & (error != 0)
    towards = np.copysign(np.inf, error).astype(nearest.dtype)
    return np.where(even & inexact, np.nextafter(nearest, towards), nearest)


def _f64_to_f32_odd(x: Array) -> Array:
    nearest = np.asarray(x.astype(np.float32))
    largest = np.copysign(np.finfo(np.float32).max, x).astype(np.float32)
    nearest = np.where(np.isinf(nearest) & np.isfinite(x), largest, nearest)
    return _to_odd(nearest, np.asarray(x - nearest.astype(np.float64)))


def _i64_to_f64_odd(x: Array) -> Array:
    """Round 64-bit integers to f64 to odd: exact below 2**53, with 12 bits less above."""
    low = np.asarray(x & x.dtype.type(4095))
    sticky = np.where(low != 0, x.dtype.type(4096), x.dtype.type(0)).astype(x.dtype)
    coarse = ((x - low) | sticky).astype(np.float64)
    large = np.abs(x.astype(np.float64)) >= 2.0**53
    return np.where(large, coarse, x.astype(np.float64))


def to_float(x: Array, dtype: DType, rounding: str = "rtne") -> Array:
    """Convert numbers of any dtype to a floating-point dtype with one rounding.

    Args:
        x: Integers, booleans or floats.
        dtype: Floating point.
        rounding: ``"rtne"`` to nearest even; ``"rtz"`` towards zero, which counts where floats are
            converted to a narrower dtype.
    """
    if dtype in (F32, F64):
        nearest = np.asarray(x.astype(dtype.numpy))
    else:
        wide = x
        if x.dtype in (np.dtype(np.int64), np.dtype(np.uint64)):
            wide = np.asarray(_i64_to_f64_odd(x))
        elif x.dtype.kind in "biu":
            wide = np.asarray(x.astype(np.float64))
        if wide.dtype == np.float64:
            wide = np.asarray(_f64_to_f32_odd(wide))
        nearest = np.asarray(wide.astype(np.float32).astype(dtype.numpy))
    if rounding == "rtz" and x.dtype.kind not in "biu" and x.dtype.itemsize > dtype.bytes:
        nearest = _one_nearer_zero(nearest, x)
    return nearest


def _one_nearer_zero(nearest: Array, exact: Array) -> Array:
    """Undo roundings away from zero, among them those to infinity or, for f8e4m3fn, to NaN."""
    wide = np.abs(exact.astype(np.float64))
    found = np.abs(nearest.astype(np.float64))
    away = (found > wide) | (np.isnan(found) & ~np.isnan(wide) & np.isfinite(wide))
    away &= np.isfinite(wide)
    bits = bits_of(nearest)
    return np.where(away, bits - bits.dtype.type(1), bits).astype(bits.dtype).view(nearest.dtype)


def to_integer(x: Array, dtype: DType) -> Array:
    """Convert floats to integers towards zero; what is too large saturates, NaN gives 0."""
    wide = np.trunc(x.astype(np.float64))
    signed = dtype.is_signed
    above = 2.0 ** (dtype.bits - signed)
    below = -above if signed else 0.0
    inside = (wide >= below) & (wide < above)
    carrier = np.int64 if signed else np.uint64
    least, greatest = dtype.limits
    inner = np.where(inside, wide, 0.0).astype(carrier)
    inner = np.where(wide >= above, carrier(greatest), inner)
    inner = np.where(wide < below, carrier(least), inner)
    return np.asarray(inner.astype(dtype.numpy))


def computing(x: Array) -> Array:
    """Return narrow floats as f32, in which they are computed; others as they are."""
    dtype = FROM_NUMPY.get(x.dtype)
    return np.asarray(x.astype(np.float32)) if dtype is not None and dtype.is_narrow else x


def fma(a: Array, b: Array, c: Array) -> Array:
    """Return ``a * b + c`` of f32 or f64 with one rounding, broadcasting."""
    if a.dtype == np.float32:
        return _fma32(a, b, c)
    a, b, c = np.broadcast_arrays(a, b, c)
    flat = [_fma64(*lane) for lane in zip(a.flat, b.flat, c.flat, strict=True)]
    return np.array(flat, np.float64).reshape(a.shape)


def _fma32(a: Array, b: Array, c: Array) -> Array:
    """Multiply exactly in f64, round the sum to odd there, and then to f32."""
    product = np.asarray(a.astype(np.float64) * b.astype(np.float64))
    addend = c.astype(np.float64)
    total = np.asarray(product + addend)
    back = total - product
    error = np.asarray((product - (total - back)) + (addend - back))
    return np.asarray(_to_odd(total, error).astype(np.float32))


def _fma64(a: float, b: float, c: float) -> float:
    if np.isfinite(a) and np.isfinite(b) and not np.isfinite(c):
        return float(c)  # even where the product rounds to the other infinity
    rounded = a * b + c
    if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
        return float(rounded)
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        return float(rounded)
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")
