"""Splitting of constants and broadcasts of scalars: one copy per use.

Two uses of a constant are unrelated, yet propagation would carry a sharding from
one through the constant to the other. So each use gets a copy of the whole
computation that leads from constants to it. Scalars are not copied, since they
cannot be sharded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from emu.mlir.attributes import StringAttr
from emu.mlir.effects import is_effect_free
from emu.mlir.ir import Operation, OpResult, Region, Value
from emu.mlir.registry import definition
from emu.mlir.symbols import SymbolTable
from emu.sdy.dialect.functions import (
    callee_name,
    clone_function_recursively,
    find_function,
    iterate_funcs,
    original_func_name,
)
from emu.sdy.dialect.tensors import is_scalar
from emu.sdy.passes.base import ModulePass, Session
from emu.sdy.passes.import_.calls import set_callee
from emu.sdy.rules import is_elementwise

_BROADCAST = "stablehlo.broadcast_in_dim"
_MOVING = frozenset((_BROADCAST, "stablehlo.reshape", "stablehlo.slice"))
_SOURCES = frozenset(("sdy.constant", "stablehlo.iota"))
_GROUP = "sdy.sharding_group"
_NAMED = "sdy.named_computation"


class ConstantOrScalarSplitter(ModulePass, name="sdy-constant-or-scalar-splitter"):
    """Copy computations of constants, and broadcasts of scalars, for each use.

    Such a computation starts at constants and iotas and continues through pure
    elementwise operations, broadcasts, reshapes and slices, and through named
    computations and calls that contain nothing else. ``stablehlo.constant`` becomes
    ``sdy.constant``, which is never folded.
    """

    def run(self, op: Operation, session: Session) -> None:
        """Split the constants of a module."""
        for each in op.walk():
            if each.name == "stablehlo.constant":
                _to_sdy_constant(each)
        splitter = _Splitter(SymbolTable(op))
        for function in list(iterate_funcs(op)):
            for named in [f for f in function.walk(post_order=True) if f.name == _NAMED]:
                splitter.split(named.regions[0], function)
            splitter.split(function.regions[0], function)


def _to_sdy_constant(constant: Operation) -> None:
    new = Operation(
        "sdy.constant",
        (),
        [result.type for result in constant.results],
        properties=constant.properties,
        attributes=constant.attributes,
        location=constant.location,
    )
    assert constant.parent is not None  # found inside the module
    constant.parent.insert_before(constant, new)
    constant.replace_with(new.results)


@dataclass(slots=True)
class _Found:
    """Operations found in a region, in order (dicts serve as ordered sets)."""

    constants: dict[Operation, None] = field(default_factory=dict)
    expansions: dict[Operation, None] = field(default_factory=dict)

    def is_split(self, op: Operation) -> bool:
        return op in self.constants or op in self.expansions


class _Splitter:
    """A splitter of one region after the other that caches which computations are not constant."""

    def __init__(self, table: SymbolTable) -> None:
        self._table = table
        self._varying_names: set[str] = set()
        self._varying_functions: set[str] = set()

    def split(self, region: Region, function: Operation) -> None:
        """Split the constants used in a region, without the bodies of named computations."""
        found = _Found()
        for op in _walk_outside_named(region):
            self._visit(op, function, found)
        # Every use outside has its copy now; erase users before the values they use.
        _erase_unused(chain(found.expansions, reversed(found.constants)))

    def _visit(self, op: Operation, function: Operation, found: _Found) -> None:
        if op.name in ("func.func", _GROUP):
            return
        if self._is_constant(op, found):
            found.constants[op] = None
            return
        if not self._preserves_constants(op) and not definition(op.name).terminator:
            named = op.ancestor(_NAMED)
            if named is not None:
                self._varying_names.add(_name_of(named))
            self._varying_functions.add(original_func_name(function))
        if op.name == _BROADCAST and is_scalar(op.operands[0]):
            found.expansions[op] = None
            return
        for index, value in enumerate(op.operands):
            if isinstance(value, OpResult) and found.is_split(value.owner):
                op.set_operand(index, self._copy(value))

    def _is_constant(self, op: Operation, found: _Found) -> bool:
        """Return whether an operation is a constant, or an expression of constants only."""
        if op.name in _SOURCES:
            return True
        return self._preserves_constants(op) and all(
            value.defining_op is not None and value.defining_op in found.constants
            for value in op.operands
        )

    def _preserves_constants(self, op: Operation) -> bool:
        if op.name == "func.call":
            callee = find_function(self._table, callee_name(op))
            return original_func_name(callee) not in self._varying_functions
        if op.name == _NAMED:
            return _name_of(op) not in self._varying_names
        return is_effect_free(op) and (op.name in _MOVING or is_elementwise(op))

    def _copy(self, value: OpResult) -> Value:
        """Return a copy of ``value``, with copies of the operations that lead to it."""
        if is_scalar(value):
            return value
        mapping: dict[Value, Value] = {}
        stack = [(value, False)]
        while stack:
            result, operands_done = stack.pop()
            if result in mapping or is_scalar(result):
                continue
            op = result.owner
            if not operands_done:
                stack.append((result, True))
                stack.extend(
                    (operand, False)
                    for operand in reversed(op.operands)
                    if isinstance(operand, OpResult)
                )
                continue
            self._copy_op(op, result, mapping)
        return mapping[value]

    def _copy_op(self, op: Operation, result: OpResult, mapping: dict[Value, Value]) -> None:
        block = op.parent
        assert block is not None  # the copied operation is in the region
        copy = block.insert_before(op, op.clone(mapping))
        if copy.name == "func.call":
            callee = find_function(self._table, callee_name(copy))
            set_callee(copy, self._table.insert(clone_function_recursively(callee, self._table)))
        for user in result.users:
            if user.name == _GROUP:
                block.insert_before(op, user.clone(mapping))


def _name_of(named: Operation) -> str:
    name = named.properties["name"]
    assert isinstance(name, StringAttr)  # checked by the verifier
    return name.value


def _walk_outside_named(region: Region) -> Iterator[Operation]:
    """Yield the operations of a region, outer first, without named computations' bodies."""
    stack = [iter(block) for block in reversed(region.blocks)]
    while stack:
        op = next(stack[-1], None)
        if op is None:
            stack.pop()
            continue
        yield op
        if op.name != _NAMED:
            blocks = [block for inner in op.regions for block in inner.blocks]
            stack.extend(iter(block) for block in reversed(blocks))


def _erase_unused(ops: Iterable[Operation]) -> None:
    """Erase operations that only sharding groups use, if any, together with these groups."""
    for op in ops:
        users = [user for result in op.results for user in result.users]
        if all(user.name == _GROUP for user in users):
            for user in users:
                user.erase()
            op.erase()
