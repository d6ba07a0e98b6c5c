"""The begin of tests that use NVSHMEM's names."""

from __future__ import annotations

from typing import Any


def start() -> tuple[Any, Any]:
    """Return torch and ``nvshmem.core`` on a PE, initialised, with this PE's device as the current one."""
    import emu.accelerator

    emu.accelerator.install()
    import nvshmem.core
    import torch

    import emu

    torch.cuda.set_device(emu.world().my_pe)
    nvshmem.core.init(initializer_method="mpi")
    return torch, nvshmem.core
