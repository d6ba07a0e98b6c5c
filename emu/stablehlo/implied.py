"""The types of results that follow from operands, where StableHLO infers them.

Not every operation's do: those of a ``reshape`` or a ``dot_general`` are written.
"""

from __future__ import annotations

from collections.abc import Callable

from emu.mlir.ir import Operation
from emu.mlir.types import TensorType, Type
from emu.stablehlo.attributes import GatherDimensionNumbers
from emu.stablehlo.elementwise import ACCURATE, BINARY, UNARY
from emu.stablehlo.inference import RULES, Invalid, integer, tensor
from emu.stablehlo.syntax import ints
from emu.stablehlo.windows import accumulators, reduce_window_types

__all__ = ["CHECKED", "implied_types"]


def implied_types(op: Operation) -> list[Type] | None:
    """The types that an operation's results have to have, by its operands.

    Args:
        op: Has its operands, attributes and regions.

    Returns:
        None if they do not follow from these.

    Raises:
        Invalid: The operands do not go together; the message says why.
    """
    name = op.name.removeprefix("stablehlo.")
    if name in _COMMON:
        return _common(op)
    rule = CHECKED.get(name)
    return None if rule is None else rule(op)


def _common(op: Operation) -> list[Type]:
    """All operands are of one type, of which some know more than others."""
    types = [v.type for v in op.operands if isinstance(v.type, TensorType)]
    if not types:
        return [op.operands[0].type]
    first = types[0]
    shape = list(first.shape)
    for other in types[1:]:
        if other.rank != first.rank:
            raise Invalid(f"Mismatched ranks of types{first.rank} vs {other.rank}")
        for dim, (left, right) in enumerate(zip(shape, other.shape, strict=True)):
            if left is not None and right is not None and left != right:
                raise Invalid(f"Mismatched dimension sizes {left} and {right} in dimension {dim}")
            shape[dim] = right if left is None else left
    return [TensorType(tuple(shape), first.element)]


def _same_as_operands(op: Operation) -> list[Type]:
    return [value.type for value in op.operands]


def _all_reduce(op: Operation) -> list[Type]:
    element = accumulators(op, 0, op.operands)[0]
    return [TensorType(tensor(value.type).shape, element) for value in op.operands]


def _scatter(op: Operation) -> list[Type]:
    inputs = op.operands[: len(op.operands) // 2]
    elements = accumulators(op, 0, inputs)
    return [
        TensorType(tensor(value.type).shape, element)
        for value, element in zip(inputs, elements, strict=False)
    ]


def _select_and_scatter(op: Operation) -> list[Type]:
    (source, *_) = op.operands
    return [TensorType(tensor(source.type).shape, accumulators(op, 1, [source])[0])]


def _map(op: Operation) -> list[Type]:
    return [TensorType(tensor(op.operands[-1].type).shape, accumulators(op, 0, op.operands)[0])]


def _gather(op: Operation) -> list[Type]:
    numbers = op.properties["dimension_numbers"]
    if not isinstance(numbers, GatherDimensionNumbers):
        raise Invalid("attribute 'dimension_numbers' failed to satisfy constraint")
    source, indices = (tensor(value.type) for value in op.operands)
    offset_dims = numbers.offset_dims
    dropped = numbers.collapsed_slice_dims + numbers.operand_batching_dims
    if len(offset_dims) + len(dropped) != source.rank:
        raise Invalid(
            f"offset_dims size ({len(offset_dims)}) plus collapse_slice_dims size "
            f"({len(numbers.collapsed_slice_dims)}) plus operand_batching_dims size "
            f"({len(numbers.operand_batching_dims)}) is not equal to operand rank ({source.rank})"
        )
    slices = ints(op.properties["slice_sizes"])
    _check_slices(slices, source)
    batch = [s for dim, s in enumerate(indices.shape) if dim != numbers.index_vector_dim]
    rank = len(offset_dims) + len(batch)
    for dim in offset_dims:
        if not 0 <= dim < rank:
            raise Invalid(
                "Expects each element of offset_dims to be in range [0, implied-result-rank) i.e. "
                f"[0, {rank}). got: {dim}."
            )
    sizes = {
        **dict(
            zip(offset_dims, (s for d, s in enumerate(slices) if d not in dropped), strict=False)
        ),
        **dict(zip((d for d in range(rank) if d not in offset_dims), batch, strict=False)),
    }
    return [TensorType(tuple(sizes.get(dim) for dim in range(rank)), source.element)]


def _check_slices(slices: tuple[int, ...], source: TensorType) -> None:
    """Raise `Invalid` if slices of these sizes are not to be had."""
    if len(slices) != source.rank:
        raise Invalid(f"slice_sizes size ({len(slices)}) not equal to operand rank ({source.rank})")
    for dim, (size, whole) in enumerate(zip(slices, source.shape, strict=True)):
        if size < 0 or (whole is not None and size > whole):
            raise Invalid(
                f"slice size ({size}) is out of bounds for operand dimension ({whole}) at index "
                f"{dim}"
            )


def _triangular_solve(op: Operation) -> list[Type]:
    return [op.operands[1].type]


def _batch_norm(op: Operation) -> list[Type]:
    source = tensor(op.operands[0].type)
    feature = integer(op, "feature_index")
    if not 0 <= feature < source.rank:
        raise Invalid(
            "expects featureIndex to be smaller than the rank of multi-dimensional operands; got "
            f"featureIndex {feature}, and rank {source.rank}."
        )
    channel: Type = TensorType((source.shape[feature],), source.element)
    return [source, channel, channel][: len(op.results)]


CHECKED: dict[str, Callable[[Operation], list[Type]]] = {
    **RULES,
    **dict.fromkeys(("optimization_barrier", "sort", "while"), _same_as_operands),
    **dict.fromkeys(
        ("batch_norm_grad", "batch_norm_inference", "batch_norm_training"), _batch_norm
    ),
    "all_reduce": _all_reduce,
    "gather": _gather,
    "map": _map,
    "reduce_window": reduce_window_types,
    "scatter": _scatter,
    "select_and_scatter": _select_and_scatter,
    "triangular_solve": _triangular_solve,
}
"""By name without ``stablehlo.``: those that the verifier compares with the results'."""

_COMMON = {*ACCURATE, *BINARY, *UNARY, "reduce_precision"} - {
    "abs",
    "convert",
    "imag",
    "real",
    "uniform_dequantize",
    "uniform_quantize",
}
