"""The part of Triton under CUDA's name: ``libdevice``, and what programs ask about the GPU.

Internal: names may change in any release.
"""

from emu.triton.language.extra.cuda import libdevice
from emu.triton.language.extra.cuda.utils import (
    gdc_launch_dependents,
    gdc_wait,
    globaltimer,
    num_threads,
    num_warps,
    smid,
)

__all__ = [
    "gdc_launch_dependents",
    "gdc_wait",
    "globaltimer",
    "libdevice",
    "num_threads",
    "num_warps",
    "smid",
]
