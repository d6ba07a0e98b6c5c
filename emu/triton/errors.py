"""The base of all errors of Triton programs."""

from __future__ import annotations


class TritonError(Exception):
    """A program in Triton's language, or its use, breaks a rule."""
