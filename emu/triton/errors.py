"""The base of all errors of Triton programs."""

from __future__ import annotations

__all__ = ["TritonError"]


class TritonError(Exception):
    """A program in Triton's language, or its use, breaks a rule."""
