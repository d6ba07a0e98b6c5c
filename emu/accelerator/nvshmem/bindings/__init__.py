"""``nvshmem.bindings``: NVSHMEM's functions on addresses; those of :mod:`.nvshmem`, under their short names too."""

from __future__ import annotations

from emu.accelerator.nvshmem.bindings import nvshmem
from emu.accelerator.nvshmem.bindings.nvshmem import *  # noqa: F403 - what is there is there under both names

__all__ = ["nvshmem"]
