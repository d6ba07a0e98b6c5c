"""Comparing results, for tests of kernels."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from emu.kernels.core.messages import shown
from emu.triton.runtime.arguments import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

Tolerance = float | Callable[[Any], float] | None


def assert_close(
    x: object, y: object, atol: Tolerance = None, rtol: Tolerance = None, err_msg: str = ""
) -> None:
    """Check that each element of ``x`` is as near to ``y``'s as the tolerances allow; NaN equals NaN.

    Args:
        x: A number, list, NumPy array or torch tensor on any device.
        y: The same; ``rtol`` is relative to it.
        atol: Absolute tolerance, or a function of ``x``'s dtype that gives it. Default: 1e-2.
        rtol: Relative tolerance, or a function of ``x``'s dtype that gives it. Default: 0.
        err_msg: Beginning of the error's text.

    Raises:
        AssertionError: The shapes differ, or an element is further away.
    """
    one, other = _numbers("x", x), _numbers("y", y)
    dtype = getattr(x, "dtype", one.dtype)
    absolute = _tolerance("atol", atol, dtype, 1e-2)
    relative = _tolerance("rtol", rtol, dtype, 0.0)
    np.testing.assert_allclose(
        one, other, atol=absolute, rtol=relative, equal_nan=True, err_msg=err_msg
    )


def _numbers(name: str, value: object) -> NDArray[Any]:
    try:
        array = _plain(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(
            f"{name} must be numbers, but got {shown(value, with_type=True)}: {error}"
        ) from None
    if array.dtype.kind not in "biufc":
        raise TypeError(f"{name} must be numbers, but got {shown(value, with_type=True)}")
    return array


def _tolerance(name: str, given: object, dtype: object, default: float) -> float:
    """Return a tolerance; a function is called with the dtype.

    Raises:
        TypeError: The tolerance is not a number.
        ValueError: The tolerance is negative, or NaN.
    """
    value = default if given is None else given
    if isinstance(given, type) or isinstance(value, bool | np.bool_):
        raise TypeError(
            f"{name} must be a number or a function, but got {shown(given, with_type=True)}"
        )
    if callable(value):
        try:
            value = value(dtype)
        except TypeError as error:
            raise TypeError(f"{name} must take a dtype, but: {error}") from error
    if not isinstance(value, numbers.Real):
        raise TypeError(
            f"{name} must be a number or a function, but got {shown(value, with_type=True)}"
        )
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name} must fit into a float, but got {value}") from None
    if not number >= 0:
        raise ValueError(f"{name} must be at least 0, but got {value}")
    return number


def _plain(value: Tensor) -> NDArray[Any]:
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
