"""Comparing results, for tests of kernels."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["assert_close"]

Tolerance = float | Callable[[Any], float] | None


def assert_close(
    x: Any, y: Any, atol: Tolerance = None, rtol: Tolerance = None, err_msg: str = ""
) -> None:
    """Check that each element of ``x`` is as near to ``y``'s as the tolerances allow; NaN equals NaN.

    Args:
        x: A number, list, NumPy array or torch tensor on any device.
        y: The same; ``rtol`` is relative to it.
        atol: Absolute tolerance, or a function of ``x``'s dtype that gives it. Default: 1e-2.
        rtol: Relative tolerance, or a function of ``x``'s dtype that gives it. Default: 0.
        err_msg: What the error begins with.

    Raises:
        AssertionError: Shapes differ, or an element is further away.
    """
    dtype = getattr(x, "dtype", None)
    if dtype is None:
        dtype = np.asarray(x).dtype
    absolute = 1e-2 if atol is None else atol(dtype) if callable(atol) else atol
    relative = 0.0 if rtol is None else rtol(dtype) if callable(rtol) else rtol
    one, other = _plain(x), _plain(y)
    np.testing.assert_allclose(
        one, other, atol=absolute, rtol=relative, equal_nan=True, err_msg=err_msg
    )


def _plain(value: Any) -> np.ndarray[Any, Any]:
    """Return the elements as an array of a dtype that NumPy calculates with itself."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach()
        if value.dtype.is_floating_point and value.dtype not in (torch.float16, torch.float64):
            value = value.float()
        return np.asarray(value.cpu().numpy())
    array = np.asarray(value)
    if array.dtype.kind == "V":  # bf16, fp8: ml_dtypes
        return array.astype(np.float32)
    return array
