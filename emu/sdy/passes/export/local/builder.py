"""Small makers of StableHLO operations, each put before the one it replaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from emu.mlir.attributes import Attribute, DenseElementsAttr, IntegerAttr
from emu.mlir.dense import element_bytes
from emu.mlir.diagnostics import Location
from emu.mlir.ir import Operation, Region, Value
from emu.mlir.types import IntegerType, TensorType, Type
from emu.sdy.passes.export.building import Place
from emu.stablehlo.attributes import ComparisonDirection
from emu.stablehlo.syntax import I64, array_of_ints

__all__ = ["I1", "I64", "Builder", "integer_attribute", "integers_attribute", "tensor"]

I1 = IntegerType(1)

Shape = Sequence[int | None]


def tensor(value: Value) -> TensorType:
    """Return the type of a new value that is known to be a tensor."""
    assert isinstance(value.type, TensorType)
    return value.type


def integer_attribute(value: int) -> IntegerAttr:
    """``value : i64``."""
    return IntegerAttr(value, I64)


def integers_attribute(
    values: Sequence[int], shape: tuple[int, ...], element: Type = I64
) -> DenseElementsAttr:
    """``dense<…>`` of integers, row-major; equal ones make a splat."""
    width = element_bytes(element) or 1
    mask = (1 << 8 * width) - 1
    splat = bool(values) and all(value == values[0] for value in values)
    kept = values[:1] if splat else values
    data = b"".join((value & mask).to_bytes(width, "little") for value in kept)
    return DenseElementsAttr(data, TensorType(shape, element), splat)


class Builder:
    """Makes operations before another, at its location."""

    def __init__(self, op: Operation) -> None:
        self._place = Place.before(op)
        self.location: Location = op.location

    def op(
        self,
        name: str,
        operands: Iterable[Value],
        types: Iterable[Type],
        properties: Mapping[str, Attribute] | None = None,
    ) -> Operation:
        """Return an operation ``stablehlo.<name>``."""
        new = Operation(
            f"stablehlo.{name}", operands, types, properties=properties, location=self.location
        )
        return self._place.insert(new)

    def _value(
        self,
        name: str,
        operands: Iterable[Value],
        shape: Shape,
        element: Type,
        properties: Mapping[str, Attribute] | None = None,
    ) -> Value:
        return self.op(name, operands, [TensorType(tuple(shape), element)], properties).result

    def constant(self, value: Attribute, type_: Type) -> Value:
        """Return a constant."""
        return self.op("constant", (), [type_], {"value": value}).result

    def integers(self, values: Sequence[int], shape: tuple[int, ...], element: Type = I64) -> Value:
        """Return a constant of integers."""
        value = integers_attribute(values, shape, element)
        return self.constant(value, value.type)

    def scalar(self, value: int, element: Type = I64) -> Value:
        """Return a constant integer without dimensions."""
        return self.integers([value], (), element)

    def zeros(self, type_: TensorType) -> Value:
        """Return a constant of zeros; of any element type."""
        width = element_bytes(type_.element) or 1
        return self.constant(DenseElementsAttr(bytes(width), type_, True), type_)

    def reshape(self, value: Value, shape: Shape) -> Value:
        """Return the same elements in another shape."""
        return self._value("reshape", [value], shape, tensor(value).element)

    def transpose(self, value: Value, permutation: Sequence[int]) -> Value:
        """Return the dimensions in another order."""
        shape = tensor(value).shape
        properties = {"permutation": array_of_ints(permutation)}
        moved = [shape[dim] for dim in permutation]
        return self._value("transpose", [value], moved, tensor(value).element, properties)

    def convert(self, value: Value, element: Type) -> Value:
        """Return the same numbers as other elements; made even if they are those."""
        return self._value("convert", [value], tensor(value).shape, element)

    def broadcast(self, value: Value, shape: Shape, dims: Sequence[int] = ()) -> Value:
        """``broadcast_in_dim``; a scalar goes everywhere."""
        properties = {"broadcast_dimensions": array_of_ints(dims)}
        return self._value("broadcast_in_dim", [value], shape, tensor(value).element, properties)

    def dynamic_slice(self, value: Value, starts: Sequence[Value], sizes: Sequence[int]) -> Value:
        """Return a piece whose place is computed."""
        properties = {"slice_sizes": array_of_ints(sizes)}
        element = tensor(value).element
        return self._value("dynamic_slice", [value, *starts], sizes, element, properties)

    def pad(
        self,
        value: Value,
        padding: Value,
        low: Sequence[int],
        high: Sequence[int],
        interior: Sequence[int],
        shape: Shape,
    ) -> Value:
        """Return elements around and between those of a value."""
        properties = {
            "edge_padding_low": array_of_ints(low),
            "edge_padding_high": array_of_ints(high),
            "interior_padding": array_of_ints(interior),
        }
        return self._value("pad", [value, padding], shape, tensor(value).element, properties)

    def concatenate(self, values: Sequence[Value], size: int) -> Value:
        """Return vectors behind each other."""
        properties = {"dimension": integer_attribute(0)}
        return self._value("concatenate", values, [size], tensor(values[0]).element, properties)

    def elementwise(self, name: str, left: Value, right: Value) -> Value:
        """Return an operation of two values of one type."""
        return self.op(name, [left, right], [left.type]).result

    def compare(self, left: Value, right: Value, direction: str) -> Value:
        """Where a relation holds."""
        properties = {"comparison_direction": ComparisonDirection(direction)}
        return self._value("compare", [left, right], tensor(left).shape, I1, properties)

    def select(self, where: Value, left: Value, right: Value) -> Value:
        """Return one value where a condition holds, else another."""
        return self.op("select", [where, left, right], [left.type]).result

    def partition_id(self) -> Value:
        """Return the number of the device, as an i64."""
        number = self._value("partition_id", (), (), IntegerType(32, "u"))
        return self.convert(number, I64)

    def look_up(self, table: Value, index: Value) -> Value:
        """Return the entry of a vector at a place; still a vector, of one."""
        return self.dynamic_slice(table, [index], [1])

    def by_device(self, values: Sequence[int], number: Value | None = None) -> Value:
        """What is said of the device that runs the program.

        Args:
            values: A number for each device.
            number: The device's, if it is known already.
        """
        if number is None:
            number = self.partition_id()
        table = self.integers(values, (len(values),))
        return self.reshape(self.look_up(table, number), ())

    def add_body(self, op: Operation, element: Type, name: str = "add") -> None:
        """Give an operation a region that combines two scalars."""
        scalar = TensorType((), element)
        block = op.add_region(Region()).add_block()
        left = block.add_argument(scalar, self.location)
        right = block.add_argument(scalar, self.location)
        combined = Operation(f"stablehlo.{name}", [left, right], [scalar], location=self.location)
        block.append(combined)
        block.append(Operation("stablehlo.return", [combined.result], location=self.location))
