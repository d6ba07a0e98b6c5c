"""Functions beside ``tl``: ``libdevice``.

Internal: names may change in any release.
"""

from emu.triton.language.extra import cuda, libdevice

__all__ = ["cuda", "libdevice"]
