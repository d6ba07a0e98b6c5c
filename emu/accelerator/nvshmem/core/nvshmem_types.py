"""``nvshmem.core.nvshmem_types``: errors, enumerations, buffers and the version."""

from __future__ import annotations

from dataclasses import dataclass

from emu.accelerator.nvshmem.buffers import Buffer, NvshmemResource
from emu.accelerator.nvshmem.enums import ComparisonType, InitStatus, SignalOp, Teams
from emu.accelerator.nvshmem.errors import NvshmemError, NvshmemInvalid

__all__ = [
    "Buffer",
    "ComparisonType",
    "InitStatus",
    "NvshmemError",
    "NvshmemInvalid",
    "NvshmemResource",
    "SignalOp",
    "Teams",
    "Version",
]


@dataclass(frozen=True)
class Version:
    """Versions of what a program talks to.

    Attributes:
        openshmem_spec_version: Release of OpenSHMEM whose rules apply.
        nvshmem4py_version: Release of NVSHMEM4Py whose names are there, with the suffix ``+emu``.
        libnvshmem_version: Release of NVSHMEM whose numbers are used.
    """

    openshmem_spec_version: str
    nvshmem4py_version: str
    libnvshmem_version: str
