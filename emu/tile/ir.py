"""Values, operations, regions, functions: the tile IR as Python objects, and its builder.

A program is in SSA form with structured control: an operation owns its regions, a region is one list of
operations that ends with ``yield`` (a function's body with ``return``). A value is defined once, and is
visible in the rest of its region and in what is nested there. The builder infers result types and refuses
operands that do not fit; ``emu.tile.verify`` verifies whole programs, whatever made them.
"""

from __future__ import annotations

from emu.tile.building import Builder, Loop
from emu.tile.objects import (
    Function,
    Location,
    Module,
    Operation,
    Region,
    TileError,
    Value,
    checked_module,
)

__all__ = [
    "Builder",
    "Function",
    "Location",
    "Loop",
    "Module",
    "Operation",
    "Region",
    "TileError",
    "Value",
    "checked_module",
]
