"""Fusion: chains of element-wise operations, broadcasts and reductions become kernels of the tile IR.

:func:`find_groups` divides a block's operations into groups, :func:`compile_group` makes the kernel of one. The reference
(``emu.stablehlo.reference``) defines what a group computes; kernels give its bits but for functions of the transcendental
kind and for the order in which floats are added and multiplied.

Internal: names may change in any release.
"""

from emu.stablehlo.compiled.fusion.grouping import find_groups
from emu.stablehlo.compiled.fusion.groups import Group
from emu.stablehlo.compiled.fusion.kernels import FusedKernel, compile_group

__all__ = ["FusedKernel", "Group", "compile_group", "find_groups"]
