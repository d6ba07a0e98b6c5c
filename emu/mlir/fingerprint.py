"""Fingerprints of modules: digests that differ where modules differ.

Everything that a pass or a message can see is part of it: operations and their names, operands, types,
attributes and their order, regions, successors, locations, resources, and the order of uses, on which
propagation depends. Equal modules have the same fingerprint in every process: nothing of it depends on which
objects are shared.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from array import array
from dataclasses import fields
from functools import cache

from emu.mlir.diagnostics import Location
from emu.mlir.ir import Block, Operation, Value


def fingerprint(root: Operation) -> str:
    """Return 64 hexadecimal digits for an operation with all that it holds.

    Raises:
        ValueError: It uses a value or a block from outside.
    """
    found = _Numbers(root)
    try:
        for op in found.ops:
            found.add(op)
    except KeyError:
        raise ValueError(f"{root.name} uses a value or a block from outside") from None
    found.add_uses()
    digest = hashlib.sha256(array("q", found.row).tobytes())
    digest.update(_pickled([*found.pool, root.resources]))
    return digest.hexdigest()


def _pickled(parts: object) -> bytes:
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, 5)
    # Without references to what was pickled before: these depend on which equal objects are one.
    pickler.fast = True
    pickler.dump(parts)
    return buffer.getvalue()


class _Numbers:
    """A module as numbers: those of its values, blocks and operations, and of what is in a pool.

    Attributes:
        row: The numbers. Each list has its length before it.
        pool: Names, types, attributes and locations, each once, by their numbers.
        ops: The operations by their numbers.
    """

    def __init__(self, root: Operation) -> None:
        self.row: list[int] = []
        self.pool: dict[object, int] = {}
        self.ops = {op: number for number, op in enumerate(root.walk())}
        self._values: dict[Value, int] = {}
        self._blocks: dict[Block, int] = {}
        self._places: dict[int, int] = {}
        for op in self.ops:
            for result in op.results:
                self._values[result] = len(self._values)
            for region in op.regions:
                for block in region.blocks:
                    self._blocks[block] = len(self._blocks)
                    for argument in block.arguments:
                        self._values[argument] = len(self._values)

    def _number(self, part: object) -> int:
        return self.pool.setdefault(part, len(self.pool))

    def _place(self, location: Location) -> int:
        """Return the number of a location: equal ones are seldom the same object, and they are deep."""
        number = self._places.get(id(location))
        if number is None:
            parts: list[object] = [type(location).__name__]
            kind: type = type(
                location
            )  # as any class: mypy takes a Location's hash for its class's
            for name in _fields(kind):
                value = getattr(location, name)
                if isinstance(value, Location):
                    parts.append(self._place(value))
                elif isinstance(value, tuple):
                    parts.append(tuple(map(self._place, value)))
                else:
                    parts.append(value)
            number = self._places[id(location)] = self._number(tuple(parts))
        return number

    def add(self, op: Operation) -> None:
        """Add an operation, without those that it holds, which follow."""
        row, pool, values = self.row, self.pool, self._values
        row += (self._number(op.name), self._place(op.location), len(op._operands))
        row += [values[value] for value in op._operands]
        row.append(len(op.results))
        row += [self._number(result.type) for result in op.results]
        for entries in (op.properties, op.attributes):
            row.append(len(entries))
            for name, attribute in entries.items():
                row.append(pool.setdefault(name, len(pool)))
                row.append(pool.setdefault(attribute, len(pool)))
        row.append(len(op.successors))
        row += [self._blocks[block] for block in op.successors]
        row.append(len(op.regions))
        for region in op.regions:
            row.append(len(region.blocks))
            for block in region.blocks:
                row.append(len(block.arguments))
                for argument in block.arguments:
                    row += (self._number(argument.type), self._place(argument.location))
                row += (self._number_of(block.first), self._number_of(block.last))

    def _number_of(self, op: Operation | None) -> int:
        return -1 if op is None else self.ops[op]

    def add_uses(self) -> None:
        """Add the order of each value's uses; that of a single use follows from the operands."""
        for value, number in self._values.items():
            if len(value._uses) > 1:
                self.row += (number, len(value._uses))
                for op, index in value._uses:
                    self.row += (self.ops.get(op, -1), index)


@cache
def _fields(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))
