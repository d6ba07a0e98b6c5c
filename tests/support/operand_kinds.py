"""The two kinds of argument that the operators take, and arrays to draw them from."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
KINDS = ["numpy", "torch"]


def give(kind: str, array: Any) -> Any:
    """Return the array, or a tensor in its memory; None stays None. Other than the code under test."""
    if array is None or kind == "numpy":
        return array
    import torch

    if array.dtype == BF16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    if array.dtype.name.startswith("float8"):
        return torch.from_numpy(array.view(np.uint8)).view(getattr(torch, array.dtype.name))
    return torch.from_numpy(array)


def take(kind: str, value: Any) -> np.ndarray[Any, Any]:
    """Return what an operator returned as an array; it must be of the kind."""
    if kind == "numpy":
        assert isinstance(value, np.ndarray)
        return value
    import torch

    assert isinstance(value, torch.Tensor)
    if value.dtype == torch.bfloat16:
        return value.view(torch.int16).numpy().view(BF16)
    if value.dtype == torch.float8_e5m2:
        return value.view(torch.uint8).numpy().view(ml_dtypes.float8_e5m2)
    return value.numpy()


def strided(rng: np.random.Generator, shape: list[int], dtype: Any) -> np.ndarray[Any, Any]:
    """Return zeros of that shape with gaps between elements and the axes in some order."""
    order = rng.permutation(len(shape))
    steps = rng.integers(1, 3, len(shape))
    base = np.zeros([shape[i] * steps[i] for i in order], dtype).transpose(np.argsort(order))
    return base[(*(slice(None, None, int(step)) for step in steps), ...)]


def values(rng: np.random.Generator, shape: list[int], dtype: Any) -> np.ndarray[Any, Any]:
    """Return strided numbers of several magnitudes, some of them NaN or infinite."""
    array = strided(rng, shape, dtype)
    draws = rng.standard_normal(shape) * 10.0 ** rng.integers(-2, 3, shape)
    special = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 2.5], shape)
    with np.errstate(over="ignore"):
        array[...] = np.where(rng.random(shape) < 0.03, special, draws)
    return array


def factors(rng: np.random.Generator, shape: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """Return scales or zero points, some of them of no use."""
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, shape, dtype)
    choice = np.array([0.5, 0.203125, 1.0, 0.126, 3.7, -0.25, 0.0, np.inf, np.nan])
    odds = [0.25, 0.2, 0.1, 0.2, 0.1, 0.1, 0.02, 0.02, 0.01]
    return rng.choice(choice, shape, p=odds).astype(dtype)


@np.errstate(all="ignore")
def quantized(
    x: Any, scale: Any, zero: Any = None, *, multiply: bool = False, dtype: Any = np.int8
) -> np.ndarray[Any, Any]:
    """What quantisation means: fp32, each operation by itself; the factors broadcast."""
    x, scale = np.asarray(x).astype(np.float32), np.asarray(scale).astype(np.float32)
    value = x * scale if multiply else x / scale
    if zero is not None:
        value = value + np.asarray(zero).astype(np.float32)
    limits = np.iinfo(dtype)
    value = np.clip(np.rint(value).astype(np.float64), limits.min, limits.max)
    return np.where(np.isnan(value), 0, value).astype(dtype)
