"""``triton.runtime.interpreter``: names that programs test kernels with.

Kernels that run as Python are launched by emu's own interpreter, and remain a ``JITFunction``.
"""

from __future__ import annotations

from typing import Any

from emu.triton.runtime.jit import JITFunction

__all__ = ["InterpretedFunction"]


class InterpretedFunction(JITFunction[Any]):
    """Class of Triton's interpreted kernels; none of emu's kernels is of it, as ``isinstance`` then tells."""
