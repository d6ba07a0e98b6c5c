"""A function made ready to be planned: calls replaced by what they call, equal operations joined, dead ones erased."""

from __future__ import annotations

from emu.mlir.attributes import SymbolRefAttr
from emu.mlir.effects import is_trivially_dead
from emu.mlir.ir import Block, Operation, Value
from emu.mlir.types import TensorType
from emu.stablehlo.compiled.joining import join_equal_operations
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.scope import callee
from emu.stablehlo.syntax import array_of_ints, ints

_CALLS = {"func.call", "stablehlo.composite"}
_COMBINERS = {
    *("stablehlo.add", "stablehlo.maximum", "stablehlo.minimum", "stablehlo.multiply"),
    *("stablehlo.and", "stablehlo.or", "stablehlo.xor"),
}
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
    """Return a copy of a module whose function ``name`` has no calls, no equal and no dead operations.

    Functions that nothing calls any more are not in the copy.
    """
    copy = module.clone()
    main = find_function(copy, name)
    _Inliner(copy).inline(main.body())
    # Before barriers go: they keep apart what a program computes again to save memory.
    join_equal_operations(main.body())
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
        elif op.name == "stablehlo.reduce":
            _unroll_single(op)


def _pass_by_invariants(loop: Operation) -> None:
    """Let what a loop carries and never changes be used from around it."""
    blocks = [region.blocks[0] for region in loop.regions]
    returned = blocks[1].terminator.operands
    for index, start in enumerate(loop.operands):
        if returned[index] is blocks[1].arguments[index]:
            for value in (loop.results[index], blocks[0].arguments[index]):
                value.replace_all_uses_with(start)
            argument = blocks[1].arguments[index]
            for user, place in argument.uses:
                if user is not blocks[1].last or place != index:
                    user.set_operand(place, start)


def _unroll_single(op: Operation) -> None:
    """Replace a reduction of single elements by its combiner, applied to them once."""
    block = op.regions[0].blocks[0]
    only = block.first
    types = [v.type for v in (*op.operands, *op.results)]
    if len(types) != 3 or only is None or only.next_op is not block.last:
        return
    x, start, total = types
    static = all(isinstance(t, TensorType) and t.is_static for t in types)
    if not static or len(only.results) != 1 or only.regions:
        return
    assert isinstance(x, TensorType)
    assert isinstance(start, TensorType)
    assert isinstance(total, TensorType)
    sizes = [x.static_shape[d] for d in ints(op.properties["dimensions"])]
    alike = {v.type for v in (*block.arguments, only.result)} == {start}
    if (
        any(size != 1 for size in sizes)
        or not alike
        or not x.element == start.element == total.element
        or only.operands != tuple(block.arguments)
        or only.name not in _COMBINERS
        or block.terminator.operands != tuple(only.results)
    ):
        return
    home = op.parent
    assert home is not None
    at = op.location
    first = Operation(
        "stablehlo.broadcast_in_dim",
        [op.operands[1]],
        [total],
        properties={"broadcast_dimensions": array_of_ints(())},
        location=at,
    )
    second = Operation("stablehlo.reshape", [op.operands[0]], [total], location=at)
    combined = Operation(only.name, [first.result, second.result], [total], location=at)
    for each in (first, second, combined):
        home.insert_before(op, each)
    op.replace_with(combined.results)


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
