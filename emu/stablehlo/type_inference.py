"""Types of results that follow from operands, where StableHLO infers them.

Not every operation's do: those of a ``reshape`` or a ``dot_general`` are written.
"""

from __future__ import annotations

from emu.mlir.ir import Operation
from emu.mlir.types import Type
from emu.stablehlo.dialect import SPECS


def implied_types(op: Operation) -> list[Type] | None:
    """Return the types that an operation's results must have by its operands.

    Args:
        op: An operation with its operands, attributes and regions.

    Returns:
        None if they do not follow from these.

    Raises:
        Invalid: The operands do not go together; the message says why.
    """
    spec = SPECS.get(op.name)
    return None if spec is None or spec.infer is None else spec.infer(op)
