"""How often a loop runs, where its text says so.

Known are the loops that count: the condition compares a carried integer with a limit that does not
change, and the body adds a constant to it, as loops of ``jax.lax.scan`` and ``fori_loop`` do.
"""

from __future__ import annotations

from emu.mlir.attributes import DenseElementsAttr
from emu.mlir.dense import integer_values
from emu.mlir.ir import BlockArgument, Operation, OpResult, Value
from emu.mlir.types import IntegerType, TensorType
from emu.stablehlo.attributes import ComparisonDirection

_SAME = {"stablehlo.reshape", "stablehlo.optimization_barrier"}
_SWAPPED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "NE": "NE", "EQ": "EQ"}


def trip_count(loop: Operation) -> int | None:
    """Return how often the body of a ``stablehlo.while`` runs, or None."""
    condition, body = (region.blocks[0] for region in loop.regions)
    test = _definer(condition.terminator.operands[0])
    direction = test.properties.get("comparison_direction") if test is not None else None
    if test is None or not isinstance(direction, ComparisonDirection):
        return None
    word, (left, right) = direction.value, test.operands
    counter = _argument(left, loop)
    if counter is None or _constant(right) is None:
        counter, right, word = _argument(right, loop), left, _SWAPPED[word]
    if counter is None:
        return None
    start = _constant(loop.operands[counter])
    limit = _constant(right)
    step = _increment(body.terminator.operands[counter], loop, counter)
    if start is None or limit is None or not step:
        return None
    return _count(start, limit, step, word)


def _count(start: int, limit: int, step: int, direction: str) -> int | None:
    if direction in ("LE", "GE"):
        limit += 1 if direction == "LE" else -1
        direction = "LT" if direction == "LE" else "GT"
    distance = limit - start
    if direction == "NE":
        times, rest = divmod(distance, step)
        return times if not rest and times >= 0 else None
    if direction == "GT":
        distance, step = -distance, -step
    elif direction != "LT":
        return None
    if distance <= 0:
        return 0
    # A counter that goes the other way wraps around some time.
    return -(-distance // step) if step > 0 else None


def _definer(value: Value) -> Operation | None:
    """Return the operation that computes a value, without those that only pass it on."""
    while isinstance(value, OpResult) and value.owner.name in _SAME:
        value = value.owner.operands[value.index]
    return value.owner if isinstance(value, OpResult) else None


def _argument(value: Value, loop: Operation) -> int | None:
    """Return the number of the carried value that a value is, inside of its loop."""
    while isinstance(value, OpResult) and value.owner.name in _SAME:
        value = value.owner.operands[value.index]
    if isinstance(value, BlockArgument) and value.owner.parent_op is loop:
        return value.index
    return None


def _increment(value: Value, loop: Operation, counter: int) -> int | None:
    op = _definer(value)
    if op is None or op.name not in ("stablehlo.add", "stablehlo.subtract"):
        return None
    left, right = op.operands
    if op.name == "stablehlo.add" and _argument(left, loop) is None:
        left, right = right, left
    if _argument(left, loop) != counter:
        return None
    step = _constant(right)
    return -step if step is not None and op.name == "stablehlo.subtract" else step


def _constant(value: Value) -> int | None:
    """Return a scalar integer that never changes, or None."""
    while True:
        if isinstance(value, BlockArgument):
            carried = _carried_constant(value)
            if carried is None:
                return None
            value = carried
            continue
        op = _definer(value)
        if op is None:
            return None
        if op.name == "stablehlo.convert" and isinstance(_element(op.operands[0]), IntegerType):
            value = op.operands[0]
            continue
        return _number(op)


def _carried_constant(value: BlockArgument) -> Value | None:
    """Return what a loop starts with, for a carried value that its body does not change."""
    loop = value.owner.parent_op
    if loop is None or loop.name != "stablehlo.while":
        return None
    returned = loop.regions[1].blocks[0].terminator.operands[value.index]
    return loop.operands[value.index] if _argument(returned, loop) == value.index else None


def _element(value: Value) -> object:
    return value.type.element if isinstance(value.type, TensorType) else None


def _number(op: Operation) -> int | None:
    data = op.properties.get("value")
    if op.name not in ("stablehlo.constant", "sdy.constant"):
        return None
    type_ = op.result.type
    if not isinstance(data, DenseElementsAttr) or not isinstance(_element(op.result), IntegerType):
        return None
    return integer_values(data)[0] if isinstance(type_, TensorType) and type_.size == 1 else None
