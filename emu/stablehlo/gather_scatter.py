"""Operations that take or change elements at computed places."""

from __future__ import annotations

from emu.mlir.ir import Operation
from emu.mlir.types import TensorType, Type
from emu.stablehlo.attributes import GatherDimensionNumbers
from emu.stablehlo.checks import Invalid, tensor
from emu.stablehlo.dialect import define_ops
from emu.stablehlo.reducers import accumulators
from emu.stablehlo.spec import AtLeast, OpSpec
from emu.stablehlo.syntax import ints


def _infer_gather(op: Operation) -> list[Type]:
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
    # The slice's remaining dimensions go to offset_dims in order; the batch dimensions of the indices
    # fill the others.
    sizes = {
        **dict(
            zip(offset_dims, (s for d, s in enumerate(slices) if d not in dropped), strict=False)
        ),
        **dict(zip((d for d in range(rank) if d not in offset_dims), batch, strict=False)),
    }
    return [TensorType(tuple(sizes.get(dim) for dim in range(rank)), source.element)]


def _check_slices(slices: tuple[int, ...], source: TensorType) -> None:
    """Check that slices of these sizes fit into the operand."""
    if len(slices) != source.rank:
        raise Invalid(f"slice_sizes size ({len(slices)}) not equal to operand rank ({source.rank})")
    for dim, (size, whole) in enumerate(zip(slices, source.shape, strict=True)):
        if size < 0 or (whole is not None and size > whole):
            raise Invalid(
                f"slice size ({size}) is out of bounds for operand dimension ({whole}) at index "
                f"{dim}"
            )


def _infer_scatter(op: Operation) -> list[Type]:
    inputs = op.operands[: len(op.operands) // 2]
    elements = accumulators(op, 0, inputs)
    return [
        TensorType(tensor(value.type).shape, element)
        for value, element in zip(inputs, elements, strict=False)
    ]


define_ops(
    OpSpec(
        name="stablehlo.gather",
        operands=2,
        required=("dimension_numbers", "slice_sizes"),
        optional=("indices_are_sorted",),
        infer=_infer_gather,
        pure=True,
    ),
    OpSpec(
        name="stablehlo.dynamic_gather",
        operands=3,
        required=("dimension_numbers",),
        optional=("indices_are_sorted",),
        pure=True,
    ),
    OpSpec(
        name="stablehlo.scatter",
        operands=AtLeast(1),
        results=None,
        regions=("update_computation",),
        required=("scatter_dimension_numbers",),
        optional=("indices_are_sorted", "unique_indices"),
        infer=_infer_scatter,
        recursive_effects=True,
    ),
    OpSpec(
        name="stablehlo.torch_index_select",
        operands=2,
        required=("dim", "batch_dims"),
        pure=True,
    ),
)
