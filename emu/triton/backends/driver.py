"""Drivers as Triton describes them; programs derive their own from these classes."""

from __future__ import annotations

from emu.triton.runtime.driver import Driver

__all__ = ["DriverBase", "GPUDriver"]


class DriverBase(Driver):
    """Base of drivers: answers about the device as emu's own does, unless a method is replaced."""


class GPUDriver(DriverBase):
    """Base of drivers of GPUs."""
