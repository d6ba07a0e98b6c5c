"""Errors of kernels: wrong arguments, and trouble with the folder of compiled code."""

from __future__ import annotations


class ArgumentError(ValueError):
    """An argument breaks a rule; nothing was changed. The text names it, its value and the bound."""


class CacheFolderError(Exception):
    """Others may write into the folder of compiled code; nothing was loaded from it."""


class CacheWarning(UserWarning):
    """The folder of compiled code cannot be written, so that kernels are compiled in each run."""


__all__ = ["ArgumentError", "CacheFolderError", "CacheWarning"]
