"""Effects of operations besides making their results.

A loop has the effects of its body, a custom call has an attribute that says whether it has any, and
an operation without a definition may have all.
"""

from __future__ import annotations

from emu.mlir.ir import Operation
from emu.mlir.registry import OpDefinition, definition


def is_effect_free(op: Operation) -> bool:
    """Return whether an operation, with all operations in it, only makes its results."""
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


def is_trivially_dead(op: Operation) -> bool:
    """Return whether the operation can be erased: it is unused and has no effects.

    Terminators and symbols are kept even if they make nothing that is used.
    """
    for result in op.results:  # not by any(): propagation asks for every operation in every round
        if result.has_uses:
            return False
    known = definition(op.name)
    return not known.terminator and not known.symbol and is_effect_free(op)
