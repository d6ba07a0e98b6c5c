"""Traits that compare the types of operands and results, with MLIR's words."""

from __future__ import annotations

from emu.mlir.ir import Operation
from emu.mlir.types import TensorType, Type
from emu.stablehlo.checks import Check, Invalid, compatible, compatible_shapes, tensor
from emu.stablehlo.syntax import ints


def _types(op: Operation) -> list[Type]:
    return [value.type for value in (*op._operands, *op.results)]


def _element(type_: Type) -> Type:
    return type_.element if isinstance(type_, TensorType) else type_


def has_same_elements(types: list[Type]) -> bool:
    """Return whether types have one element type; quantized ones are not compared."""
    # Types of the quant dialect are kept as text: their parts are not known here.
    first, *others = map(_element, types)
    return all(other == first or "!quant" in f"{first}{other}" for other in others)


def compatible_types(op: Operation) -> None:
    """Check that operands and results have one type, as far as sizes are known."""
    first, *others = _types(op)
    if not all(compatible(first, other) for other in others):
        raise Invalid("op requires compatible types for all operands and results")


def same_shape(op: Operation) -> None:
    """Check that operands and results have one shape, as far as sizes are known."""
    first, *others = _types(op)
    shape = tensor(first).shape
    if not all(compatible_shapes(shape, tensor(other).shape) for other in others):
        raise Invalid("op requires the same shape for all operands and results")


def elementwise_shapes(op: Operation) -> None:
    """Check that operands and results that are not scalars have one shape."""
    shapes = [tensor(t).shape for t in _types(op)]
    shapes = [shape for shape in shapes if shape]
    if not all(compatible_shapes(shapes[0], shape) for shape in shapes):
        raise Invalid("op all non-scalar operands/results must have the same shape and base type")


def same_element_types(op: Operation) -> None:
    """Check that operands and results have one element type."""
    if not has_same_elements(_types(op)):
        raise Invalid("op requires the same element type for all operands and results")


def compatible_element_types(op: Operation) -> None:
    """Check the same as ``same_element_types``; MLIR words it otherwise for some operations."""
    if not has_same_elements(_types(op)):
        raise Invalid("op requires compatible element types for all operands and results")


def compatible_operand_elements(op: Operation) -> None:
    """Check that the operands have one element type."""
    if not has_same_elements([value.type for value in op.operands]):
        raise Invalid("op requires compatible element types for all operands")


def same_operand_elements(op: Operation) -> None:
    """Check the same as ``compatible_operand_elements``, in other words."""
    if not has_same_elements([value.type for value in op.operands]):
        raise Invalid("op requires the same element type for all operands")


def same_sizes(*names: str) -> Check:
    """Make a check that inherent attributes have the same number of elements."""

    def check(op: Operation) -> None:
        if len({len(ints(op.properties[name])) for name in names}) > 1:
            raise Invalid(f"op failed to verify that all of {{{', '.join(names)}}} have same size")

    return check


def pairwise_counts(op: Operation) -> None:
    """Check that there are as many results as operands."""
    if len(op.operands) != len(op.results):
        raise Invalid("op requires the same number of operands and results")


def pairwise_types(op: Operation) -> None:
    """Check that each result has the type of the operand with its number."""
    pairwise_counts(op)
    for index, (operand, result) in enumerate(zip(op.operands, op.results, strict=True)):
        if not compatible(operand.type, result.type):
            raise Invalid(f"op requires the same type for operand and result at index {index}")
