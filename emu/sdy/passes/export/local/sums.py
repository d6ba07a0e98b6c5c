"""Combination of partial results.

Shardy inserts an all-reduce, which adds, after every reduction of a sharded
dimension. For a maximum that is wrong: the devices' maxima must be combined by a
maximum. It is also wrong for a sum with an initial value other than zero, since
each device starts from it.
"""

from __future__ import annotations

from emu.mlir.attributes import DenseElementsAttr
from emu.mlir.floats import value_of
from emu.mlir.ir import Operation, OpResult, Value
from emu.mlir.types import FloatType, IntegerType, TensorType
from emu.sdy.passes.export.local.identities import identity

_REDUCING = frozenset({"stablehlo.reduce", "stablehlo.scatter"})
_COMBINERS = frozenset({"add", "and", "maximum", "minimum", "multiply", "or", "xor"})
_COUNTING = frozenset({"add", "multiply", "xor"})
_BOOLEAN = IntegerType(1)


def is_zero(constant: DenseElementsAttr) -> bool:
    """Return whether all elements are zero; False for complex ones, which are not decoded."""
    if not constant.splat or not isinstance(constant.type, TensorType):
        return False
    element = constant.type.element
    bits = int.from_bytes(constant.data, "little")
    if isinstance(element, FloatType):
        return value_of(bits, element.name) == 0
    return isinstance(element, IntegerType) and bits == 0


def reason_not_to_add(value: Value) -> str | None:
    """Return why adding partial results is wrong; None if no reason is known.

    Args:
        value: The partial result, with its local type.
    """
    if not isinstance(value, OpResult):
        return None
    op = value.owner
    if op.name not in _REDUCING:
        return None
    combiner = op.body().terminator.operands[value.index].defining_op
    name = "something else" if combiner is None else combiner.name
    of_booleans = isinstance(value.type, TensorType) and value.type.element == _BOOLEAN
    if name != "stablehlo.add" and not (name == "stablehlo.or" and of_booleans):
        return f"partial results of {op.name} by {name} are added up"
    if op.name == "stablehlo.reduce" and (start := _start(op, value.index)) is not None:
        return f"each partial sum starts from {start}"
    return None


def combining_operation(value: Value) -> str | None:
    """Return the StableHLO operation that combines partial results.

    Args:
        value: The partial result.

    Returns:
        Its name without the dialect; None if it takes more than one operation, or
        is unknown.
    """
    if not isinstance(value, OpResult) or value.owner.name not in _REDUCING:
        return None
    block = value.owner.body()
    count, index = len(value.owner.results), value.index
    combiner = block.terminator.operands[index].defining_op
    if combiner is None or combiner.dialect != "stablehlo":
        return None
    name = combiner.name.removeprefix("stablehlo.")
    pair = {block.arguments[index], block.arguments[count + index]}
    return name if name in _COMBINERS and set(combiner.operands) == pair else None


def counts_start(value: Value, name: str) -> bool:
    """Return whether the initial value of a reduction would count once for each partial result.

    Args:
        value: The partial result.
        name: The operation that combines partial results, without the dialect.
    """
    if not isinstance(value, OpResult) or value.owner.name != "stablehlo.reduce":
        return False
    if name not in _COUNTING or not isinstance(value.type, TensorType):
        return False
    if name == "add" and value.type.element == _BOOLEAN:
        return False
    start = value.owner.operands[len(value.owner.results) + value.index].defining_op
    constant = start.properties.get("value") if start is not None else None
    if not isinstance(constant, DenseElementsAttr):
        return True
    neutral = identity(name, value.type.element)
    if name == "add" and is_zero(constant):
        return False
    return neutral is None or constant.data != neutral.data


def _start(op: Operation, index: int) -> str | None:
    """Return the text of a reduction's constant initial value other than zero, or None."""
    start = op.operands[len(op.results) + index].defining_op
    constant = start.properties.get("value") if start is not None else None
    if not isinstance(constant, DenseElementsAttr) or is_zero(constant):
        return None
    if isinstance(constant.type, TensorType) and not isinstance(
        constant.type.element, (FloatType, IntegerType)
    ):
        return None
    return str(constant).partition(" : ")[0]
