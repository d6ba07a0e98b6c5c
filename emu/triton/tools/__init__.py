"""Modules that programs import from ``triton.tools``.

Internal: names may change in any release.
"""

from emu.triton.tools import tensor_descriptor

__all__ = ["tensor_descriptor"]
