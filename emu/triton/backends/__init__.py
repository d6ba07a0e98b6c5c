"""Backends of launches; importing the package registers those that come with it.

Internal: names may change in any release.
"""

from emu.triton.backends import cpu, reference

__all__ = ["cpu", "reference"]
