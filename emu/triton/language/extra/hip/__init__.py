"""The part of Triton under AMD's name: ``libdevice``.

Internal: names may change in any release.
"""

from emu.triton.language.extra.hip import libdevice

__all__ = ["libdevice"]
