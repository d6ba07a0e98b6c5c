"""Errors of NVSHMEM4Py's names."""

from __future__ import annotations

from emu.comm.errors import ArgumentError, CommError
from emu.kernels.core.checks import Arguments


class NvshmemError(CommError, RuntimeError):
    """A call could not be carried out: NVSHMEM is not initialised, or there is no memory."""


class NvshmemInvalid(ArgumentError):
    """An argument breaks a rule; nothing was changed."""


check = Arguments(NvshmemInvalid)
