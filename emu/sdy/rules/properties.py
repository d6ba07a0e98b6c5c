"""Properties of operations, besides their rules, that propagation depends on."""

from __future__ import annotations

from emu.mlir.ir import Operation
from emu.mlir.registry import definition
from emu.sdy.rules.reading import shape

# They work on whole tensors, but the schedule of propagation treats them as
# elementwise.
_IDENTITIES = {"sdy.propagation_barrier", "sdy.reshard", "sdy.sharding_constraint"}


def is_elementwise(op: Operation) -> bool:
    """Return whether each result element depends only on the operands' elements at its index."""
    if op.name == "stablehlo.bitcast_convert":
        # Equal shapes imply equal element widths.
        return shape(op.operands[0]) == shape(op.results[0])
    return op.name in _IDENTITIES or definition(op.name).elementwise
