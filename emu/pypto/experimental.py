"""``pypto.experimental``: the spellings of put and get that the first programs use."""

from __future__ import annotations

from emu.pypto.distributed import shmem_get, shmem_load, shmem_put, shmem_store

__all__ = ["shmem_get", "shmem_load", "shmem_put", "shmem_store"]
