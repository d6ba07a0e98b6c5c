"""The part of Triton under CUDA's name: ``libdevice``.

Internal: names may change in any release.
"""

from emu.triton.language.extra.cuda import libdevice

__all__ = ["libdevice"]
