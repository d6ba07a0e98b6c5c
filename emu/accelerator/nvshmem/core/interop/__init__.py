"""``nvshmem.core.interop``: torch tensors and arrays in symmetric memory.

Internal: names may change in any release.
"""

from __future__ import annotations

from emu.accelerator.nvshmem.core.interop import cupy, torch

__all__ = ["cupy", "torch"]
