"""The part of Triton under CPUs' name: ``libdevice``.

Internal: names may change in any release.
"""

from emu.triton.language.extra.cpu import libdevice

__all__ = ["libdevice"]
