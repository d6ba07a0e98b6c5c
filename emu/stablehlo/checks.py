"""Helpers of the checks of operations: types and attributes of the expected kind, shapes that agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emu.mlir.attributes import IntegerAttr
from emu.mlir.ir import Operation
from emu.mlir.types import TensorType, TupleType, Type

Shape = tuple[int | None, ...]
"""Sizes of the dimensions; None is an unknown one."""

Check = Callable[[Operation], None]
"""Raises ``Invalid`` where an operation is wrong."""

Infer = Callable[[Operation], list[Type]]
"""Returns the types that the results must have; raises ``Invalid``."""


class Invalid(Exception):
    """The operation is wrong; the message is StableHLO's.

    The verifier puts the operation's name in front of a message that starts with "op ".
    """


def tensor(type_: Type) -> TensorType:
    """Return a type that must be a ranked tensor."""
    if not isinstance(type_, TensorType):
        raise Invalid(f"expected a ranked tensor, but got '{type_}'")
    return type_


def operand_tensor(op: Operation, index: int = 0) -> TensorType:
    """Return the type of an operand, which must be a ranked tensor."""
    return tensor(op.operands[index].type)


def integer(op: Operation, name: str) -> int:
    """Return the value of an inherent attribute that must be an integer."""
    value = op.properties[name]
    if not isinstance(value, IntegerAttr):
        raise Invalid(f"attribute '{name}' failed to satisfy constraint: integer attribute")
    return value.value


def is_same_size(left: int | None, right: int | None) -> bool:
    """Return whether two sizes are equal as far as they are known."""
    return left is None or right is None or left == right


def compatible_shapes(left: Sequence[int | None], right: Sequence[int | None]) -> bool:
    """Return whether two shapes are equal as far as they are known."""
    return len(left) == len(right) and all(map(is_same_size, left, right))


def compatible(left: Type, right: Type) -> bool:
    """Return whether two types are equal as far as their sizes are known.

    Quantized element types are not compared.
    """
    if isinstance(left, TensorType) and isinstance(right, TensorType):
        # Types of the quant dialect are kept as text: their parts are not known here.
        elements = left.element == right.element or "!quant" in f"{left}{right}"
        return elements and compatible_shapes(left.shape, right.shape)
    if isinstance(left, TupleType) and isinstance(right, TupleType):
        pairs = zip(left.elements, right.elements, strict=False)
        return len(left.elements) == len(right.elements) and all(compatible(a, b) for a, b in pairs)
    return left == right


def sizes_text(values: Sequence[int | None]) -> str:
    """Return sizes with commas between, ``?`` for unknown ones."""
    return ", ".join("?" if v is None else str(v) for v in values)


def quoted_types(types: Sequence[Type]) -> str:
    """Return types in quotes, with commas between."""
    return ", ".join(f"'{type_}'" for type_ in types)


def unchanged(op: Operation) -> list[Type]:
    """Infer that the result has the type of the first operand."""
    return [operand_tensor(op)]


def same_as_operands(op: Operation) -> list[Type]:
    """Infer that the results have the types of the operands."""
    return [value.type for value in op.operands]


def check_result_shape(shape_of: Callable[[Operation], Shape | None]) -> Check:
    """Make a check that the result has a computed shape, as far as sizes are known."""

    def check(op: Operation) -> None:
        shape = shape_of(op)
        if shape is not None and not compatible_shapes(shape, tensor(op.result.type).shape):
            raise Invalid(
                f"inferred shape '[{sizes_text(shape)}]' is incompatible with return type of operation "
                f"'{op.result.type}'"
            )

    return check
