"""Types that the annotations of this room name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

Tensor: TypeAlias = torch.Tensor
Storage: TypeAlias = torch.UntypedStorage

DeviceLike: TypeAlias = torch.device | str | int
"""Value of an argument ``device``, where it is not None."""

TorchFunction: TypeAlias = Callable[..., Any]
"""Function of torch, or one in its place; the script decides what it is called with."""
Args: TypeAlias = tuple[Any, ...]
"""Positional arguments of a call into torch."""
Kwargs: TypeAlias = dict[str, Any]
"""Keyword arguments of a call into torch."""
Handler: TypeAlias = Callable[[TorchFunction, Args, Kwargs], object]
"""Function that runs a call into torch and returns its result."""

Namespace: TypeAlias = dict[str, Any]
"""Functions, classes and constants of a device module, by name."""
