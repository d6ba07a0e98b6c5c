"""A builder of StableHLO operations that inserts each one where it is created.

Passes that lower operations replace one by several small ones. The builder spares
them the properties that MLIR wants in full, and the insertion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from emu.mlir.attributes import Attribute, DenseElementsAttr, IntegerAttr
from emu.mlir.dense import element_bytes
from emu.mlir.diagnostics import Location
from emu.mlir.forms import I64
from emu.mlir.ir import Operation, Region, Value
from emu.mlir.types import IntegerType, TensorType, Type
from emu.sdy.passes.insertion_point import Place
from emu.stablehlo.attributes import ComparisonDirection
from emu.stablehlo.syntax import array_of_ints

I1 = IntegerType(1)

Shape = Sequence[int | None]


def tensor(value: Value) -> TensorType:
    """Return the type of a value that is known to be a ranked tensor."""
    assert isinstance(value.type, TensorType)
    return value.type


def integer_attribute(value: int) -> IntegerAttr:
    """Return ``value : i64``."""
    return IntegerAttr(value, I64)


class Builder:
    """A builder of operations at one location.

    Args:
        insert: Inserts an operation into its block; called once per operation, in order.
        location: Location of the operations.
    """

    def __init__(self, insert: Callable[[Operation], object], location: Location) -> None:
        self._insert = insert
        self.location = location

    @staticmethod
    def before(op: Operation) -> Builder:
        """Return a builder of operations before another, at its location."""
        return Builder(Place.before(op).insert, op.location)

    @staticmethod
    def after(op: Operation) -> Builder:
        """Return a builder of operations after another, at its location."""
        return Builder(Place.after(op).insert, op.location)

    def op(
        self,
        name: str,
        operands: Iterable[Value],
        types: Iterable[Type],
        properties: Mapping[str, Attribute] | None = None,
    ) -> Operation:
        """Insert and return an operation ``stablehlo.<name>``."""
        new = Operation(
            f"stablehlo.{name}", operands, types, properties=properties, location=self.location
        )
        self._insert(new)
        return new

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
        value = DenseElementsAttr.of(values, shape, element)
        return self.constant(value, value.type)

    def scalar(self, value: int, element: Type = I64) -> Value:
        """Return a scalar integer constant."""
        return self.integers([value], (), element)

    def zeros(self, type_: TensorType) -> Value:
        """Return a constant of zeros of any element type."""
        width = element_bytes(type_.element) or 1
        return self.constant(DenseElementsAttr(bytes(width), type_, True), type_)

    def zero(self, element: Type) -> Value:
        """Return a scalar zero.

        Raises:
            ValueError: The element type is not numeric.
        """
        if element_bytes(element) is None:
            raise ValueError(f"element type {element} has no zero")
        return self.zeros(TensorType((), element))

    def iota(self, dim: int, type_: TensorType) -> Value:
        """Return a tensor of each element's index along a dimension."""
        return self.op("iota", (), [type_], {"iota_dimension": integer_attribute(dim)}).result

    def reshape(self, value: Value, shape: Shape) -> Value:
        """Return a value reshaped."""
        return self._value("reshape", [value], shape, tensor(value).element)

    def transpose(self, value: Value, permutation: Sequence[int]) -> Value:
        """Return a value transposed."""
        shape = tensor(value).shape
        properties = {"permutation": array_of_ints(permutation)}
        moved = [shape[dim] for dim in permutation]
        return self._value("transpose", [value], moved, tensor(value).element, properties)

    def convert(self, value: Value, element: Type) -> Value:
        """Return a value converted to an element type, even if it has that type already."""
        return self._value("convert", [value], tensor(value).shape, element)

    def broadcast(self, value: Value, shape: Shape, dims: Sequence[int] = ()) -> Value:
        """Return a value broadcast to a shape, by default a scalar."""
        properties = {"broadcast_dimensions": array_of_ints(dims)}
        return self._value("broadcast_in_dim", [value], shape, tensor(value).element, properties)

    def slice(
        self,
        value: Value,
        starts: Sequence[int],
        limits: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> Value:
        """Return a slice, of adjacent elements by default."""
        strides = [1] * len(starts) if strides is None else strides
        bounds = zip(starts, limits, strides, strict=True)
        shape = [-(-(limit - start) // stride) for start, limit, stride in bounds]
        properties = {
            "start_indices": array_of_ints(starts),
            "limit_indices": array_of_ints(limits),
            "strides": array_of_ints(strides),
        }
        return self._value("slice", [value], shape, tensor(value).element, properties)

    def dynamic_slice(self, value: Value, starts: Sequence[Value], sizes: Sequence[int]) -> Value:
        """Return a slice at computed start indices."""
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
        """Return a value padded around and between its elements."""
        properties = {
            "edge_padding_low": array_of_ints(low),
            "edge_padding_high": array_of_ints(high),
            "interior_padding": array_of_ints(interior),
        }
        return self._value("pad", [value, padding], shape, tensor(value).element, properties)

    def pad_high(self, value: Value, padding: Value, shape: Shape) -> Value:
        """Return a value padded at the end of each dimension, up to a shape."""
        high = [
            (new or 0) - (old or 0) for new, old in zip(shape, tensor(value).shape, strict=True)
        ]
        none = [0] * len(high)
        return self.pad(value, padding, none, high, none, shape)

    def concatenate(self, values: Sequence[Value], shape: Shape, dim: int = 0) -> Value:
        """Return values joined along a dimension."""
        properties = {"dimension": integer_attribute(dim)}
        return self._value("concatenate", values, shape, tensor(values[0]).element, properties)

    def elementwise(self, name: str, left: Value, right: Value) -> Value:
        """Return an elementwise operation of two values of the same type."""
        return self.op(name, [left, right], [left.type]).result

    def compare(self, left: Value, right: Value, direction: str) -> Value:
        """Return the elementwise comparison of two values, ``i1`` elements."""
        properties = {"comparison_direction": ComparisonDirection(direction)}
        return self._value("compare", [left, right], tensor(left).shape, I1, properties)

    def select(self, where: Value, left: Value, right: Value) -> Value:
        """Return ``left`` where the condition ``where`` holds, else ``right``."""
        return self.op("select", [where, left, right], [left.type]).result

    def device_id(self, *, is_replica: bool = False) -> Value:
        """Return the index of the device, as an i64.

        Args:
            is_replica: Whether the devices are replicas, and not partitions.
        """
        name = "replica_id" if is_replica else "partition_id"
        return self.convert(self._value(name, (), (), IntegerType(32, "u")), I64)

    def entry_at(self, table: Value, index: Value) -> Value:
        """Return the entry of a vector at an index, as a vector of one element."""
        return self.dynamic_slice(table, [index], [1])

    def by_device(self, values: Sequence[int], number: Value) -> Value:
        """Return the entry of a table for the device that runs the program.

        Args:
            values: One number per device.
            number: The device's index.
        """
        # One program runs on all devices, so what differs is looked up by the device's index.
        table = self.integers(values, (len(values),))
        return self.reshape(self.entry_at(table, number), ())

    def add_body(self, op: Operation, element: Type, name: str = "add") -> None:
        """Add a region to an operation that combines two scalars."""
        scalar = TensorType((), element)
        block = op.add_region(Region()).add_block()
        left = block.add_argument(scalar, self.location)
        right = block.add_argument(scalar, self.location)
        combined = Operation(f"stablehlo.{name}", [left, right], [scalar], location=self.location)
        block.append(combined)
        block.append(Operation("stablehlo.return", [combined.result], location=self.location))
