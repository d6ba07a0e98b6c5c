"""Lowering of CHLO operations that move elements: broadcasts, constants, top-k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emu.mlir.attributes import (
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DenseElementsAttr,
    FloatAttr,
    IntegerAttr,
)
from emu.mlir.dense import element_bytes
from emu.mlir.forms import I32
from emu.mlir.ir import Operation, Region, Value
from emu.mlir.types import ComplexType, FloatType, IntegerType, TensorType, Type, is_static_tensor
from emu.sdy.passes.builder import I1, Builder, integer_attribute, tensor
from emu.sdy.passes.chlo.expressions import Formulas
from emu.sdy.passes.chlo.functions import FUNCTIONS
from emu.stablehlo.attributes import ComparisonDirection, ComparisonType
from emu.stablehlo.dialect import SPECS

_PREFIX = "chlo.broadcast_"


def legalized_structure(op: Operation) -> Sequence[Value] | None:
    """Return the values that replace an operation's results; None if it cannot be lowered."""
    if not all(is_static_tensor(value.type) for value in (*op.operands, *op.results)):
        return None
    if op.name == "chlo.constant":
        return [Builder.before(op).constant(op.properties["value"], op.result.type)]
    if op.name == "chlo.constant_like":
        return _constant_like(op)
    if op.name == "chlo.top_k":
        return _top_k(op)
    return _broadcast(op) if op.name.startswith(_PREFIX) else None


def _constant_like(op: Operation) -> Sequence[Value] | None:
    value, type_ = op.properties.get("value"), tensor(op.result)
    width = element_bytes(type_.element)
    if width is None or isinstance(type_.element, ComplexType):
        return None
    if isinstance(value, BoolAttr):
        data = bytes([value.value])
    elif isinstance(value, IntegerAttr):
        data = (value.value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    elif isinstance(value, FloatAttr):
        data = value.bits.to_bytes(width, "little")
    else:
        return None
    return [Builder.before(op).constant(DenseElementsAttr(data, type_, True), type_)]


# Broadcasts


def _broadcast(op: Operation) -> Sequence[Value] | None:
    name = op.name.removeprefix(_PREFIX)
    build, result = Builder.before(op), tensor(op.result)
    operands = [_spread(build, op, value, result.static_shape) for value in op.operands]
    if name == "select":
        return [build.select(*operands)]
    if name == "compare":
        return [build.op("compare", operands, [result], _comparison(op)).result]
    spec = SPECS.get(f"stablehlo.{name}")
    if spec is not None and spec.elementwise and spec.operand_count == 2:
        return [build.op(name, operands, [result]).result]
    function = FUNCTIONS.get(name)
    found = function(*map(Formulas(op).of, operands)) if function is not None else None
    return None if found is None else [found.value]


def _spread(build: Builder, op: Operation, value: Value, shape: tuple[int, ...]) -> Value:
    """Return an operand broadcast to the shape of the result."""
    own = tensor(value).static_shape
    if own == shape:
        return value
    dims: Sequence[int] = range(len(shape) - len(own), len(shape))
    given = op.attribute("broadcast_dimensions")
    if isinstance(given, DenseArrayAttr) and len(given.values) == len(own):
        dims = given.values
    return build.broadcast(value, shape, dims)


def _comparison(op: Operation) -> Mapping[str, Attribute]:
    found: dict[str, Attribute] = {}
    direction, kind = (op.attribute(n) for n in ("comparison_direction", "compare_type"))
    if isinstance(direction, ComparisonDirection):  # CHLO's own, which has the same words
        found["comparison_direction"] = ComparisonDirection(direction.value)
    if isinstance(kind, ComparisonType):
        found["compare_type"] = ComparisonType(kind.value)
    return found


# The largest elements


def _top_k(op: Operation) -> Sequence[Value] | None:
    """Sort with the indices, largest first, and keep the first ones."""
    build, operand = Builder.before(op), op.operands[0]
    type_, indices = tensor(operand), tensor(op.results[1])
    if type_.rank == 0 or indices.element != I32:
        return None
    last = type_.rank - 1
    counted = TensorType(type_.shape, I32)
    places = build.iota(last, counted)
    properties = {"dimension": integer_attribute(last), "is_stable": BoolAttr(True)}
    sort = build.op("sort", [operand, places], [type_, counted], properties)
    _add_comparator(build, sort, type_.element)
    return [
        build.slice(value, [0] * type_.rank, tensor(result).static_shape)
        for value, result in zip(sort.results, op.results, strict=True)
    ]


def _add_comparator(build: Builder, sort: Operation, element: Type) -> None:
    """Add the body of a sort that puts larger elements first."""
    block = sort.add_region(Region()).add_block()
    left, right, _, _ = (
        block.add_argument(TensorType((), each), build.location)
        for each in (element, element, I32, I32)
    )
    kind = "TOTALORDER" if isinstance(element, FloatType) else "SIGNED"
    if isinstance(element, IntegerType) and (element.width == 1 or element.signedness == "u"):
        kind = "UNSIGNED"
    properties = {
        "comparison_direction": ComparisonDirection("GT"),
        "compare_type": ComparisonType(kind),
    }
    larger = Operation(
        "stablehlo.compare",
        [left, right],
        [TensorType((), I1)],
        properties=properties,
        location=build.location,
    )
    block.append(larger)
    block.append(Operation("stablehlo.return", [larger.result], location=build.location))
