"""Names that values and blocks get when they are printed."""

from __future__ import annotations

import re

from emu.mlir.ir import Block, BlockArgument, Operation, Region, Value
from emu.mlir.registry import definition

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_$.\-]")


class Names:
    """Names of all values and blocks inside an operation.

    A region is numbered as a whole before the regions of its operations, which continue with the
    numbers that follow. In the generic form, numbers never repeat; in the pretty form, sibling
    regions use the same ones.

    Args:
        root: The outermost operation that is printed.
        generic: Whether it is printed in generic form.

    Attributes:
        values: Text of a value, ``%0`` or ``%1#0``.
        packs: Text before ``=`` of an operation with results.
        blocks: Text of a block, ``^bb0``.
    """

    def __init__(self, root: Operation, *, generic: bool) -> None:
        self.values: dict[Value, str] = {}
        self.packs: dict[Operation, str] = {}
        self.blocks: dict[Block, str] = {}
        self._generic = generic
        self._value = self._argument = self._conflict = 0
        self._used: dict[str, int] = {}
        self._scopes: list[list[str]] = [[]]
        self._number_op(root)
        # Each entry: a region, the counters of values, arguments and conflicts to start with, and the
        # number of open scopes.
        pending = [(r, 0, 0, 0, 1) for r in root.regions]
        if root.results:
            pending = [(r, self._value, 0, self._conflict, 1) for r in root.regions]
        while pending:
            region, value, argument, conflict, depth = pending.pop()
            if not generic:
                self._value, self._argument, self._conflict = value, argument, conflict
                while len(self._scopes) > depth:
                    for name in self._scopes.pop():
                        del self._used[name]
                self._scopes.append([])
            self._number_region(region)
            after = self._value, self._argument, self._conflict, depth + 1
            for block in region.blocks:
                op = block._first
                while op is not None:
                    for inner in op.regions:
                        pending.append((inner, *after))
                    op = op._next

    def _number_region(self, region: Region) -> None:
        parent = region.parent
        prefix = None
        if not self._generic and parent is not None:
            prefix = definition(parent.name).argument_name
        if prefix is not None and region.blocks:
            for argument in region.blocks[0].arguments:
                name = prefix if isinstance(prefix, str) else prefix(argument)
                if name is not None:
                    self.values[argument] = f"%{self._unique(name)}"
        for number, block in enumerate(region.blocks):
            self.blocks[block] = f"^bb{number}"
            for argument in block.arguments:
                if argument not in self.values:
                    self._number_argument(argument, entry=not number)
            op = block._first
            while op is not None:
                if op.results:
                    self._number_op(op)
                op = op._next

    def _number_argument(self, argument: BlockArgument, *, entry: bool) -> None:
        if entry:
            self.values[argument] = f"%{self._unique(f'arg{self._argument}')}"
            self._argument += 1
        else:
            self.values[argument] = f"%{self._value}"
            self._value += 1

    def _number_op(self, op: Operation) -> None:
        results = op.results
        if not results:
            return
        name = None
        if not self._generic:
            result_name = definition(op.name).result_name
            name = result_name(op) if result_name is not None else None
        if isinstance(name, tuple):
            for result, own in zip(results, name, strict=True):
                self.values[result] = f"%{self._unique(own)}"
            self.packs[op] = ", ".join([self.values[result] for result in results])
            return
        if name is None:
            text = f"%{self._value}"
            self._value += 1
        else:
            text = f"%{self._unique(name)}"
        if len(results) == 1:
            self.values[results[0]] = self.packs[op] = text
            return
        self.packs[op] = f"{text}:{len(results)}"
        for index, result in enumerate(results):
            self.values[result] = f"{text}#{index}"

    def _unique(self, name: str) -> str:
        if not name.isidentifier() or not name.isascii():  # most are
            name = _NOT_IN_NAMES.sub("_", name)
        # The counter is shared by all names, as in MLIR: %c, %c_0, %cst, %cst_1.
        if name in self._used:
            while True:
                probe = f"{name}_{self._conflict}"
                self._conflict += 1
                if probe not in self._used:
                    name = probe
                    break
        self._used[name] = 1
        self._scopes[-1].append(name)
        return name
