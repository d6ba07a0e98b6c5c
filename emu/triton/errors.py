"""The base of all errors of Triton programs."""

from __future__ import annotations


class TritonError(Exception):
    """Base of the errors of a kernel or of its use."""
