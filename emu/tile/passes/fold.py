"""Constant folding and identities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emu.tile import ops
from emu.tile.ir import Module, Operation, Region, Value
from emu.tile.ops import Code
from emu.tile.passes.rewriter import Rewriter
from emu.tile.reference.elementwise import ELEMENTWISE, constant
from emu.tile.types import I1, DType, element_of


@dataclass(frozen=True)
class FoldConstants:
    """Replace constant expressions, and operations that return an operand.

    Floats are folded where every right implementation gives the same bits; results that are NaN stay
    computed. Neutral elements are left out of integer expressions alone. An IF with a constant condition
    becomes one of its regions, a FOR that does not run its initial values.
    """

    def apply(self, module: Module) -> Module:
        """Return the folded module."""
        with np.errstate(all="ignore"):
            return _Folder().module(module)


def value_of(value: Value) -> bool | float | None:
    """Return the number of a constant, or ``None``."""
    owner = value.owner
    if owner is None or owner.code is not Code.CONSTANT:
        return None
    number: bool | float = owner.attributes["value"]
    return number


class _Folder(Rewriter):
    def operation(self, operation: Operation) -> None:
        operands = self.mapped(operation.operands)
        found = _same(operation, operands)
        if found is not None:
            self.values[operation.result] = found
        elif operation.code is Code.IF and value_of(operands[0]) is not None:
            self._branch(operation, operation.regions[0 if value_of(operands[0]) else 1])
        elif operation.code is Code.FOR and _never(operands[:3]):
            self.values.update(zip(operation.results, operands[3:], strict=True))
        elif operation.code is Code.ASSERT and value_of(operands[0]):
            return
        else:
            self._computed(operation, operands)

    def _branch(self, operation: Operation, region: Region) -> None:
        for inner in region.operations[:-1]:
            self.operation(inner)
        given = self.mapped(region.terminator.operands)
        self.values.update(zip(operation.results, given, strict=True))

    def _computed(self, operation: Operation, operands: Sequence[Value]) -> None:
        """Append the operation, or the constant that it folds to."""
        number = _folded(operation, operands)
        if number is None:
            self.copy(operation, operands)
            return
        copy = Operation(Code.CONSTANT, (), [operation.result.type], {"value": number})
        copy.location = self.location(operation)
        copy.result.name = operation.result.name
        self.values[operation.result] = copy.result
        self.out.append(copy)


def _folded(operation: Operation, operands: Sequence[Value]) -> bool | float | None:
    if operation.code not in ops.EXACT and operation.code not in ops.UNIFORM_SHAPES:
        return None
    numbers = [value_of(v) for v in operands]
    if any(n is None for n in numbers):
        return None
    if operation.code in ops.UNIFORM_SHAPES:
        return numbers[0]
    if not all(isinstance(element_of(v.type), DType) for v in (*operands, operation.result)):
        return None
    # The reference computes it: so a program means the same whether it was folded or not.
    arrays = [constant(v.owner) for v in operands if v.owner is not None]
    result = ELEMENTWISE[operation.code](operation, *arrays)
    number = result.astype(np.float64) if operation.result.dtype.is_float else result
    found = number.item()
    # Which NaN comes out depends on the CPU and the operation.
    return None if isinstance(found, float) and math.isnan(found) else found


def _never(bounds: Sequence[Value]) -> bool:
    start, end, step = (value_of(v) for v in bounds)
    if start is None or end is None or not step:
        return False
    return bool(start >= end if step > 0 else start <= end)


_NEUTRAL_SECOND = {
    Code.ADD: 0,
    Code.SUB: 0,
    Code.MUL: 1,
    Code.DIV: 1,
    Code.OR: 0,
    Code.XOR: 0,
    Code.SHL: 0,
    Code.SHR: 0,
}
_NEUTRAL_FIRST = {Code.ADD: 0, Code.MUL: 1, Code.OR: 0, Code.XOR: 0}


def _same(operation: Operation, operands: Sequence[Value]) -> Value | None:
    """Return the operand to which an operation simplifies, if it does."""
    code = operation.code
    if code in (Code.RESHAPE, Code.BROADCAST, Code.CAST, Code.BITCAST):
        return operands[0] if operands[0].type == operation.result.type else None
    if code is Code.PERMUTE:
        order = operation.attributes["order"]
        return operands[0] if order == tuple(range(len(order))) else None
    if code is Code.PTR_ADD:
        return operands[0] if value_of(operands[1]) == 0 else None
    if code is Code.SELECT:
        return _selected(operands)
    # Not of floats: x + 0 changes -0, x * 0 is no 0 for NaN, and x * 1 quiets a signaling NaN.
    if code in ops.BINARY and not operation.result.dtype.is_float:
        return _neutral(code, operation.result.dtype, operands)
    return None


def _selected(operands: Sequence[Value]) -> Value | None:
    condition, first, second = operands
    if first is second:
        return first
    known = value_of(condition)
    if known is None:
        return None
    return first if known else second


def _neutral(code: Code, dtype: DType, operands: Sequence[Value]) -> Value | None:
    first, second = operands
    numbers = value_of(first), value_of(second)
    if code is Code.MUL and dtype == I1:
        code = Code.AND
    if code is Code.AND:
        return _masked(dtype, operands, numbers)
    if code is Code.MUL and 0 in numbers:
        return first if numbers[0] == 0 else second
    if numbers[1] is not None and _NEUTRAL_SECOND.get(code) == numbers[1]:
        return first
    if numbers[0] is not None and _NEUTRAL_FIRST.get(code) == numbers[0]:
        return second
    return second if code is Code.OR and dtype == I1 and numbers[1] else None


def _masked(
    dtype: DType, operands: Sequence[Value], numbers: tuple[float | None, float | None]
) -> Value | None:
    """Simplify AND with all bits, or with none."""
    all_bits = -1 if dtype.is_signed else 2**dtype.bits - 1
    for this, other, number in zip(operands, reversed(operands), numbers, strict=True):
        if number == all_bits:
            return other
        if number == 0 and number is not None:
            return this
    return None
