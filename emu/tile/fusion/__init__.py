"""Chains of element-wise operations and reductions as one kernel: what front ends share.

A front end writes a :class:`Recipe`: a loop, and the nodes that it computes, without names or extents. It says by a
:class:`FrontEnd` what its nodes mean, and gets a compiled kernel, from disk where one lies there.

Internal: names may change in any release.
"""

from emu.tile.fusion.cache import FrontEnd, compile_recipe, kernel_of, load_stored, sources_digest
from emu.tile.fusion.recipe import (
    LONGEST_ROW,
    REDUCE,
    Launch,
    Loop,
    Node,
    Recipe,
    Space,
    grid_of,
    plan_loop,
    split_space,
)

__all__ = [
    "LONGEST_ROW",
    "REDUCE",
    "FrontEnd",
    "Launch",
    "Loop",
    "Node",
    "Recipe",
    "Space",
    "compile_recipe",
    "grid_of",
    "kernel_of",
    "load_stored",
    "plan_loop",
    "sources_digest",
    "split_space",
]
