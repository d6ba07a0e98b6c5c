"""Inputs, tolerances and comparison for programs that check themselves against NumPy."""

from __future__ import annotations

import numpy as np

from emu.pypto.dtypes import DT_BF16, DT_FP16, DT_FP32, FLOATS, Array, DTypeLike, as_dtype
from emu.pypto.errors import ArgumentError
from emu.pypto.symbolic import as_int, as_shape
from emu.pypto.tensor import too_large

__all__ = ["assert_close", "random_array", "tolerance"]


def random_array(seed: int, shape: object, dtype: DTypeLike) -> Array:
    """Return reproducible values: small integers for integer types, normal ones for floats."""
    kind, extents = as_dtype(dtype), as_shape(shape, "shape", least=0)
    number = as_int(seed, "seed")
    if number < 0:
        raise ArgumentError(f"seed must be at least 0, but got {number}")
    generator = np.random.default_rng(number)
    values: Array
    try:
        if kind in FLOATS:
            values = generator.standard_normal(extents)
        else:
            values = generator.integers(-9, 10, extents)
        result: Array = values.astype(kind.np_dtype)
    except (MemoryError, ValueError):
        raise too_large(extents, kind, "shape") from None
    return result


def tolerance(dtype: DTypeLike, n_pes: int) -> float:
    """Return the largest relative error allowed, as :func:`assert_close` measures it.

    2^-10 for each PE in FP16 and 2^-7 in BF16, which round at every addition; 1e-4 in FP32; integers
    must be exact.
    """
    kind, count = as_dtype(dtype), as_int(n_pes, "n_pes")
    if count < 1:
        raise ArgumentError(f"n_pes must be at least 1, but got {count}")
    return {DT_FP16: count * 2.0**-10, DT_BF16: count * 2.0**-7, DT_FP32: 1e-4}.get(kind, 0.0)


def _array(value: object, argument: str) -> Array:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):  # ragged lists
        array = np.asarray(None)
    as_dtype(array.dtype, f"dtype of {argument}")
    return array


def assert_close(actual: object, expected: object, n_pes: int) -> float:
    """Compare a result with its reference in double; return the largest relative error.

    An error is relative to the mean magnitude of what is expected, or to the element's own magnitude
    where that is larger: the last rounding alone, half a unit in the last place of an element that is
    four times the mean, would already use up the tolerance of two PEs.

    Raises:
        AssertionError: If shapes differ or an error is larger than :func:`tolerance`.
        DTypeError: If one is no array of a tensor's data type.
    """
    array, reference = _array(actual, "actual"), _array(expected, "expected")
    allowed = tolerance(array.dtype, n_pes)
    got, want = array.astype(np.float64), reference.astype(np.float64)
    if got.shape != want.shape:
        raise AssertionError(f"shape must be {want.shape}, but got {got.shape}")
    if not want.size:
        return 0.0
    magnitude = np.abs(want)
    error = np.abs(got - want) / np.maximum(magnitude, float(magnitude.mean()) or 1.0)
    worst = float(error.max())
    if not worst <= allowed:
        place = np.unravel_index(int(error.argmax()), got.shape)
        raise AssertionError(
            f"relative error must be at most {allowed:.3g}, but got {worst:.3g} at "
            f"{tuple(map(int, place))}: {got[place]} instead of {want[place]}"
        )
    return worst
