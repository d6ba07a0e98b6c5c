"""Arrays of other libraries: NumPy, and torch where the program has loaded it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from emu.kernels.core.messages import shown
from emu.pypto.dtypes import DT_BF16, Array, as_dtype
from emu.pypto.errors import KernelError

if TYPE_CHECKING:
    import torch


def is_foreign(value: object) -> bool:
    """Return whether a kernel argument is an array whose memory a tensor can use."""
    return isinstance(value, np.ndarray) or _is_torch(value)


def _is_torch(value: object) -> TypeGuard[torch.Tensor]:
    loaded = sys.modules.get("torch")
    return loaded is not None and isinstance(value, loaded.Tensor)


def as_array(value: object, argument: str) -> Array:
    """Return a NumPy array on the same memory.

    Raises:
        KernelError: If it is neither, lies on a device, or has a data type that tensors lack.
    """
    if _is_torch(value):
        array = _from_torch(value, argument)
    elif isinstance(value, np.ma.MaskedArray):
        raise KernelError(
            f"{argument} must not be masked: tensors have no masks; but got {shown(value)}"
        )
    elif isinstance(value, np.ndarray):
        array = np.asarray(value)  # of a subclass, the plain array on the same memory
    else:
        raise KernelError(
            f"{argument} must be a NumPy array or a torch tensor, but got {type(value).__name__}"
        )
    as_dtype(array.dtype, f"dtype of {argument}")
    return array


def _from_torch(value: torch.Tensor, argument: str) -> Array:
    loaded = sys.modules["torch"]
    if value.device.type != "cpu":
        raise KernelError(f"{argument} must be a CPU tensor, but got one on {value.device}")
    if value.layout is not loaded.strided or value.is_quantized:
        raise KernelError(
            f"{argument} must be a dense tensor, but got {value.layout}, {value.dtype}"
        )
    detached = value.detach().resolve_neg()
    if value.dtype == loaded.bfloat16:
        # torch gives no bfloat16 to NumPy, but the same bits as int16.
        bits: Array = detached.view(loaded.int16).numpy()
        return bits.view(DT_BF16.np_dtype)
    array: Array = detached.numpy()
    return array
