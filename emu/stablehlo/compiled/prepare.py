"""A function made ready to be planned: calls replaced by what they call, dead operations erased."""

from __future__ import annotations

from emu.mlir.attributes import SymbolRefAttr
from emu.mlir.effects import is_trivially_dead
from emu.mlir.ir import Block, Operation, Value
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.scope import callee

_CALLS = {"func.call", "stablehlo.composite"}
_MOST_INLINED = 200_000
"""Operations that inlining may add; calls beyond stay calls."""


def find_function(module: Operation, name: str) -> Operation:
    """Return a function of a module that has a body."""
    for op in module.body():
        if op.name == "func.func" and op.symbol_name == name:
            if op.regions and op.regions[0].blocks:
                return op
            break
    raise EvaluationError(f"there is no function @{name} with a body")


def prepared(module: Operation, name: str) -> Operation:
    """Return a copy of a module whose function ``name`` has no calls and no dead operations.

    Functions that nothing calls any more are not in the copy.
    """
    copy = module.clone()
    main = find_function(copy, name)
    _Inliner(copy).inline(main.body())
    _simplify(main)
    _erase_dead(main)
    _erase_uncalled(copy, main)
    return copy


class _Inliner:
    """Replaces calls by the operations of the functions that they call."""

    def __init__(self, module: Operation) -> None:
        self._functions = {
            op.symbol_name: op
            for op in module.body()
            if op.name == "func.func" and op.regions and op.regions[0].blocks
        }
        self._left = _MOST_INLINED
        self._active: list[str] = []

    def inline(self, block: Block) -> None:
        """Inline all calls in a block and in the regions of its operations."""
        for op in block.operations:
            if op.name in _CALLS:
                self._replace(op)
                continue
            for region in op.regions:
                for inner in region.blocks:
                    self.inline(inner)

    def _replace(self, call: Operation) -> None:
        name = callee(call)
        function = self._functions.get(name)
        if function is None or name in self._active or len(function.regions[0].blocks) > 1:
            return
        body = function.body()
        size = sum(1 for _ in function.walk())
        if size > self._left:
            return
        self._left -= size
        mapping: dict[Value, Value] = dict(zip(body.arguments, call.operands, strict=True))
        home = call.parent
        assert home is not None
        added = []
        for op in body:
            if op is body.last:
                break
            copy = op.clone(mapping)
            home.insert_before(call, copy)
            added.append(copy)
        returned = [mapping.get(v, v) for v in body.terminator.operands]
        call.replace_with(returned)
        self._active.append(name)
        for op in added:
            if op.name in _CALLS:
                self._replace(op)
            else:
                for region in op.regions:
                    for inner in region.blocks:
                        self.inline(inner)
        self._active.pop()


def _simplify(main: Operation) -> None:
    """Erase barriers and conversions to the same type: their results are their operands."""
    for op in list(main.walk(post_order=True)):
        if op.name == "stablehlo.optimization_barrier":
            op.replace_with(op.operands)
        elif op.name in ("stablehlo.convert", "stablehlo.reshape") and len(op.operands) == 1:
            if op.operands[0].type == op.result.type:
                op.replace_with(op.operands)
        elif op.name == "stablehlo.while":
            _pass_by_invariants(op)


def _pass_by_invariants(loop: Operation) -> None:
    """Let what a loop carries and never changes be used from around it."""
    blocks = [region.blocks[0] for region in loop.regions]
    returned = blocks[1].terminator.operands
    for index, start in enumerate(loop.operands):
        if returned[index] is blocks[1].arguments[index]:
            for value in (loop.results[index], blocks[0].arguments[index]):
                value.replace_all_uses_with(start)
            argument = blocks[1].arguments[index]
            last = blocks[1].last
            argument.replace_uses_where(
                start, lambda op, place, last=last, index=index: not (op is last and place == index)
            )


def _erase_dead(main: Operation) -> None:
    """Erase operations whose results nothing uses, the last ones first."""
    for block in list(main.walk_blocks()):
        for op in reversed(block.operations):
            if is_trivially_dead(op):
                op.erase()


def _erase_uncalled(module: Operation, main: Operation) -> None:
    """Erase functions that neither ``main`` nor what it calls names."""
    functions = {op.symbol_name: op for op in module.body() if op.name == "func.func"}
    pending, called = [main], {main.symbol_name}
    while pending:
        for op in pending.pop().walk():
            for attribute in (*op.properties.values(), *op.attributes.values()):
                name = attribute.root if isinstance(attribute, SymbolRefAttr) else None
                if name in functions and name not in called:
                    called.add(name)
                    pending.append(functions[name])
    # Symbols in nested attributes (tables of programs) are not looked for: keep all there.
    if any(op.dialect not in ("stablehlo", "chlo", "func") for op in main.walk() if op is not main):
        return
    for name, op in functions.items():
        if name not in called:
            op.erase()
