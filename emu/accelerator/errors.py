"""Errors of the emulated devices."""

from __future__ import annotations


class NotEmulatedError(NotImplementedError):
    """A function of an accelerator that has no counterpart here."""
