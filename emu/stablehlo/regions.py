"""What the regions of an operation take from around it, and the regions that are one operation of two parameters."""

from __future__ import annotations

from emu.mlir.ir import Operation, Region, Value


def captured(op: Operation) -> list[Value]:
    """Return the values that an operation's regions take from around it, in the order of their uses."""
    if not op.regions:  # most have none
        return []
    inside: set[Value] = set()
    found: dict[Value, None] = {}
    for region in op.regions:
        for block in region.blocks:
            inside.update(block.arguments)
    for inner in op.walk():
        if inner is op:
            continue
        inside.update(inner.results)
        for region in inner.regions:
            for block in region.blocks:
                inside.update(block.arguments)
        found.update(dict.fromkeys(v for v in inner.operands if v not in inside))
    return list(found)


def only_operation(region: Region) -> Operation | None:
    """Return the operation of both parameters, in any order, whose results are all that a region gives.

    None for a region that does more or less, or has another number of parameters than two.
    """
    block = region.blocks[0]
    first, last = block.first, block.last
    if len(region.blocks) > 1 or len(block.arguments) != 2 or first is None or last is None:
        return None
    if first.next_op is not last or tuple(last.operands) != tuple(first.results):
        return None
    return first if set(first.operands) == set(block.arguments) else None
