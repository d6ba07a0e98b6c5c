"""Reductions and other operations whose region combines elements."""

from __future__ import annotations

from emu.mlir.assembly import Argument, Operand, OpParser, OpPrinter
from emu.mlir.diagnostics import Place
from emu.mlir.forms import Draft
from emu.mlir.ir import Block, Operation, Region
from emu.mlir.types import TensorType, Type, UnrankedTensorType
from emu.stablehlo.attribute_parser import read_dims
from emu.stablehlo.attributes import dims_text
from emu.stablehlo.checks import (
    Invalid,
    compatible_shapes,
    operand_tensor,
    same_as_operands,
    tensor,
)
from emu.stablehlo.constraints import ANY_DIMENSION
from emu.stablehlo.dialect import SPECS, define_ops
from emu.stablehlo.reducers import accumulators, check_reducer
from emu.stablehlo.spec import OpSpec
from emu.stablehlo.syntax import array_of_ints, ints
from emu.stablehlo.traits import same_shape
from emu.stablehlo.windows import windows

# reduce


def _is_commutative(name: str) -> bool:
    return name in SPECS and SPECS[name].commutative


def _parse_reduce(p: OpParser) -> Operation:
    draft = Draft("stablehlo.reduce")
    start = p.here()
    pairs = p.comma_separated("", "", lambda: _read_input(p))
    draft.operands = [pair[0] for pair in pairs] + [pair[1] for pair in pairs]
    place = p.here()
    inner = p.keyword() if p.accept_keyword("applies") else None
    if inner is not None and not _is_commutative(inner):
        p.error(
            "expected the inner-op to be a commutative binary-op from the stablehlo dialect, "
            "with zero region, producing single result",
            place,
        )
    for token in ("across", "dimensions"):
        p.expect_keyword(token)
    p.expect("=")
    draft.properties["dimensions"] = array_of_ints(read_dims(p))
    draft.take(p.optional_attr_dict())
    p.expect(":")
    draft.take_signature(p.function_type())
    if inner is None:
        p.expect_keyword("reducer")
        operands = p.resolve_all(draft.operands, draft.operand_types)
        region = p.region(_read_reducer_arguments(p))
    else:
        operands = p.resolve_all(draft.operands, draft.operand_types)
        if not operands:
            p.error("input types missing in reduce-op function type", place)
        region = _applied_region(inner, _scalar(operands[0].type), start)
    return Operation(
        draft.name,
        operands,
        draft.result_types,
        properties=draft.properties,
        attributes=draft.attributes,
        regions=[region],
        # Located where its operands begin, as in StableHLO.
        location=start,
    )


def _read_input(p: OpParser) -> tuple[Operand, Operand]:
    """Read ``(%0 init: %1)``."""
    p.expect("(")
    value = p.operand()
    p.expect_keyword("init")
    p.expect(":")
    start = p.operand()
    p.expect(")")
    return value, start


def _read_reducer_arguments(p: OpParser) -> list[Argument]:
    """Read ``(%a: T, %b: T) …``: first all elements, then all accumulators."""
    pairs = []
    while p.peek("("):
        pairs.append(p.argument_list())
    return [pair[0] for pair in pairs] + [pair[1] for pair in pairs]


def _applied_region(name: str, type_: Type, place: Place) -> Region:
    """Make the region of a reduce that is written with ``applies``."""
    block = Block()
    arguments = [block.add_argument(type_, place) for _ in range(2)]
    inner = block.append(Operation(name, arguments, [type_], location=place))
    block.append(Operation("stablehlo.return", inner.results, location=place))
    return Region([block])


def _scalar(type_: Type) -> Type:
    """Return the type of a scalar with a tensor's element type."""
    if isinstance(type_, (TensorType, UnrankedTensorType)):
        type_ = type_.element
    return TensorType((), type_)


def _short_reducer(op: Operation) -> Operation | None:
    """Return the only operation of a reducer that can be written with ``applies``, or None.

    It must be commutative, take the arguments as they are, and be returned.
    """
    block = op.body()
    inner, last = block.first, block.last
    if inner is None or last is None or inner.next_op is not last or not op.operands:
        return None
    if not _is_commutative(inner.name) or last.name != "stablehlo.return":
        return None
    types = {value.type for value in (*inner.operands, *inner.results)}
    if types != {_scalar(op.operands[0].type)}:
        return None
    forwarded = list(inner.operands) == block.arguments
    return inner if forwarded and list(last.operands) == inner.results else None


