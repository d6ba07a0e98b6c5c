"""Inputs, tolerances and comparison for programs that check themselves against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.pypto.dtypes import DT_BF16, DT_FP16, DT_FP32, FLOATS, Array, as_dtype


def random_array(seed: int, shape: Any, dtype: Any) -> Array:
    """Return reproducible values: small integers for integer types, normal ones for floats."""
    kind, generator = as_dtype(dtype), np.random.default_rng(seed)
    values: Array
    if kind in FLOATS:
        values = generator.standard_normal(shape)
    else:
        values = generator.integers(-9, 10, shape)
    result: Array = values.astype(kind.np_dtype)
    return result


def tolerance(dtype: Any, n_pes: int) -> float:
    """Return the largest relative error allowed, as :func:`assert_close` measures it.

    2^-10 for each PE in FP16 and 2^-7 in BF16, which round at every addition; 1e-4 in FP32; integers
    must be exact.
    """
    return {DT_FP16: n_pes * 2.0**-10, DT_BF16: n_pes * 2.0**-7, DT_FP32: 1e-4}.get(
        as_dtype(dtype), 0.0
    )


def assert_close(actual: Any, expected: Any, n_pes: int) -> float:
    """Compare a result with its reference in double; return the largest relative error.

    An error is relative to the mean magnitude of what is expected, or to the element's own magnitude
    where that is larger: the last rounding alone, half a unit in the last place of an element that is
    four times the mean, would already use up the tolerance of two PEs.

    Raises:
        AssertionError: If shapes differ or an error is larger than :func:`tolerance`.
    """
    array = np.asarray(actual)
    got, want = array.astype(np.float64), np.asarray(expected).astype(np.float64)
    if got.shape != want.shape:
        raise AssertionError(f"shape must be {want.shape}, but got {got.shape}")
    if not want.size:
        return 0.0
    magnitude = np.abs(want)
    error = np.abs(got - want) / np.maximum(magnitude, float(magnitude.mean()) or 1.0)
    worst, allowed = float(error.max()), tolerance(array.dtype, n_pes)
    if not worst <= allowed:
        place = np.unravel_index(int(error.argmax()), got.shape)
        raise AssertionError(
            f"relative error must be at most {allowed:.3g}, but got {worst:.3g} at "
            f"{tuple(map(int, place))}: {got[place]} instead of {want[place]}"
        )
    return worst
