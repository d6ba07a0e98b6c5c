"""Functions beside ``tl``: ``libdevice``, and the table of device libraries' symbols.

Internal: names may change in any release.
"""

from emu.triton.language.external import register_extern
from emu.triton.language.extra import cpu, cuda, hip, intel, libdevice

__all__ = ["cpu", "cuda", "hip", "intel", "libdevice", "register_extern"]
