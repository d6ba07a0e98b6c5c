"""Access to shapes and attributes of operations, for rule functions."""

from __future__ import annotations

from typing import TypeVar

from emu.mlir.attributes import (
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DenseElementsAttr,
    IntegerAttr,
    StringAttr,
)
from emu.mlir.dense import integer_values
from emu.mlir.ir import Operation, Value
from emu.mlir.types import IntegerType, TensorType, Type

__all__ = ["DYNAMIC", "attribute", "boolean", "integer", "integers", "rank", "shape", "string"]

_A = TypeVar("_A", bound=Attribute)

DYNAMIC = -(1 << 63)
"""The size of a dynamic dimension, as in MLIR.

The verifier rejects a rule with such a factor, and names the type.
"""


def rank(type_: Type) -> int:
    """Return the number of dimensions; 0 for a type other than a ranked tensor (a token)."""
    return len(type_.shape) if isinstance(type_, TensorType) else 0


def shape(value: Value) -> tuple[int, ...]:
    """Return the shape of a ranked tensor, with ``DYNAMIC`` for unknown dimensions."""
    type_ = value.type
    if isinstance(type_, TensorType):
        return tuple([DYNAMIC if size is None else size for size in type_.shape])
    raise ValueError(f"expected a ranked tensor, but got {type_}")


def integers(op: Operation, name: str) -> tuple[int, ...] | None:
    """Return an attribute that is a list of integers, ``array<i64: …>`` or ``dense<…>``.

    None if the attribute is absent; a ``dense`` of more dimensions is flattened.
    """
    found = op.properties.get(name)
    if found is None:
        return None
    if isinstance(found, DenseArrayAttr):
        return found.values
    if isinstance(found, DenseElementsAttr):
        type_ = found.type
        if isinstance(type_, TensorType) and isinstance(type_.element, IntegerType):
            return integer_values(found)
    raise ValueError(f"attribute {name!r} must be a list of integers, but is {found}")


def attribute(op: Operation, name: str, kind: type[_A]) -> _A:
    """Return a required attribute of an operation, of a certain kind."""
    found = op.properties.get(name)
    if isinstance(found, kind):
        return found
    given = "is absent" if found is None else f"is {found}"
    raise ValueError(f"requires attribute {name!r} of kind {kind.__name__}, but it {given}")


def integer(op: Operation, name: str) -> int:
    """Return the value of an integer attribute."""
    return attribute(op, name, IntegerAttr).value


def boolean(op: Operation, name: str) -> bool:
    """Return the value of a boolean attribute."""
    return attribute(op, name, BoolAttr).value


def string(op: Operation, name: str) -> str:
    """Return the value of a string attribute."""
    return attribute(op, name, StringAttr).value
