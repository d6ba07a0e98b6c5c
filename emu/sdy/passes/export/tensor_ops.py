"""Making StableHLO operations that cut and fill tensors. Each is in no block yet."""

from __future__ import annotations

from collections.abc import Sequence

from emu.mlir.attributes import Attribute, DenseElementsAttr, IntegerAttr
from emu.mlir.dense import element_bytes
from emu.mlir.diagnostics import Location
from emu.mlir.ir import Operation, Value
from emu.mlir.types import IntegerType, TensorType, Type
from emu.stablehlo.attributes import ComparisonDirection
from emu.stablehlo.syntax import I32, I64, array_of_ints

__all__ = [
    "make_compare_less",
    "make_concatenate",
    "make_i32",
    "make_iota",
    "make_pad_high",
    "make_slice",
    "make_splat",
    "make_zero",
    "tensor_type",
]

_BOOL = IntegerType(1)


def tensor_type(value: Value) -> TensorType:
    """Return the type of a value that is known to be a ranked tensor."""
    assert isinstance(value.type, TensorType)
    return value.type


def _make(
    name: str,
    operands: Sequence[Value],
    type_: TensorType,
    properties: dict[str, Attribute],
    location: Location,
) -> Operation:
    return Operation(
        f"stablehlo.{name}", operands, [type_], properties=properties, location=location
    )


def _constant(data: bytes, element: Type, location: Location) -> Operation:
    type_ = TensorType((), element)
    value = DenseElementsAttr(data, type_, True)
    return _make("constant", (), type_, {"value": value}, location)


def make_zero(element: Type, location: Location) -> Operation:
    """Return a scalar zero; raises ValueError for elements that are no numbers."""
    width = element_bytes(element)
    if width is None:
        raise ValueError(f"element type {element} has no zero")
    return _constant(bytes(width), element, location)


def make_i32(value: int, location: Location) -> Operation:
    """Return a scalar ``i32``."""
    return _constant(value.to_bytes(4, "little", signed=True), I32, location)


def make_slice(
    value: Value, starts: Sequence[int], limits: Sequence[int], location: Location
) -> Operation:
    """``stablehlo.slice`` of neighbouring elements."""
    type_ = tensor_type(value)
    shape = tuple(limit - start for start, limit in zip(starts, limits, strict=True))
    properties: dict[str, Attribute] = {
        "start_indices": array_of_ints(starts),
        "limit_indices": array_of_ints(limits),
        "strides": array_of_ints([1] * len(shape)),
    }
    result = TensorType(shape, type_.element)
    return _make("slice", [value], result, properties, location)


def make_pad_high(
    value: Value, padding: Value, shape: Sequence[int | None], location: Location
) -> Operation:
    """``stablehlo.pad`` behind the elements, up to a shape."""
    type_ = tensor_type(value)
    high = [(new or 0) - (old or 0) for new, old in zip(shape, type_.shape, strict=True)]
    none = array_of_ints([0] * len(high))
    properties: dict[str, Attribute] = {
        "edge_padding_low": none,
        "edge_padding_high": array_of_ints(high),
        "interior_padding": none,
    }
    result = TensorType(tuple(shape), type_.element)
    return _make("pad", [value, padding], result, properties, location)


def make_concatenate(
    values: Sequence[Value], dimension: int, type_: TensorType, location: Location
) -> Operation:
    """``stablehlo.concatenate``."""
    properties: dict[str, Attribute] = {"dimension": IntegerAttr(dimension, I64)}
    return _make("concatenate", values, type_, properties, location)


def make_iota(dimension: int, type_: TensorType, location: Location) -> Operation:
    """``stablehlo.iota``: each element's index along a dimension."""
    properties: dict[str, Attribute] = {"iota_dimension": IntegerAttr(dimension, I64)}
    return _make("iota", (), type_, properties, location)


def make_splat(scalar: Value, type_: TensorType, location: Location) -> Operation:
    """``stablehlo.broadcast_in_dim`` of a scalar."""
    properties: dict[str, Attribute] = {"broadcast_dimensions": array_of_ints(())}
    return _make("broadcast_in_dim", [scalar], type_, properties, location)


def make_compare_less(left: Value, right: Value, location: Location) -> Operation:
    """``stablehlo.compare LT``."""
    properties: dict[str, Attribute] = {"comparison_direction": ComparisonDirection("LT")}
    result = TensorType(tensor_type(left).shape, _BOOL)
    return _make("compare", [left, right], result, properties, location)
