"""Conversion between data types by a rounding mode, saturating or not."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from emu.kernels.core.messages import shown
from emu.pypto.dtypes import DT_BOOL, FLOATS, Array, DataType, as_dtype, convert
from emu.pypto.errors import ArgumentError
from emu.pypto.symbolic import as_flag

Mode = Literal["nearest_even", "half_away", "floor", "ceil", "trunc"]
"""How ``cast`` rounds."""

MODES: tuple[str, ...] = get_args(Mode)


def check_mode(mode: object) -> str | None:
    """Check a rounding mode; None: that of the data type."""
    if mode is None or (isinstance(mode, str) and mode in MODES):
        return mode
    raise ArgumentError(f"mode must be one of {', '.join(MODES)}, or None, but got {shown(mode)}")


def check_saturate(saturate: object) -> bool | None:
    """Check whether to saturate; None: as is usual for the data types."""
    return None if saturate is None else as_flag(saturate, "saturate")


def is_plain(source: DataType, target: DataType, mode: str | None, saturate: bool | None) -> bool:
    """Return whether :func:`emu.pypto.dtypes.convert` does what is asked for."""
    if DT_BOOL in (source, target) or source is target:
        return True
    if target in FLOATS:
        rounds = source not in FLOATS or target.itemsize <= source.itemsize
        return not saturate and (mode in (None, "nearest_even") or not rounds)
    if source in FLOATS:
        return mode in (None, "trunc") and saturate in (None, True)
    return not saturate


def convert_by(array: Array, target: DataType, mode: str | None, saturate: bool | None) -> Array:
    """Return an array in another data type.

    Args:
        array: Array of any tensor's data type.
        target: Data type of the result.
        mode: How to round. None: to nearest even for floats, towards 0 for integers.
        saturate: Whether what is out of range becomes the end of the range. None: only if floats become integers;
            else integers wrap and floats become infinite.
    """
    source = as_dtype(array.dtype)
    if is_plain(source, target, mode, saturate):
        return convert(array, target)
    if target in FLOATS:
        return _to_float(array, target, mode or "nearest_even", bool(saturate))
    if source in FLOATS:
        return _to_integer(array, target, mode or "trunc", saturate is not False)
    bounds, own = np.iinfo(target.np_dtype), np.iinfo(array.dtype)
    inside = np.clip(array, max(bounds.min, own.min), min(bounds.max, own.max))
    converted: Array = inside.astype(target.np_dtype)
    return converted


def round_whole(x: Array, mode: str) -> Array:
    """Return doubles rounded to whole numbers."""
    if mode == "half_away":
        # Not trunc(x + 0.5): that sum may round up.
        down = np.trunc(x)
        return np.asarray(np.where(np.abs(x - down) >= 0.5, down + np.sign(x), down))
    functions = {"nearest_even": np.rint, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}
    return np.asarray(functions[mode](x))


def _to_integer(array: Array, target: DataType, mode: str, saturate: bool) -> Array:
    whole = round_whole(array.astype(np.float64), mode)
    if saturate:
        return convert(whole, target)
    # The low bits of the whole number; what has none gives 0.
    magnitude = np.fmod(np.abs(np.where(np.isfinite(whole), whole, 0.0)), 2.0**64)
    bits = magnitude.astype(np.uint64)
    wrapped: Array = np.where(whole < 0, np.uint64(0) - bits, bits).astype(target.np_dtype)
    return wrapped


def _to_float(array: Array, target: DataType, mode: str, saturate: bool) -> Array:
    """Round to nearest even, then step to the neighbour where the mode wants it.

    All comparisons are exact in double, but for 64-bit integers beyond 2^53, which are rounded to double first.
    """
    wide = array.astype(np.float64)
    result = np.array(convert(wide, target))
    if mode != "nearest_even":
        back = result.astype(np.float64)
        up, down = _neighbour(result, 1), _neighbour(result, -1)
        magnitude, found = np.abs(wide), np.abs(back)
        away = np.where(np.signbit(wide), down, up)
        inwards = np.where(np.signbit(wide), up, down)
        if mode == "floor":
            result = np.where(back > wide, down, result)
        elif mode == "ceil":
            result = np.where(back < wide, up, result)
        elif mode == "trunc":
            result = np.where(found > magnitude, inwards, result)
        else:
            further = np.abs(away.astype(np.float64))
            is_tie = (magnitude > found) & (further - magnitude == magnitude - found)
            result = np.where(is_tie, away, result)
    if saturate:
        largest = _largest(target)
        result = np.where(np.isinf(result.astype(np.float64)), np.copysign(largest, wide), result)
    converted: Array = np.asarray(result).astype(target.np_dtype)
    return converted


def _largest(dtype: DataType) -> np.float64:
    """Return the largest finite value."""
    infinity: Array = np.full((), np.inf).astype(dtype.np_dtype)
    return np.float64(_neighbour(infinity, -1).astype(np.float64))


def _neighbour(array: Array, direction: int) -> Array:
    """Return the next value upwards (1) or downwards (-1), by the bits: ml_dtypes has no nextafter for all."""
    kinds: dict[int, type[np.signedinteger[Any]]] = {2: np.int16, 4: np.int32, 8: np.int64}
    kind = kinds[array.dtype.itemsize]
    bits = np.array(array).view(kind)
    sign, rest = bits < 0, bits & np.iinfo(kind).max
    # In the order of values: 0 is both zeros, negative values count downwards.
    order = np.where(sign, -rest, rest).astype(kind)
    infinity = np.full((), np.inf).astype(array.dtype).view(kind)
    stepped = np.where(rest <= infinity, np.clip(order + direction, -infinity, infinity), order)
    smallest = kind(np.iinfo(kind).min)
    found = np.where(stepped < 0, -stepped | smallest, stepped).astype(kind).view(array.dtype)
    return np.where(rest > infinity, array, found)


__all__ = ["MODES", "Mode", "check_mode", "check_saturate", "convert_by", "is_plain", "round_whole"]
