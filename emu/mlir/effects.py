"""What an operation does besides making its results.

Names only say so much: a loop has the effects of its body, a custom call says
itself whether it has any, and of an operation that nobody defined everything
must be feared.
"""

from __future__ import annotations

from emu.mlir.ir import Operation
from emu.mlir.registry import OpDefinition, definition

__all__ = ["is_effect_free", "is_terminator", "is_trivially_dead"]


def is_effect_free(op: Operation) -> bool:
    """Whether an operation, with all that is in it, only makes its results."""
    pending = [op]
    while pending:
        each = pending.pop()
        known = definition(each.name)
        if known.recursive_effects:
            for region in each.regions:
                for block in region.blocks:
                    pending.extend(block)
        elif not _has_no_effect(each, known):
            return False
    return True


def _has_no_effect(op: Operation, known: OpDefinition) -> bool:
    return known.pure if known.pure_if is None else known.pure_if(op)


def is_terminator(op: Operation) -> bool:
    """Whether the operation is known to end its block."""
    return definition(op.name).terminator


def is_trivially_dead(op: Operation) -> bool:
    """Whether nothing would be missed without the operation.

    Terminators and symbols stay even when they make nothing that is used.
    """
    if any(result.has_uses for result in op.results):
        return False
    known = definition(op.name)
    return not known.terminator and not known.symbol and is_effect_free(op)
