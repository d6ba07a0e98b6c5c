"""The part of Triton under CUDA's name: ``libdevice``."""

from emu.triton.language.extra.cuda import libdevice

__all__ = ["libdevice"]
