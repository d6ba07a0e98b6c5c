"""Exact counts of what tile kernels do.

``count(kernel, grid, *args)`` launches a kernel and returns its :class:`Counts`. docs/counting.md defines each number.
"""

from emu.tile.counting.counts import Counts, DotCounts, ProgramCounts, TensorCounts
from emu.trace.counting.launches import collect, count

__all__ = ["Counts", "DotCounts", "ProgramCounts", "TensorCounts", "collect", "count"]
