"""Regions of reductions that kernels know."""

from __future__ import annotations

from emu.mlir.ir import Operation
from emu.stablehlo.compiled.fusion.values import tile_dtype

_COMBINERS = {
    f"stablehlo.{name}" for name in ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
}


def combiner_of(op: Operation) -> str | None:
    """Return the name of the operation that combines two elements; None if it is more than one operation."""
    if len(op.results) != 1 or len(op.regions[0].blocks) != 1:
        return None
    block = op.regions[0].blocks[0]
    inner = list(block)
    if len(inner) != 2 or inner[0].name not in _COMBINERS:
        return None
    if list(inner[1].operands) != list(inner[0].results):
        return None
    if set(inner[0].operands) != set(block.arguments):
        return None
    dtypes = {tile_dtype(v) for v in (*block.arguments, *op.operands, *op.results)}
    return inner[0].name if len(dtypes) == 1 else None
