"""The part of Triton under Intel's name: ``libdevice``.

Internal: names may change in any release.
"""

from emu.triton.language.extra.intel import libdevice

__all__ = ["libdevice"]
