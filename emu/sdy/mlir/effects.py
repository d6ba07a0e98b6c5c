"""Which operations may go when nothing uses their results."""

from __future__ import annotations

from emu.sdy.mlir.ir import Operation
from emu.sdy.mlir.registry import definition

__all__ = ["has_no_effect", "is_trivially_dead"]


def has_no_effect(op: Operation) -> bool:
    """Whether it and everything inside do nothing but compute results."""
    stack = [op]
    while stack:
        current = stack.pop()
        known = definition(current.name)
        if known.recursive_effects:
            stack.extend(o for region in current.regions for block in region.blocks for o in block)
        elif not known.pure and not (known.pure_if is not None and known.pure_if(current)):
            return False
    return True


def is_trivially_dead(op: Operation) -> bool:
    """Whether it can be erased: nothing uses it and it has no effect."""
    if any(result.has_uses for result in op.results):
        return False
    known = definition(op.name)
    return not known.terminator and not known.symbol and has_no_effect(op)
