"""Operations of known shapes for those that take shapes as operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emu.mlir.attributes import ArrayAttr, Attribute, DenseElementsAttr
from emu.mlir.ir import Operation, Value
from emu.mlir.types import TensorType
from emu.sdy.passes.builder import Builder, tensor
from emu.sdy.passes.shapes.errors import CannotRefine
from emu.sdy.passes.shapes.inference import infer, merged, operand_indices
from emu.stablehlo.checks import integer
from emu.stablehlo.syntax import array_of_ints

Known = Callable[[Value], list[int] | None]
"""Returns the elements of a value of integers, or None if they are not known."""

_Convert = Callable[[Operation, Known], Operation | None]


def _new(
    op: Operation, name: str, operands: Sequence[Value], properties: dict[str, Attribute]
) -> Operation:
    """Insert an operation before another, with the types and attributes of that one."""
    made = Operation(
        name,
        operands,
        [result.type for result in op.results],
        properties=properties,
        attributes=op.attributes,
        location=op.location,
    )
    assert op.parent is not None
    op.parent.insert_before(op, made)
    return made


def _of_shape(name: str, shape_operand: int, *kept: str) -> _Convert:
    """Convert an operation of which an operand is the shape of the result."""

    def convert(op: Operation, known: Known) -> Operation | None:
        shape = known(op.operands[shape_operand])
        if shape is None:
            return None
        properties = {key: op.properties[key] for key in kept if key in op.properties}
        made = _new(op, name, op.operands[:shape_operand], properties)
        made.result.change_type(merged(op, op.result.type, tuple(shape)))
        return made

    return convert


def _get_dimension_size(op: Operation, known: Known) -> Operation | None:
    size = tensor(op.operands[0]).shape[integer(op, "dimension")]
    if size is None:
        return None
    defining = Builder.before(op).scalar(size, tensor(op.result).element).defining_op
    assert defining is not None
    return defining


def _set_dimension_size(op: Operation, known: Known) -> Operation | None:
    size, type_, dim = known(op.operands[1]), tensor(op.operands[0]), integer(op, "dimension")
    if size is None or not type_.is_static:
        return None
    shape = list(type_.static_shape)
    if not 0 <= size[0] <= shape[dim]:
        raise CannotRefine(
            f"{op.name}: the size of dimension {dim} must be at most {shape[dim]}, but is {size[0]}",
            op.location,
        )
    shape[dim] = size[0]
    made = _slice(op, [0] * len(shape), shape, [1] * len(shape))
    made.result.change_type(TensorType(tuple(shape), type_.element))
    return made


def _slice(
    op: Operation, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int]
) -> Operation:
    properties = {
        "start_indices": array_of_ints(starts),
        "limit_indices": array_of_ints(limits),
        "strides": array_of_ints(strides),
    }
    return _new(op, "stablehlo.slice", op.operands[:1], dict(properties))


def _real_dynamic_slice(op: Operation, known: Known) -> Operation | None:
    starts, limits, strides = (known(value) for value in op.operands[1:])
    if starts is not None and limits is not None and strides is not None:
        return _slice(op, starts, limits, strides)
    sizes = _slice_sizes(op, known)
    if sizes is None or strides is None or any(stride != 1 for stride in strides):
        return None
    build = Builder.before(op)
    indices = [
        build.reshape(build.slice(op.operands[1], [dim], [dim + 1]), ())
        for dim in range(len(sizes))
    ]
    made = _new(
        *(op, "stablehlo.dynamic_slice", [op.operands[0], *indices]),
        {"slice_sizes": array_of_ints(sizes)},
    )
    made.result.change_type(merged(op, op.result.type, tuple(sizes)))
    return made


def _slice_sizes(op: Operation, known: Known) -> list[int] | None:
    """Return the sizes of a slice whose start is not known: those written, or added to the start."""
    written = tensor(op.result)
    if written.is_static:
        return list(written.static_shape)
    limit = op.operands[2].defining_op
    if limit is None or limit.name != "stablehlo.add" or op.operands[1] not in limit.operands:
        return None
    left, right = limit.operands
    return known(right if left is op.operands[1] else left)


def _dynamic_pad(op: Operation, known: Known) -> Operation | None:
    low, high, interior = (known(value) for value in op.operands[2:])
    if low is None or high is None or interior is None:
        return None
    properties: dict[str, Attribute] = {
        "edge_padding_low": array_of_ints(low),
        "edge_padding_high": array_of_ints(high),
        "interior_padding": array_of_ints(interior),
    }
    return _new(op, "stablehlo.pad", op.operands[:2], properties)


def _dynamic_gather(op: Operation, known: Known) -> Operation | None:
    sizes = known(op.operands[2])
    if sizes is None:
        return None
    properties = {**op.properties, "slice_sizes": array_of_ints(sizes)}
    return _new(op, "stablehlo.gather", op.operands[:2], properties)


def _dynamic_conv(op: Operation, known: Known) -> Operation | None:
    padding = known(op.operands[2])
    if padding is None:
        return None
    value = DenseElementsAttr.of(padding, (len(padding) // 2, 2))
    properties = {**op.properties, "padding": value}
    return _new(op, "stablehlo.convolution", op.operands[:2], properties)


def _custom_call(op: Operation, known: Known) -> Operation | None:
    """Take the shapes of a custom call's results from the last operands, and drop these."""
    places = operand_indices(op, "indices_of_shape_operands")
    shapes = [known(op.operands[place]) for place in places]
    if not places or None in shapes:
        return None
    kept = [value for index, value in enumerate(op.operands) if index not in places]
    properties = dict(op.properties)
    layouts = properties.get("operand_layouts")
    if isinstance(layouts, ArrayAttr) and len(layouts.elements) == len(op.operands):
        left = tuple(e for index, e in enumerate(layouts.elements) if index not in places)
        properties["operand_layouts"] = ArrayAttr(left)
    made = _new(op, op.name, kept, properties)
    made.attributes.pop("indices_of_shape_operands", None)
    for result, shape in zip(made.results, shapes, strict=True):
        if shape is not None:
            result.change_type(merged(op, result.type, tuple(shape)))
    return made


_CONVERSIONS: dict[str, _Convert] = {
    "stablehlo.dynamic_broadcast_in_dim": _of_shape(
        "stablehlo.broadcast_in_dim", 1, "broadcast_dimensions"
    ),
    "stablehlo.dynamic_iota": _of_shape("stablehlo.iota", 0, "iota_dimension"),
    "stablehlo.dynamic_reshape": _of_shape("stablehlo.reshape", 1),
    "stablehlo.get_dimension_size": _get_dimension_size,
    "stablehlo.set_dimension_size": _set_dimension_size,
    "stablehlo.real_dynamic_slice": _real_dynamic_slice,
    "stablehlo.dynamic_pad": _dynamic_pad,
    "stablehlo.dynamic_gather": _dynamic_gather,
    "stablehlo.dynamic_conv": _dynamic_conv,
    "stablehlo.custom_call": _custom_call,
}


def to_static(op: Operation, known: Known) -> Operation:
    """Replace an operation that takes shapes as operands by one of known shapes, if they are known.

    Returns:
        The new operation, with the results' types refined, or the old one.
    """
    convert = _CONVERSIONS.get(op.name)
    made = None if convert is None else convert(op, known)
    if made is None:
        return op
    if made.results:
        for result, type_ in zip(made.results, infer(made), strict=True):
            result.change_type(type_)
    op.replace_with(made.results)
    return made
