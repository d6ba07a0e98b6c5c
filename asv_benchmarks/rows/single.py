"""torch as a contender in this process, on one thread and on the very memory that ours works on."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from typing import Any


def torch_or_none() -> Any:
    """Return torch, or None where it is not installed."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    return torch


@contextlib.contextmanager
def on_one_thread() -> Iterator[None]:
    """Let torch use one thread."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def tensor(array: Any) -> Any:
    """Return a tensor that shares an array's memory; NumPy knows bf16 and fp8 by their bits only."""
    import torch

    names = {"bfloat16": "bfloat16", "float8_e4m3fn": "float8_e4m3fn", "float8_e5m2": "float8_e5m2"}
    name = names.get(str(array.dtype))
    if name is None:
        return torch.from_numpy(array)
    bits = torch.from_numpy(array.view(f"i{array.itemsize}"))
    return bits.view(getattr(torch, name))
