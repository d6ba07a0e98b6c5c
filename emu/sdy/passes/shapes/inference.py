"""Types of results by those of operands, for operations that have no dynamic twin."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emu.mlir.attributes import DenseElementsAttr
from emu.mlir.dense import integer_values
from emu.mlir.ir import Operation
from emu.mlir.types import TensorType, Type
from emu.sdy.passes.shapes.errors import CannotRefine
from emu.stablehlo.checks import Invalid, integer, operand_tensor
from emu.stablehlo.contraction import dot_general_shape
from emu.stablehlo.convolution import convolution_shape
from emu.stablehlo.type_inference import implied_types

Shape = tuple[int | None, ...]

_AS_FIRST_OPERAND = {
    *("stablehlo.convert", "stablehlo.uniform_quantize", "stablehlo.uniform_dequantize"),
    *("sdy.sharding_constraint", "sdy.reshard", "sdy.propagation_barrier", "sdy.data_flow_edge"),
    *("sdy.all_gather", "sdy.all_reduce", "sdy.all_slice", "sdy.all_to_all", "sdy.reduce_scatter"),
    *("sdy.collective_permute", "sdy.replicated_to_unreduced", "sdy.sharded_to_unreduced"),
    *("mhlo.erf", "stablehlo.reduce_precision"),
}
_SAME_SHAPE_TARGETS = {"Sharding", "annotate_device_placement", "LayoutConstraint"}


def _all_gather(op: Operation) -> list[Shape]:
    groups, dim = op.properties.get("replica_groups"), integer(op, "all_gather_dim")
    if not isinstance(groups, DenseElementsAttr) or not isinstance(groups.type, TensorType):
        return []
    return [_scaled(v.type, dim, groups.type.static_shape[-1], 1) for v in op.operands]


def _reduce_scatter(op: Operation) -> list[Shape]:
    groups, dim = op.properties.get("replica_groups"), integer(op, "scatter_dimension")
    if not isinstance(groups, DenseElementsAttr) or not isinstance(groups.type, TensorType):
        return []
    return [_scaled(v.type, dim, 1, groups.type.static_shape[-1]) for v in op.operands]


def _scaled(type_: Type, dim: int, factor: int, divisor: int) -> Shape:
    assert isinstance(type_, TensorType)
    shape = list(type_.shape)
    size = shape[dim]
    shape[dim] = None if size is None else size * factor // divisor
    return tuple(shape)


def _fft(op: Operation) -> list[Shape]:
    source, result = operand_tensor(op), op.result.type
    assert isinstance(result, TensorType)
    lengths = op.properties["fft_length"]
    count = len(getattr(lengths, "values", ())) or 1
    # The transformed dimensions have the sizes that are written.
    return [(*source.shape[: source.rank - count], *result.shape[source.rank - count :])]


def _convolution(op: Operation) -> list[Shape]:
    shape = convolution_shape(op)
    return [] if shape is None else [tuple(shape)]


def _bitcast(op: Operation) -> list[Shape]:
    source, result = operand_tensor(op), op.result.type
    assert isinstance(result, TensorType)
    rank = min(source.rank, result.rank)
    return [(*source.shape[:rank], *result.shape[rank:])]


def _top_k(op: Operation) -> list[Shape]:
    shape = (*operand_tensor(op).shape[:-1], integer(op, "k"))
    return [shape, shape]


_SHAPES: dict[str, Callable[[Operation], Sequence[Shape]]] = {
    "stablehlo.dot_general": lambda op: [dot_general_shape(op)],
    "stablehlo.convolution": _convolution,
    "stablehlo.all_gather": _all_gather,
    "stablehlo.reduce_scatter": _reduce_scatter,
    "stablehlo.fft": _fft,
    "stablehlo.bitcast_convert": _bitcast,
    "chlo.top_k": _top_k,
}


def _inferred(op: Operation) -> Sequence[Shape | None]:
    """Return the shapes of the results, as far as they follow; none if nothing does."""
    if op.name in _SHAPES:
        return _SHAPES[op.name](op)
    found = implied_types(op)
    if found is not None:
        return [type_.shape if isinstance(type_, TensorType) else None for type_ in found]
    if op.name in _AS_FIRST_OPERAND:
        return [operand_tensor(op).shape]
    if op.name == "stablehlo.custom_call":
        target = getattr(op.properties.get("call_target_name"), "value", "")
        return [operand_tensor(op).shape] if target in _SAME_SHAPE_TARGETS else []
    if op.dialect == "chlo":  # operations on elements
        shapes = [v.type.shape for v in op.operands if isinstance(v.type, TensorType)]
        return [next((shape for shape in shapes if shape), ())] * len(op.results)
    return []


def infer(op: Operation) -> list[Type]:
    """Return the types of the results, as static as those of the operands make them.

    Raises:
        CannotRefine: Operands do not go together, or contradict the types that are written.
    """
    types = [result.type for result in op.results]
    if all(isinstance(type_, TensorType) and type_.is_static for type_ in types):
        return types
    try:
        shapes = _inferred(op)
    except Invalid as error:
        raise CannotRefine(f"{op.name}: {error}", op.location) from None
    if not shapes:
        return types
    return [merged(op, type_, shape) for type_, shape in zip(types, shapes, strict=True)]


def merged(op: Operation, type_: Type, shape: Shape | None) -> Type:
    """Return a type with the sizes that it and an inferred shape know.

    Raises:
        CannotRefine: They contradict each other.
    """
    if not isinstance(type_, TensorType) or shape is None:
        return type_
    if len(shape) != type_.rank:
        raise CannotRefine(
            f"{op.name}: the result has rank {len(shape)}, but is {type_}", op.location
        )
    sizes = tuple(new if old is None else old for old, new in zip(type_.shape, shape, strict=True))
    for dim, (size, new) in enumerate(zip(sizes, shape, strict=True)):
        if new not in (None, size):
            raise CannotRefine(
                f"{op.name}: dimension {dim} of the result has {new} elements, but {size} are written",
                op.location,
            )
    static = None not in sizes
    return TensorType(sizes, type_.element, None if static else type_.encoding)


def operand_indices(op: Operation, name: str) -> tuple[int, ...]:
    """Return the integers of an attribute of any form; none where it is absent."""
    attribute = op.attribute(name)
    if isinstance(attribute, DenseElementsAttr):
        return tuple(integer_values(attribute))
    return ()
