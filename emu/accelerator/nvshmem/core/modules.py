"""Kernels' modules, which NVSHMEM prepares on GPUs: here nothing need be done."""

from __future__ import annotations

from typing import Any

__all__ = ["library_finalize", "library_init", "module_finalize", "module_init"]


def module_init(module: Any) -> None:
    """Prepare a module of kernels; nothing need be done."""


def module_finalize(module: Any) -> None:
    """Undo :func:`module_init`; nothing need be done."""


def library_init(library: Any) -> None:
    """Prepare a library of kernels; nothing need be done."""


def library_finalize(library: Any) -> None:
    """Undo :func:`library_init`; nothing need be done."""
