"""Pickled form of operations: flat tables.

A linked list pickled as it stands recurses once per operation. Here a module becomes a table of
rows in which values, blocks and operations are numbers. File locations, which are many and all
different, are plain tuples, since pickle is slow with objects. The order of each value's uses is
kept. Importing the module makes operations picklable.
"""

from __future__ import annotations

import copyreg
import pickle
from typing import Any

from emu.mlir.attributes import Attribute
from emu.mlir.diagnostics import FileLoc, Location
from emu.mlir.gc_pause import paused_collection
from emu.mlir.ir import Block, Operation, Region, Value

_Row = tuple[Any, ...]
_Named = dict[str, Attribute]


def _pack(location: Location) -> Any:
    if type(location) is FileLoc:
        return (
            location.file,
            location.line,
            location.column,
            location.end_line,
            location.end_column,
        )
    return location


def _unpack(packed: Any) -> Location:
    return FileLoc(*packed) if type(packed) is tuple else packed


def flatten(root: Operation) -> bytes:
    """Pickle an operation with all that it holds, as a table.

    Raises:
        ValueError: It uses a value or a block from outside.
    """
    with paused_collection():
        return pickle.dumps(_flatten(root), pickle.HIGHEST_PROTOCOL)


def _flatten(root: Operation) -> tuple[list[_Row], dict[int, list[int]], str | None]:
    values: dict[Value, int] = {}
    blocks: dict[Block, int] = {}
    ops = {op: number for number, op in enumerate(root.walk())}
    for op in ops:
        for result in op.results:
            values[result] = len(values)
        for region in op.regions:
            for block in region.blocks:
                blocks[block] = len(blocks)
                for argument in block.arguments:
                    values[argument] = len(values)
    # Equal attributes are written once.
    pool: dict[Attribute, Attribute] = {}

    def shared(entries: _Named) -> _Named | None:
        return {name: pool.setdefault(each, each) for name, each in entries.items()} or None

    try:
        rows = [
            (*_row(op, values, blocks, op is root), shared(op.properties), shared(op.attributes))
            for op in ops
        ]
    except KeyError:
        raise ValueError(f"{root.name} uses a value or a block from outside") from None
    # The order of a single use follows from the operands.
    order = {
        number: [entry for op, index in value._uses if op in ops for entry in (ops[op], index)]
        for value, number in values.items()
        if len(value._uses) > 1
    }
    return rows, order, root.resources


def _row(op: Operation, values: dict[Value, int], blocks: dict[Block, int], top: bool) -> _Row:
    return (
        op.name,
        -1 if top or op.parent is None else blocks[op.parent],
        [values[v] for v in op._operands],
        [r.type for r in op.results],
        [
            [[(a.type, _pack(a.location)) for a in block.arguments] for block in region.blocks]
            for region in op.regions
        ]
        or None,
        [blocks[s] for s in op.successors] or None,
        _pack(op.location),
    )


def restore(table: bytes) -> Operation:
    """Make the operation from its pickled table."""
    with paused_collection():
        return _restore(*pickle.loads(table))


def _restore(rows: list[_Row], order: dict[int, list[int]], resources: str | None) -> Operation:
    values: list[Value] = []
    blocks: list[Block] = []
    ops: list[Operation] = []
    for name, home, _, types, regions, _, location, properties, attributes in rows:
        op = Operation(
            name,
            (),
            types,
            properties=properties,
            attributes=attributes,
            location=_unpack(location),
        )
        ops.append(op)
        values.extend(op.results)
        for contents in regions or ():
            region = op.add_region(Region())
            for arguments in contents:
                block = region.add_block()
                blocks.append(block)
                values.extend(block.add_argument(t, _unpack(place)) for t, place in arguments)
        if home >= 0:
            blocks[home].append(op)
    for op, row in zip(ops, rows, strict=True):
        op._operands = [values[number] for number in row[2]]
        op.successors = tuple([blocks[number] for number in row[5] or ()])
        for index, value in enumerate(op._operands):
            value._uses[op, index] = None
    for number, flat in order.items():
        pairs = zip(flat[::2], flat[1::2], strict=True)
        values[number]._uses = {(ops[op], index): None for op, index in pairs}
    ops[0].resources = resources
    return ops[0]


def _reduce(op: Operation) -> tuple[Any, ...]:
    return restore, (flatten(op),)


copyreg.pickle(Operation, _reduce)
