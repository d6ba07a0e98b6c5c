"""Dead code elimination."""

from __future__ import annotations

from dataclasses import dataclass

from emu.tile import ops
from emu.tile.ir import Module, Operation, Region, Value
from emu.tile.ops import Code
from emu.tile.passes.rewriter import Rewriter


@dataclass(frozen=True)
class DeadCode:
    """Drop operations, carried values of loops and results of IF that nothing depends on.

    Functions that the kernel does not reach are dropped, too.
    """

    def apply(self, module: Module) -> Module:
        """Return the module without dead code."""
        reached: dict[str, None] = {}
        _reach(module, module.kernel.name, reached)
        kept = Module({n: f for n, f in module.functions.items() if n in reached})
        needed = _Needed(kept)
        return _Sweeper(needed).module(kept)


def _reach(module: Module, name: str, reached: dict[str, None]) -> None:
    reached[name] = None
    for operation in module.functions[name].body.walk():
        if operation.code is Code.CALL and operation.attributes["callee"] not in reached:
            _reach(module, operation.attributes["callee"], reached)


class _Needed:
    """Finder of what is needed, from effects backwards.

    Attributes:
        operations: Those that are needed.
        values: Those that are used by something needed; of FOR and IF, results and arguments.
    """

    def __init__(self, module: Module) -> None:
        self.operations: set[Operation] = set()
        self.values: set[Value] = set()
        self._parents: dict[Operation, Operation | None] = {}
        self._arguments: dict[Value, tuple[Operation, int]] = {}
        self._values: list[Value] = []
        for function in module.functions.values():
            self._index(function.body, None)
        for operation in self._parents:
            if operation.code in ops.EFFECTS:
                self._need(operation)
        while self._values:
            self._follow(self._values.pop())

    def _index(self, region: Region, parent: Operation | None) -> None:
        for operation in region.operations:
            self._parents[operation] = parent
            for inner in operation.regions:
                for number, argument in enumerate(inner.arguments):
                    self._arguments[argument] = (operation, number)
                self._index(inner, operation)

    def _use(self, *values: Value) -> None:
        for value in values:
            if value not in self.values:
                self.values.add(value)
                self._values.append(value)

    def _need(self, operation: Operation | None) -> None:
        """Mark an operation, those around it, and the operands that it needs in any case."""
        # A FOR needs its bounds, but what it carries value by value (``_follow``); an IF its condition. A WHILE is
        # needed as a whole: any of its values may decide when it ends.
        while operation is not None and operation not in self.operations:
            self.operations.add(operation)
            if operation.code is Code.FOR:
                self._use(*operation.operands[:3])
            else:
                self._use(*operation.operands)
            if operation.code not in (Code.FOR, Code.IF):
                for region in operation.regions:
                    self._need(region.terminator)
            operation = self._parents[operation]

    def _follow(self, value: Value) -> None:
        """Mark what a used value comes from."""
        owner, number = value.owner, -1
        if owner is not None:
            number = next(i for i, r in enumerate(owner.results) if r is value)
        elif value in self._arguments:
            owner, number = self._arguments[value]
            number -= owner.code is Code.FOR
        if owner is None:
            return
        self._need(owner)
        if owner.code is Code.FOR and number >= 0:
            region = owner.regions[0]
            # A carried value stands for four: initial, in the body, yielded, left behind. All or none are needed.
            self._use(owner.operands[3 + number], region.arguments[1 + number])
            self._use(owner.results[number], region.terminator.operands[number])
        elif owner.code is Code.IF:
            self._use(*(r.terminator.operands[number] for r in owner.regions))


class _Sweeper(Rewriter):
    """Rewriter that copies what is needed."""

    def __init__(self, needed: _Needed) -> None:
        super().__init__()
        self._needed = needed
        self._kept: list[list[int] | None] = []

    def operation(self, operation: Operation) -> None:
        if operation.code is Code.YIELD:
            self._yield(operation)
        elif operation not in self._needed.operations:
            return
        elif operation.code in (Code.FOR, Code.IF):
            self._some(operation)
        else:
            self._kept.append(None)
            super().operation(operation)
            self._kept.pop()

    def _yield(self, operation: Operation) -> None:
        kept = self._kept[-1]
        operands = list(operation.operands)
        if kept is not None:
            operands = [operands[i] for i in kept]
        self.append(operation, self.mapped(operands), ())

    def _some(self, operation: Operation) -> None:
        """Copy a FOR or an IF with only the results that are needed."""
        results = operation.results
        kept = [i for i, r in enumerate(results) if r in self._needed.values]
        self._kept.append(kept)
        operands, regions = list(operation.operands), list(operation.regions)
        if operation.code is Code.FOR:
            index, *carried = regions[0].arguments
            operands = operands[:3] + [operands[3 + i] for i in kept]
            regions = [Region([index, *(carried[i] for i in kept)], regions[0].operations)]
        given = self.mapped(operands)
        copies = [self.region(r) for r in regions]
        self.append(operation, given, [results[i] for i in kept], copies)
        self._kept.pop()
