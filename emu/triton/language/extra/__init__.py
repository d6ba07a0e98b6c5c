"""Functions beside ``tl``: ``libdevice``."""

from emu.triton.language.extra import cuda, libdevice

__all__ = ["cuda", "libdevice"]
