"""What propagation asks of operations besides their rules."""

from __future__ import annotations

from emu.mlir.ir import Operation
from emu.mlir.registry import definition
from emu.sdy.rules.reading import shape

__all__ = ["is_elementwise"]

# They work on whole tensors, but in the schedule of propagation they count as
# element by element.
_IDENTITIES = {"sdy.propagation_barrier", "sdy.reshard", "sdy.sharding_constraint"}


def is_elementwise(op: Operation) -> bool:
    """Return whether each element of a result needs the operands' elements there only."""
    if op.name == "stablehlo.bitcast_convert":
        # Equal shapes mean equal widths.
        return shape(op.operands[0]) == shape(op.results[0])
    return op.name in _IDENTITIES or definition(op.name).elementwise
