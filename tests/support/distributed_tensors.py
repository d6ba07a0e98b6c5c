"""Device tensors and their values for tests of ``torch.distributed`` on the World."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np

DEVICES = {"nccl": "cuda", "hccl": "npu"}
BF16 = np.dtype(ml_dtypes.bfloat16)


def begin(backend: str = "nccl") -> Any:
    """Return torch, its distributed package, and a function that makes device tensors."""
    import emu.accelerator

    emu.accelerator.install()
    import torch
    import torch.distributed as dist

    # Names that scripts use and that the newest torch calls deprecated.
    warnings.simplefilter("ignore", FutureWarning)
    if not dist.is_initialized():
        dist.init_process_group(backend)
    device = DEVICES[backend]

    def on_device(array: Any) -> Any:
        array = np.ascontiguousarray(array)
        if array.dtype == BF16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).to(device)
        return torch.from_numpy(array).to(device)

    return torch, dist, on_device


def values(tensor: Any) -> np.ndarray:
    """Return what a device tensor holds."""
    import torch

    tensor = tensor.detach().cpu()
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(BF16)
    return tensor.numpy()


def given(rank: int, shape: Any, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    """What rank ``rank`` gives."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng([seed, rank])
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def everything(n: int, shape: Any, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    return np.stack([given(rank, shape, dtype, seed) for rank in range(n)])


def same(tensor: Any, expected: np.ndarray) -> None:
    got = values(tensor)
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    assert got.tobytes() == np.ascontiguousarray(expected).tobytes()


def combine(op: str, arrays: np.ndarray) -> np.ndarray:
    """The meaning of a reduction: in rank order, 16 bits in fp32 with one rounding."""
    step = {"MAX": np.maximum, "MIN": np.minimum, "PRODUCT": np.multiply}.get(op, np.add)
    wide = arrays.astype(np.float32) if arrays.dtype in (np.float16, BF16) else arrays
    total = wide[0]
    for array in wide[1:]:
        total = step(total, array)
    if op == "AVG":
        total = total / total.dtype.type(len(arrays))
    return total.astype(arrays.dtype)
