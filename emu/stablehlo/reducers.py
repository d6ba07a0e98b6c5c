"""Checks of the regions that combine values: of reductions, scatters and collectives."""

from __future__ import annotations

from collections.abc import Iterable

from emu.mlir.ir import Operation, Value
from emu.mlir.types import FloatType, TensorType, Type
from emu.stablehlo.checks import Invalid, compatible_shapes, tensor
from emu.stablehlo.traits import has_same_elements


def accumulators(op: Operation, region: int, inputs: Iterable[Value]) -> list[Type]:
    """Return the element type of each accumulator: the body's result, else the input's."""
    last = op.body(region).last
    return [tensor(value.type).element for value in (inputs if last is None else last.operands)]


def check_reducer(op: Operation) -> None:
    """Check the region of a reduction against its inputs and initial values."""
    has_starts = op.name in ("stablehlo.reduce", "stablehlo.reduce_window")
    count = len(op.operands) // 2 if has_starts else 1
    arguments, last = op.body().arguments, op.body().last
    if len(arguments) != 2 * count:
        raise Invalid(
            f"Reduction-region must take {2 * count} parameters, but takes {len(arguments)} "
            "parameter(s)"
        )
    if last is None or not last.operands:
        raise Invalid("The reduction-region expected to return some value(s)")
    if len(last.operands) != count:
        raise Invalid(
            f"Reduction-region here must produce {count} tensors, but produces "
            f"{len(last.operands)} instead"
        )
    results = [value.type for value in last.operands]
    for type_ in results:
        if not isinstance(type_, TensorType):
            raise Invalid(
                "Reduction-region here must produce tensor-typed result(s), but produces "
                f"'{type_}' instead"
            )
    for index, result in enumerate(results):
        _check_reducer_types(index, arguments[index].type, result)
        _check_reducer_types(index + count, arguments[index + count].type, result)
        start = op.operands[index + count].type if has_starts else TensorType((), result)
        if not compatible_shapes(tensor(result).shape, tensor(start).shape):
            raise Invalid(
                f"The shape of reduction-region's result type at index {index} differs from the "
                f"op's corresponding init-value type: '{result}' vs '{start}'"
            )


def _check_reducer_types(index: int, argument: Type, result: Type) -> None:
    left, right = tensor(argument), tensor(result)
    floats = isinstance(left.element, FloatType) and isinstance(right.element, FloatType)
    elements = floats or has_same_elements([left, right])
    if not elements or not compatible_shapes(left.shape, right.shape):
        raise Invalid(
            f"The type of reduction-region's parameter at index {index} is different than the "
            f"corresponding result type: '{argument}' vs '{result}'"
        )
