"""Refinement of a module whose main function takes tensors of dynamic shapes.

The sizes of the arguments decide those of all values, in program order: an operation's results have the sizes that
follow from its operands, and one that takes a shape as an operand becomes one that does not, once the
operand is known. So integers are computed on the way: dimension sizes, what is made of them, and what loops and calls
pass on. A function is cloned for each set of types and known integers that it is called with.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emu.mlir.attributes import StringAttr, SymbolRefAttr, TypeAttr
from emu.mlir.effects import is_trivially_dead
from emu.mlir.ir import Block, Operation, Region, Value
from emu.mlir.symbols import SymbolTable
from emu.mlir.types import FunctionType, IntegerType, TensorType, Type
from emu.sdy.dialect.attributes import ManualAxes, TensorShardingPerValue
from emu.sdy.dialect.functions import find_function, function_type
from emu.sdy.dialect.meshes import find_mesh
from emu.sdy.passes.shapes.errors import CannotRefine
from emu.sdy.passes.shapes.inference import infer, merged
from emu.sdy.passes.shapes.static import to_static
from emu.stablehlo.reference.devices import SingleDevice
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.scope import HANDLERS, Program, Scope
from emu.stablehlo.reference.values import Array

_MOST_ELEMENTS = 1024
_ASSERTION = "shape_assertion"
_RETURNS = {"func.return", "stablehlo.return", "sdy.return"}


def refine_shapes(module: Operation, main: Operation, types: Sequence[Type]) -> None:
    """Refine a module in place for types of its main function's arguments.

    Args:
        module: The module.
        main: Its main function.
        types: The type of each argument; sizes that are written stay.

    Raises:
        CannotRefine: A type does not fit, a shape assertion fails, or a shape depends on more than
            the arguments' shapes.
    """
    written = function_type(main).inputs
    if len(types) != len(written):
        raise CannotRefine(f"the program takes {len(written)} inputs, but got {len(types)}")
    for index, (old, new) in enumerate(zip(written, types, strict=True)):
        _check_argument(index, old, new)
    _Refinement(module).main(main, types)
    for op in module.walk():
        for value in op.results:
            if isinstance(value.type, TensorType) and not value.type.is_static:
                raise CannotRefine(
                    f"{op.name} gives {value.type}: its shape depends on more than the shapes of the "
                    "program's inputs",
                    op.location,
                )


def _check_argument(index: int, old: Type, new: Type) -> None:
    if not isinstance(old, TensorType):
        return
    fits = isinstance(new, TensorType) and new.is_static and new.rank == old.rank
    if fits and isinstance(new, TensorType):
        pairs = zip(old.shape, new.static_shape, strict=True)
        fits = all(a in (None, b) for a, b in pairs)
        for dim, (bound, size) in enumerate(zip(_bounds(old), new.static_shape, strict=False)):
            if bound is not None and size > bound:
                raise CannotRefine(
                    f"input {index} must have at most {bound} elements in dimension {dim}, but has {size}"
                )
    if not fits:
        raise CannotRefine(f"input {index} must be {old}, but is {new}")


def _bounds(type_: TensorType) -> Sequence[int | None]:
    bounds = getattr(type_.encoding, "bounds", ())
    return bounds if isinstance(bounds, tuple) else ()


class _Refinement:
    """A module under refinement."""

    def __init__(self, module: Operation) -> None:
        self._table = SymbolTable(module)
        self._known: dict[Value, Array] = {}
        self._scope = Scope(Program(module, SingleDevice(), {}))
        self._made: dict[object, Operation] = {}
        self._open: set[str] = set()

    def main(self, main: Operation, types: Sequence[Type]) -> None:
        originals = [op for op in self._table if op.name == "func.func" and op is not main]
        self._function(main, types, [None] * len(types))
        called = {
            reference.root
            for function in (main, *self._made.values())
            for op in function.walk()
            for reference in (*op.properties.values(), *op.attributes.values())
            if isinstance(reference, SymbolRefAttr)
        }
        for op in originals:
            if op.symbol_name not in called and _is_private(op):
                self._table.erase(op)

    # Functions and blocks

    def _function(
        self, function: Operation, types: Sequence[Type], known: Sequence[Array | None]
    ) -> None:
        """Refine a function."""
        results = tuple(self._block(function.body(), types, known))
        kinds = FunctionType(tuple(a.type for a in function.body().arguments), results)
        function.properties["function_type"] = TypeAttr(kinds)

    def _block(
        self, block: Block, types: Sequence[Type], known: Sequence[Array | None] = ()
    ) -> list[Type]:
        """Refine a block; return the types that it returns."""
        for argument, type_ in zip(block.arguments, types, strict=True):
            if argument.type != type_:
                argument.change_type(type_)
        for argument, value in zip(block.arguments, known, strict=False):
            if value is not None:
                self._known[argument] = value
        for op in list(block):
            if op.name not in _RETURNS:
                self._operation(op)
        for op in reversed(list(block)):
            if is_trivially_dead(op):  # what computed shapes
                op.erase()
        return [value.type for value in block.terminator.operands]

    def _call(self, op: Operation, key: str) -> None:
        """Make an operation call a clone of its function for its operands."""
        reference = op.properties[key]
        assert isinstance(reference, (SymbolRefAttr, StringAttr))
        name = reference.root if isinstance(reference, SymbolRefAttr) else reference.value
        types = tuple(value.type for value in op.operands)
        known = [self._known.get(value) for value in op.operands]
        texts = tuple(None if x is None else (x.dtype.str, x.shape, x.tobytes()) for x in known)
        made = self._made.get((name, types, texts))
        if made is None:
            if name in self._open:
                raise CannotRefine(f"@{name} calls itself", op.location)
            made = self._made[name, types, texts] = find_function(self._table, name).clone()
            self._table.insert(made)
            self._open.add(name)
            self._function(made, types, known)
            self._open.discard(name)
        is_symbol, new_name = isinstance(reference, SymbolRefAttr), made.symbol_name or ""
        op.properties[key] = SymbolRefAttr(new_name) if is_symbol else StringAttr(new_name)
        self._set_types(op, function_type(made).results)
        self._pass_on(made.body(), op)

    def _pass_on(self, block: Block, op: Operation) -> None:
        """Note what is known of the results of an operation that returns what a block does."""
        for result, value in zip(op.results, block.terminator.operands, strict=True):
            if value in self._known:
                self._known[result] = self._known[value]

    # Operations

    def _operation(self, op: Operation) -> None:
        if self._is_assertion(op):
            return
        op = to_static(op, self._integers)
        if op.name == "func.call":
            self._call(op, "callee")
        elif op.name == "stablehlo.composite":
            self._call(op, "decomposition")
        elif op.name == "stablehlo.while":
            self._while(op)
        elif op.name in ("stablehlo.if", "stablehlo.case"):
            self._branches(op)
        elif op.name == "sdy.manual_computation":
            self._manual_computation(op)
        elif op.name == "sdy.named_computation":
            known = [self._known.get(value) for value in op.operands]
            self._set_types(op, self._block(op.body(), [v.type for v in op.operands], known))
            self._pass_on(op.body(), op)
        else:
            self._set_types(op, infer(op))
        self._evaluate(op)

    def _set_types(self, op: Operation, types: Sequence[Type]) -> None:
        for result, type_ in zip(op.results, types, strict=True):
            shape = type_.shape if isinstance(type_, TensorType) else None
            new = merged(op, result.type, shape)
            if new != result.type:
                result.change_type(new)

    def _branches(self, op: Operation) -> None:
        types = [self._block(region.blocks[0], ()) for region in op.regions]
        self._set_types(op, types[0])
        chosen = self._integers(op.operands[0])
        if chosen is not None:
            last = len(op.regions) - 1
            index = chosen[0] if 0 <= chosen[0] <= last else last
            if op.name == "stablehlo.if":
                index = 0 if chosen[0] else 1
            self._pass_on(op.regions[index].blocks[0], op)

    def _while(self, op: Operation) -> None:
        types = [value.type for value in op.operands]
        body = op.regions[1].blocks[0]
        returned = body.terminator.operands
        # What a loop hands on unchanged is known in all its iterations.
        known = [
            self._known.get(value) if returned[index] is body.arguments[index] else None
            for index, value in enumerate(op.operands)
        ]
        for region in op.regions:
            self._block(region.blocks[0], types, known)
        self._set_types(op, types)
        for result, value in zip(op.results, known, strict=True):
            if value is not None:
                self._known[result] = value

    def _manual_computation(self, op: Operation) -> None:
        ins, outs, axes = (
            op.properties[key] for key in ("in_shardings", "out_shardings", "manual_axes")
        )
        assert isinstance(ins, TensorShardingPerValue)
        assert isinstance(outs, TensorShardingPerValue)
        assert isinstance(axes, ManualAxes)
        types = [
            self._scaled(op, value.type, ins, index, axes, divide=True)
            for index, value in enumerate(op.operands)
        ]
        # What is not cut is the same inside.
        known = [
            self._known.get(value) if value.type == type_ else None
            for value, type_ in zip(op.operands, types, strict=True)
        ]
        results = self._block(op.body(), types, known)
        self._set_types(
            op,
            [
                self._scaled(op, type_, outs, index, axes, divide=False)
                for index, type_ in enumerate(results)
            ],
        )

    def _scaled(
        self,
        op: Operation,
        type_: Type,
        shardings: TensorShardingPerValue,
        index: int,
        manual: ManualAxes,
        *,
        divide: bool,
    ) -> Type:
        """Return a type inside of a manual computation for one outside, or the other way."""
        if not isinstance(type_, TensorType):
            return type_
        sharding = shardings.shardings[index]
        mesh = find_mesh(self._table, sharding.mesh)
        shape = list(type_.shape)
        for dim, each in enumerate(sharding.dims):
            size, count = shape[dim], 1
            for axis in each.axes:
                if mesh is not None and axis.name in manual.axes:
                    count *= axis.size(mesh)
            if size is None:
                continue
            if divide and size % count:
                raise CannotRefine(
                    f"dimension {dim} of operand {index} has {size} elements, which the {count} shards "
                    "of a manual computation do not divide",
                    op.location,
                )
            shape[dim] = size // count if divide else size * count
        return TensorType(tuple(shape), type_.element)

    # Known integers

    def _integers(self, value: Value) -> list[int] | None:
        found = self._known.get(value)
        return None if found is None else [int(x) for x in found.ravel()]

    def _evaluate(self, op: Operation) -> None:
        """Compute an operation's results if they are integers, and its operands are known."""
        handler = HANDLERS.get(op.name)
        if handler is None or op.dialect != "stablehlo" or not op.results:
            return
        if not all(map(_is_small, op.results)) or any(v not in self._known for v in op.operands):
            return
        if op.name in _IMPURE or any(map(_has_blocks, op.regions)):
            return
        try:
            with np.errstate(all="ignore"):
                found = handler(op, [self._known[value] for value in op.operands], self._scope)
        except EvaluationError:
            return
        self._known.update(zip(op.results, map(np.asarray, found), strict=True))

    def _is_assertion(self, op: Operation) -> bool:
        """Check a shape assertion and erase it; return whether an operation is one that was checked."""
        if op.name != "stablehlo.custom_call":
            return False
        target = op.properties.get("call_target_name")
        if not isinstance(target, StringAttr) or target.value != _ASSERTION or not op.operands:
            return False
        condition = self._integers(op.operands[0])
        if condition is None:
            raise CannotRefine(
                "a shape assertion depends on more than the shapes of the program's inputs",
                op.location,
            )
        if not all(condition):
            message = op.attribute("error_message")
            text = message.value if isinstance(message, StringAttr) else "a shape assertion fails"
            for index, value in enumerate(op.operands[1:]):
                found = self._integers(value)
                if found:
                    text = text.replace(f"{{{index}}}", str(found[0]))
            raise CannotRefine(text, op.location)
        op.erase()
        return True


_IMPURE = {
    *("stablehlo.partition_id", "stablehlo.replica_id", "stablehlo.rng", "stablehlo.infeed"),
    *("stablehlo.recv", "stablehlo.custom_call", "stablehlo.rng_bit_generator"),
    *("stablehlo.all_gather", "stablehlo.all_to_all", "stablehlo.collective_permute"),
    "stablehlo.collective_broadcast",
}


def _has_blocks(region: Region) -> bool:
    return bool(region.blocks)


def _is_small(value: Value) -> bool:
    """Return whether a value is a tensor of few integers."""
    type_ = value.type
    if not isinstance(type_, TensorType) or not type_.is_static:
        return False
    count = 1
    for size in type_.static_shape:
        count *= size
    return isinstance(type_.element, IntegerType) and count <= _MOST_ELEMENTS


def _is_private(function: Operation) -> bool:
    visibility = function.properties.get("sym_visibility")
    return isinstance(visibility, StringAttr) and visibility.value == "private"
