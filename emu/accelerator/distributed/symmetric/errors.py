"""Errors of symmetric memory. They are ``RuntimeError`` too, which torch raises in these places."""

from __future__ import annotations

from emu.comm.errors import ArgumentError, CommError


class SymmetricArgumentError(ArgumentError, RuntimeError):
    """An argument breaks a rule of symmetric memory; nothing was changed."""


class SignalTimeoutError(CommError, RuntimeError):
    """A barrier or a signal did not come within ``timeout_ms``."""