def _print_reduce(w: OpPrinter, op: Operation) -> None:
    half = len(op.operands) // 2
    whole = len(op.regions) == 1 and op.regions[0].blocks and "dimensions" in op.properties
    if not whole or len(op.body().arguments) != 2 * half:
        w.generic_operation(op)
        return
    w.write("stablehlo.reduce")
    for index in range(half):
        w.write("(" if index == 0 else ", (")
        w.operand(op.operands[index])
        w.write(" init: ")
        w.operand(op.operands[index + half])
        w.write(")")
    inner = _short_reducer(op)
    if inner is not None:
        w.write(f" applies {inner.name}")
    w.write(f" across dimensions = {dims_text(ints(op.properties['dimensions']))}")
    w.attr_dict(op, elide=("dimensions",))
    w.write(" : ")
    w.functional_type(op)
    if inner is not None:
        return
    w.newline()
    w.write(" reducer")
    arguments = op.body().arguments
    for index in range(half):
        w.write("(")
        w.block_argument(arguments[index])
        w.write(", ")
        w.block_argument(arguments[index + half])
        w.write(") ")
    w.write(" ")
    w.region(op.regions[0], entry_arguments=False)


def _check_dimensions(op: Operation) -> None:
    if not op.operands or len(op.operands) % 2:
        raise Invalid("op expected as many init values as inputs, and at least one")
    rank, dimensions = tensor(op.operands[0].type).rank, ints(op.properties["dimensions"])
    for index, d in enumerate(dimensions):
        if not 0 <= d < rank:
            raise Invalid(f"Out-of-bounds dimension {d}, expected to be in range [0, {rank})")
        if d in dimensions[:index]:
            raise Invalid(f"Duplicate reduction dimension: {d}")


def _infer_reduce(op: Operation) -> list[Type]:
    half = len(op.operands) // 2
    inputs = [operand_tensor(op, i) for i in range(half)]
    dimensions = ints(op.properties["dimensions"])
    shape = tuple(s for d, s in enumerate(inputs[0].shape) if d not in dimensions)
    last = op.body().last
    if last is None or len(last.operands) != half:
        count = 0 if last is None else len(last.operands)
        raise Invalid(
            f"Reduction-region here must produce {half} tensors, but produces {count} instead"
        )
    return [TensorType(shape, tensor(value.type).element) for value in last.operands]


define_ops(
    OpSpec(
        name="stablehlo.reduce",
        parse=_parse_reduce,
        print=_print_reduce,
        results=None,
        regions=("body",),
        required=("dimensions",),
        traits=(_check_dimensions, check_reducer),
        infer=_infer_reduce,
        recursive_effects=True,
    ),
)


# reduce_window, select_and_scatter, map, sort


def _infer_reduce_window(op: Operation) -> list[Type]:
    """Infer the types of the results of a ``reduce_window``."""
    inputs = op.operands[: len(op.operands) // 2]
    if not inputs:
        raise Invalid("requires at least 1 input value")
    shapes = [tensor(value.type).shape for value in inputs]
    for index, shape in enumerate(shapes):
        if not compatible_shapes(shape, shapes[0]):
            raise Invalid(
                "expects all inputs to have compatible shapes. Shape at input-index "
                f"{index} is not compatible with shape at input-index 0"
            )
    sizes, rank = ints(op.properties["window_dimensions"]), len(shapes[0])
    if len(sizes) != rank:
        raise Invalid(
            "expects window-dimensions size == input rank, but got window-dimensions size: "
            f"{len(sizes)} and input: '{inputs[0].type}' with rank = {rank}."
        )
    found = windows(op, sizes, ("base_dilations", "window_dilations"))
    elements = accumulators(op, 0, inputs)
    return [
        TensorType(tuple(w.count(size) for w, size in zip(found, shape, strict=True)), element)
        for shape, element in zip(shapes, elements, strict=False)
    ]


def _infer_select_and_scatter(op: Operation) -> list[Type]:
    (source, *_) = op.operands
    return [TensorType(tensor(source.type).shape, accumulators(op, 1, [source])[0])]


def _infer_map(op: Operation) -> list[Type]:
    return [TensorType(tensor(op.operands[-1].type).shape, accumulators(op, 0, op.operands)[0])]


define_ops(
    OpSpec(
        name="stablehlo.reduce_window",
        results=None,
        regions=("body",),
        required=("window_dimensions",),
        optional=("window_strides", "base_dilations", "window_dilations", "padding"),
        check=check_reducer,
        infer=_infer_reduce_window,
        recursive_effects=True,
    ),
    OpSpec(
        name="stablehlo.select_and_scatter",
        operands=3,
        regions=("select", "scatter"),
        optional=("window_dimensions", "window_strides", "padding"),
        infer=_infer_select_and_scatter,
        recursive_effects=True,
    ),
    OpSpec(
        name="stablehlo.map",
        regions=("computation",),
        required=("dimensions",),
        traits=(same_shape,),
        infer=_infer_map,
        recursive_effects=True,
    ),
    OpSpec(
        name="stablehlo.sort",
        results=None,
        regions=("comparator",),
        optional=("dimension", "is_stable"),
        constraints={"dimension": ANY_DIMENSION},
        traits=(same_shape,),
        infer=same_as_operands,
        recursive_effects=True,
    ),
)
