"""Inlining of the body of an operation or function."""

from __future__ import annotations

from collections.abc import Sequence

from emu.mlir.ir import Operation, Region, Value

INLINABLE = frozenset({"arith", "chlo", "func", "sdy", "stablehlo"})
"""Dialects whose operations may be moved to another region."""


def can_inline(op: Operation) -> bool:
    """Return whether the body of an operation may replace it.

    It must be a single block, and the dialect of each operation in it must be one of ``INLINABLE``.
    """
    parent = op.parent_op
    if parent is None or parent.dialect not in INLINABLE or len(op.regions[0].blocks) != 1:
        return False
    return all(inner.dialect in INLINABLE for inner in op.walk() if inner is not op)


def inline_before(
    place: Operation, region: Region, arguments: Sequence[Value], results: Sequence[Value]
) -> None:
    """Copy the operations of a block before another operation.

    Args:
        place: The operation before which they go.
        region: A region of one block, whose terminator is left out.
        arguments: Values that replace the block's arguments.
        results: Values that the copies of the terminator's operands replace.
    """
    block = place.parent
    if block is None:
        raise ValueError(f"{place.name} is in no block")
    (body,) = region.blocks
    mapping: dict[Value, Value] = dict(zip(body.arguments, arguments, strict=True))
    terminator = body.terminator
    for op in body:
        if op is not terminator:
            block.insert_before(place, op.clone(mapping))
    for old, new in zip(results, terminator.operands, strict=True):
        old.replace_all_uses_with(mapping.get(new, new))
