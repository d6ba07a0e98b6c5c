"""Operations as flat tables: what pickle writes.

A linked list pickled as it stands recurses once per operation. Here a module
becomes a tuple of rows in which values, blocks and operations are numbers.
"""

from __future__ import annotations

from typing import Any

from emu.sdy.mlir.ir import Block, Operation, Region, Value

__all__ = ["flatten", "restore"]

_Row = tuple[Any, ...]


def flatten(root: Operation) -> tuple[_Row, ...]:
    """The rows of an operation and of all that it holds.

    Raises:
        ValueError: It uses a value from outside.
    """
    values: dict[Value, int] = {}
    blocks: dict[Block, int] = {}
    ops = list(root.walk())
    for op in ops:
        for result in op.results:
            values[result] = len(values)
        for region in op.regions:
            for block in region.blocks:
                blocks[block] = len(blocks)
                for argument in block.arguments:
                    values[argument] = len(values)
    rows: list[_Row] = []
    for op in ops:
        regions = [
            [[(a.type, a.location) for a in block.arguments] for block in region.blocks]
            for region in op.regions
        ]
        home = -1 if op is root or op.parent is None else blocks[op.parent]
        try:
            operands = [values[v] for v in op._operands]
        except KeyError:
            raise ValueError(f"{op.name} uses a value from outside of {root.name}") from None
        rows.append(
            (
                op.name,
                home,
                operands,
                [r.type for r in op.results],
                op.properties,
                op.attributes,
                regions,
                [blocks[s] for s in op.successors],
                op.location,
            )
        )
    uses = (
        [[(index[op], i) for op, i in v._uses] for v in values]
        if (index := {op: n for n, op in enumerate(ops)})
        else []
    )
    return (*rows, tuple(uses))


def restore(table: tuple[_Row, ...]) -> Operation:
    """The operation that a table was made of; the order of uses included."""
    *rows, uses = table
    values: list[Value] = []
    blocks: list[Block] = []
    ops: list[Operation] = []
    for name, home, _, types, properties, attributes, regions, _, location in rows:
        op = Operation(
            name, (), types, properties=properties, attributes=attributes, location=location
        )
        ops.append(op)
        values.extend(op.results)
        for contents in regions:
            region = op.add_region(Region())
            for arguments in contents:
                block = region.add_block()
                blocks.append(block)
                values.extend(block.add_argument(*argument) for argument in arguments)
        if home >= 0:
            blocks[home].append(op)
    for op, row in zip(ops, rows, strict=True):
        op._operands = [values[number] for number in row[2]]
        op.successors = [blocks[number] for number in row[7]]
    for value, entries in zip(values, uses, strict=True):
        value._uses = {(ops[number], index): None for number, index in entries}
    return ops[0]
