"""Conversion of implicit batch dimensions of gather and scatter to explicit ones.

A gather whose indices begin with an iota along the batch dimension reads row
``b`` for row ``b``. With explicit batching dimensions, propagation sees that this
dimension of operand, indices and result is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from emu.mlir.attributes import BoolAttr, DenseArrayAttr, IntegerAttr
from emu.mlir.diagnostics import Location
from emu.mlir.ir import Operation, Value
from emu.mlir.transforms.rewriting import Pattern, PatternSet, Rewriter, rewrite_greedily
from emu.mlir.types import IntegerType, TensorType
from emu.sdy.passes.base import FunctionPass, Session
from emu.stablehlo.attributes import GatherDimensionNumbers, ScatterDimensionNumbers

_I64 = IntegerType(64)
_CONCATENATE = "stablehlo.concatenate"
_FLAGS = ("indices_are_sorted", "unique_indices")
"""Flags that are false by default."""


class ExplicitGatherScatterBatching(FunctionPass, name="sdy-explicit-gather-scatter-batching"):
    """Replace an index that only counts the batch by batching dimensions.

    Only dimension 0 of the operand and of the indices is considered.
    """

    def run(self, op: Operation, session: Session) -> None:
        """Rewrite the gathers and scatters of a function."""
        patterns = PatternSet(
            [
                Pattern(_rewrite_gather, "stablehlo.gather"),
                Pattern(_rewrite_scatter, "stablehlo.scatter"),
            ]
        )
        for region in op.regions:
            if region.blocks:
                rewrite_greedily(region, patterns)


def _rewrite_gather(op: Operation, rewriter: Rewriter) -> bool:
    numbers = op.properties["dimension_numbers"]
    assert isinstance(numbers, GatherDimensionNumbers)  # checked by the verifier
    operand, indices = op.operands
    place = _batch_component(operand, indices, numbers.index_vector_dim, numbers.start_index_map)
    if numbers.operand_batching_dims or place is None or 0 not in numbers.collapsed_slice_dims:
        return False
    rest = _without_component(rewriter, op, indices, numbers.index_vector_dim, place)
    new_numbers = replace(
        numbers,
        collapsed_slice_dims=_without_zero(numbers.collapsed_slice_dims),
        operand_batching_dims=(0,),
        start_indices_batching_dims=(0,),
        start_index_map=_without_zero(numbers.start_index_map),
    )
    new = _like(op, [operand, rest], _FLAGS[:1], {"dimension_numbers": new_numbers})
    rewriter.insert_before(op, new)
    rewriter.replace(op, new.results)
    return True


def _rewrite_scatter(op: Operation, rewriter: Rewriter) -> bool:
    numbers = op.properties["scatter_dimension_numbers"]
    assert isinstance(numbers, ScatterDimensionNumbers)  # checked by the verifier
    count = len(op.results)
    indices = op.operands[count]
    place = _batch_component(
        op.operands[0],
        indices,
        numbers.index_vector_dim,
        numbers.scatter_dims_to_operand_dims,
    )
    if numbers.input_batching_dims or place is None or 0 not in numbers.inserted_window_dims:
        return False
    rest = _without_component(rewriter, op, indices, numbers.index_vector_dim, place)
    new_numbers = replace(
        numbers,
        inserted_window_dims=_without_zero(numbers.inserted_window_dims),
        input_batching_dims=(0,),
        scatter_indices_batching_dims=(0,),
        scatter_dims_to_operand_dims=_without_zero(numbers.scatter_dims_to_operand_dims),
    )
    operands = [*op.operands[:count], rest, *op.operands[count + 1 :]]
    new = _like(op, operands, _FLAGS, {"scatter_dimension_numbers": new_numbers})
    rewriter.insert_before(op, new)
    new.add_region().take_body(op.regions[0])
    rewriter.replace(op, new.results)
    return True


def _like(
    op: Operation,
    operands: Sequence[Value],
    flags: Sequence[str],
    numbers: dict[str, GatherDimensionNumbers] | dict[str, ScatterDimensionNumbers],
) -> Operation:
    """Return a copy with other operands and dimension numbers, and with explicit flags."""
    return Operation(
        op.name,
        operands,
        [result.type for result in op.results],
        properties={**dict.fromkeys(flags, BoolAttr(False)), **op.properties, **numbers},
        attributes=op.attributes,
        location=op.location,
    )


def _without_zero(dims: Sequence[int]) -> tuple[int, ...]:
    place = dims.index(0)
    return (*dims[:place], *dims[place + 1 :])


def _batch_component(
    operand: Value, indices: Value, vector_dim: int, index_map: Sequence[int]
) -> int | None:
    """Return the component of the index vectors that only counts the batch, or None."""
    source, vectors = operand.type, indices.type
    if not isinstance(source, TensorType) or not isinstance(vectors, TensorType):
        return None
    if source.rank == 0 or vectors.rank == 0 or vector_dim >= vectors.rank:
        return None
    components = vectors.shape[vector_dim]
    # The last component cannot be dropped.
    if components is None or components <= 1 or vectors.shape[0] != source.shape[0]:
        return None
    if 0 not in index_map:
        return None
    place = index_map.index(0)
    return place if _counts_batch(indices, vector_dim, place) else None


def _counts_batch(indices: Value, vector_dim: int, place: int) -> bool:
    """Return whether a component comes from an iota along dimension 0."""
    component = indices
    defining = indices.defining_op
    if defining is not None and defining.name == _CONCATENATE:
        if _integer(defining, "dimension") != vector_dim or place >= len(defining.operands):
            return False
        component = defining.operands[place]
    source = _index_source(component).defining_op
    return (
        source is not None
        and source.name == "stablehlo.iota"
        and _integer(source, "iota_dimension") == 0
    )


def _integer(op: Operation, name: str) -> int:
    value = op.properties[name]
    assert isinstance(value, IntegerAttr)  # checked by the verifier
    return value.value


def _index_source(value: Value) -> Value:
    """Return the value behind reshapes, broadcasts and conversions of an index."""
    while (op := value.defining_op) is not None:
        if op.name in ("stablehlo.reshape", "stablehlo.broadcast_in_dim"):
            value = op.operands[0]
        elif op.name == "stablehlo.clamp":
            value = op.operands[1]
        elif op.name == "stablehlo.select":
            on_true, on_false = op.operands[1:]
            false_op = on_false.defining_op
            is_iota = false_op is not None and false_op.name == "stablehlo.iota"
            value = on_false if is_iota else on_true
        else:
            break
    return value


def _without_component(
    rewriter: Rewriter, op: Operation, indices: Value, vector_dim: int, place: int
) -> Value:
    """Return the index vectors without one component, computed by operations before ``op``."""
    type_ = indices.type
    assert isinstance(type_, TensorType)  # looked at before
    total = type_.shape[vector_dim]
    assert total is not None
    defining = indices.defining_op
    parts: list[Value]
    if (
        defining is not None
        and defining.name == _CONCATENATE
        and _integer(defining, "dimension") == vector_dim
        and len(defining.operands) == total
    ):
        parts = [value for i, value in enumerate(defining.operands) if i != place]
    else:
        parts = [
            rewriter.insert_before(op, _slice(indices, vector_dim, start, stop, op.location)).result
            for start, stop in ((0, place), (place + 1, total))
            if start < stop
        ]
    if len(parts) == 1:
        return parts[0]
    joined = Operation(
        _CONCATENATE,
        parts,
        [_resized(type_, vector_dim, total - 1)],
        properties={"dimension": IntegerAttr(vector_dim, _I64)},
        location=op.location,
    )
    return rewriter.insert_before(op, joined).result


def _resized(type_: TensorType, dim: int, size: int) -> TensorType:
    shape = (*type_.shape[:dim], size, *type_.shape[dim + 1 :])
    return TensorType(shape, type_.element)


def _slice(value: Value, dim: int, start: int, stop: int, location: Location) -> Operation:
    type_ = value.type
    assert isinstance(type_, TensorType)  # looked at before
    starts = [0] * type_.rank
    limits = [-(2**63) if d is None else d for d in type_.shape]  # as MLIR says "dynamic"
    starts[dim], limits[dim] = start, stop
    return Operation(
        "stablehlo.slice",
        [value],
        [_resized(type_, dim, stop - start)],
        properties={
            "start_indices": DenseArrayAttr(_I64, tuple(starts)),
            "limit_indices": DenseArrayAttr(_I64, tuple(limits)),
            "strides": DenseArrayAttr(_I64, (1,) * type_.rank),
        },
        location=location,
    )
