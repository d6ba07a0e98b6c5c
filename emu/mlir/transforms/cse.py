"""Common subexpression elimination: of equal operations, the first is kept.

An operation replaces those that follow it in its block and inside operations of the block, up to
isolated ones. Only operations without effects take part. Unused operations are erased too, but of a
chain of them only the last, since uses are not looked up again; MLIR does the same.
"""

from __future__ import annotations

from collections.abc import Hashable

from emu.mlir.diagnostics import UNKNOWN
from emu.mlir.effects import is_effect_free, is_trivially_dead
from emu.mlir.ir import Block, Operation, Region, Value
from emu.mlir.registry import definition

Known = dict[Hashable, Operation]


def eliminate_common_subexpressions(top: Operation) -> None:
    """Replace repeated operations inside an operation by the first of them."""
    doomed: list[Operation] = []
    for region in top.regions:
        _region(region, {}, doomed)
    for op in doomed:
        op.erase()


def _region(region: Region, known: Known, doomed: list[Operation]) -> None:
    if len(region.blocks) != 1:
        # Several blocks would need dominance; sharded programs do not have them.
        return
    _block(region.blocks[0], dict(known), doomed)


def _block(block: Block, known: Known, doomed: list[Operation]) -> None:
    for op in block:
        inner = {} if definition(op.name).isolated else known
        for region in op.regions:
            _region(region, inner, doomed)
        _operation(op, known, doomed)


def _operation(op: Operation, known: Known, doomed: list[Operation]) -> None:
    if definition(op.name).terminator:
        return
    if is_trivially_dead(op):
        doomed.append(op)
        return
    if any(len(region.blocks) > 1 for region in op.regions) or not is_effect_free(op):
        return
    first = known.setdefault(_key(op, {}), op)
    if first is op:
        return
    for old, new in zip(op.results, first.results, strict=True):
        old.replace_all_uses_with(new)
    if first.location == UNKNOWN:
        first.location = op.location
    doomed.append(op)


def _key(op: Operation, local: dict[Value, Hashable]) -> Hashable:
    """Return a key that is equal for operations that compute the same.

    Args:
        op: The operation.
        local: Numbers of the values that are defined inside the outermost one, which is extended.
    """
    regions: list[Hashable] = []
    for region in op.regions:
        for block in region.blocks:
            for argument in block.arguments:
                local[argument] = len(local)
            types = tuple(argument.type for argument in block.arguments)
            inside: list[Hashable] = []
            for inner in block:
                inside.append(_key(inner, local))
                for result in inner.results:
                    local[result] = len(local)
            regions.append((types, tuple(inside)))
    return (
        op.name,
        tuple(local.get(value, value) for value in op.operands),
        tuple(result.type for result in op.results),
        frozenset(op.properties.items()),
        frozenset(op.attributes.items()),
        tuple(regions),
    )
