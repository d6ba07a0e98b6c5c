"""Passes: frozen dataclasses whose ``apply`` returns an equivalent new module.

The module that is given stays as it is (but for ``CarryOffsets``, which changes it). What the kernel computes does not change by a bit; only what
nobody can see may vanish: unused loads, the payloads of NaN.

Internal: names may change in any release.
"""

from emu.tile.ir import Module, checked_module
from emu.tile.passes.carry_offsets import CarryOffsets
from emu.tile.passes.common import CommonSubexpressions
from emu.tile.passes.dead import DeadCode
from emu.tile.passes.fold import FoldConstants
from emu.tile.passes.inline import Inline
from emu.tile.passes.rewriter import Pass

DEFAULT: tuple[Pass, ...] = (Inline(), FoldConstants(), CommonSubexpressions(), DeadCode())
"""Passes that compilers apply first; afterwards the kernel is alone in its module."""


KEEPING_CALLS: tuple[Pass, ...] = (Inline(keep_noinline=True), *DEFAULT[1:])
"""The same for compilers that can call functions that are marked ``noinline``."""


def simplify(module: Module, passes: tuple[Pass, ...] = DEFAULT) -> Module:
    """Apply passes one after another and return the last's module."""
    module = checked_module(module)
    for one in passes:
        module = one.apply(module)
    return module


__all__ = [
    "DEFAULT",
    "KEEPING_CALLS",
    "CarryOffsets",
    "CommonSubexpressions",
    "DeadCode",
    "FoldConstants",
    "Inline",
    "Pass",
    "simplify",
]
