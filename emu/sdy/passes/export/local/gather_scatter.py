"""Conversion of gather and scatter.

Indices refer to the global operand. A device with a shard of an indexed dimension
subtracts the offset of its shard. A gather replaces elements outside its shard by
zero, and an all-reduce combines the devices' elements; a scatter ignores indices
outside its shard anyway.

Updates that are sharded where the operand is not give partial results, each of
which includes the operand: so all devices but one start from the reduction's
identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emu.mlir.attributes import Attribute, BoolAttr
from emu.mlir.ir import Operation, Value
from emu.mlir.types import TensorType, Type
from emu.sdy.dialect.attributes import AxisRef, Mesh, TensorSharding
from emu.sdy.dialect.axes import total_size
from emu.sdy.passes.builder import I1, Builder, tensor
from emu.sdy.passes.export.local.contraction import check_all_reduce
from emu.sdy.passes.export.local.identities import identity
from emu.sdy.passes.export.local.localization import (
    CannotLocalize,
    Localization,
    axes_of,
    is_replicated,
)
from emu.sdy.rules.gather_scatter import scatter_reduction
from emu.sdy.rules.reading import attribute, integers
from emu.stablehlo.attributes import GatherDimensionNumbers, ScatterDimensionNumbers
from emu.stablehlo.syntax import array_of_ints

# Local indices


@dataclass(frozen=True, slots=True)
class _Indices:
    """The indices of a gather or scatter, with the operand's sharding.

    Attributes:
        state: State of the conversion.
        op: The gather or scatter.
        value: The indices.
        mesh: The mesh of the operand.
        sharding: The sharding of the operand.
        whole: The global shape of the operand.
        shard: The shape of a shard of the operand.
        vector_dim: The dimension of the indices that holds coordinates.
        index_map: The operand's dimensions to which the coordinates belong.
        cut: The sharded dimensions of the operand along which windows have one
            element.
    """

    state: Localization
    op: Operation
    value: Value
    mesh: Mesh
    sharding: TensorSharding
    whole: tuple[int, ...]
    shard: tuple[int, ...]
    vector_dim: int
    index_map: Sequence[int]
    sharded_dims: Sequence[int]

    @property
    def element(self) -> Type:
        """Type of the indices."""
        return tensor(self.value).element

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the indices."""
        return tensor(self.value).static_shape

    @property
    def is_indexed(self) -> bool:
        """Whether any of the sharded dimensions is indexed."""
        return any(dim in self.index_map for dim in self.sharded_dims)

    def offset(self, dim: int) -> Value:
        """Return the offset of the device's shard along a dimension."""
        axes, size = axes_of(self.sharding, dim), self.shard[dim]
        indices = self.state.shard_indices(self.op, self.mesh, axes)
        return self.state.by_device(Builder.before(self.op), [index * size for index in indices])

    def bounds(self, *, upper: bool) -> tuple[list[Value], list[Value]]:
        """Return the least index in the shard, and with ``upper`` also the greatest one.

        For other than the sharded dimensions they are those of the global operand.
        """
        build = Builder.before(self.op)
        low: list[Value] = []
        high: list[Value] = []
        for dim in self.index_map:
            if dim not in self.sharded_dims:
                low.append(build.scalar(0, self.element))
                if upper:
                    high.append(build.scalar(self.whole[dim] - 1, self.element))
                continue
            offset = build.convert(self.offset(dim), self.element)
            low.append(offset)
            if upper:
                last = build.scalar(self.shard[dim] - 1, self.element)
                high.append(build.elementwise("add", offset, last))
        return low, high

    def spread(self, bounds: Sequence[Value]) -> Value:
        """Return the bounds broadcast to the shape of the indices."""
        build = Builder.before(self.op)
        if self.vector_dim >= len(self.shape) or self.shape[self.vector_dim] == 1:
            return build.broadcast(bounds[0], self.shape)
        vector = build.concatenate([build.reshape(b, [1]) for b in bounds], [len(bounds)])
        return build.broadcast(vector, self.shape, [self.vector_dim])

    def clamped(self) -> Value:
        """Return the indices, clamped to the global operand as in a gather."""
        build = Builder.before(self.op)
        last = [self.whole[dim] - 1 for dim in self.index_map]
        low = build.integers([0], self.shape, self.element)
        high = self._constant(build, last)
        return build.op("clamp", [low, self.value, high], [self.value.type]).result

    def _constant(self, build: Builder, values: Sequence[int]) -> Value:
        if self.vector_dim < len(self.shape) and len(values) > 1:
            vector = build.integers(values, (len(values),), self.element)
            return build.broadcast(vector, self.shape, [self.vector_dim])
        return build.integers(values[:1], self.shape, self.element)


def _gather_indices_and_mask(indices: _Indices) -> tuple[Value, Value]:
    """Return local indices, and a mask of those (or of the devices) in the shard."""
    build = Builder.before(indices.op)
    local = indices.value
    mask: Value | None = None
    if indices.is_indexed:
        clamped = indices.clamped()
        low, high = indices.bounds(upper=True)
        least, greatest = indices.spread(low), indices.spread(high)
        local = build.elementwise("subtract", clamped, least)
        above = build.compare(clamped, least, "GE")
        below = build.compare(clamped, greatest, "LE")
        mask = build.elementwise("and", above, below)
    of_device: Value | None = None
    for dim in indices.sharded_dims:
        if dim not in indices.index_map:
            # The dimension is not indexed, so its first element is meant.
            first = build.compare(*_with_zero(build, indices.offset(dim)), "EQ")
            of_device = first if of_device is None else build.elementwise("and", of_device, first)
    if of_device is not None and mask is not None:
        mask = build.elementwise("and", mask, build.broadcast(of_device, tensor(mask).shape))
    found = of_device if mask is None else mask
    assert found is not None  # each sharded dimension is of one of the two kinds
    return local, found


def _with_zero(build: Builder, value: Value) -> tuple[Value, Value]:
    return value, build.scalar(0, tensor(value).element)


# Gather


def localize_gather(state: Localization, op: Operation) -> None:
    """Convert: gather the elements in the shard, and combine those of all shards."""
    source = op.operands[0]
    sharding = state.sharding(source)
    if sharding is None or sharding.is_fully_replicated:
        state.localize(op)
        return
    mesh = state.mesh(sharding)
    numbers = attribute(op, "dimension_numbers", GatherDimensionNumbers)
    sizes = integers(op, "slice_sizes") or ()
    sharded_dims = [
        dim
        for dim, size in enumerate(sizes)
        if size == 1
        and dim not in numbers.operand_batching_dims
        and total_size(axes_of(sharding, dim), mesh) > 1
    ]
    local_sizes = _local_slice_sizes(state, op, sharding, mesh)
    value, start = state.operands(op)
    if not sharded_dims:
        gathered = _make_gather(state, op, value, start, local_sizes)
        state.replace(op, [gathered])
        return
    axes = [axis for dim in sharded_dims for axis in axes_of(sharding, dim)]
    dims_text = "sharded collapsed operand dimensions of the gather"
    check_all_reduce(op, axes, mesh, "the gather", dims_text)
    indices = _Indices(
        state,
        op,
        start,
        mesh,
        sharding,
        state.global_type(source).static_shape,
        tensor(value).static_shape,
        numbers.index_vector_dim,
        numbers.start_index_map,
        sharded_dims,
    )
    local, mask = _gather_indices_and_mask(indices)
    gathered = _make_gather(state, op, value, local, local_sizes)
    state.replace(op, [_masked(op, numbers, gathered, mask)])


def _local_slice_sizes(
    state: Localization, op: Operation, sharding: TensorSharding, mesh: Mesh
) -> list[int]:
    numbers = attribute(op, "dimension_numbers", GatherDimensionNumbers)
    shape = state.global_type(op.operands[0]).static_shape
    sizes = list(integers(op, "slice_sizes") or ())
    for dim, size in enumerate(sizes):
        axes = axes_of(sharding, dim)
        if size == 1 or dim in numbers.operand_batching_dims or not axes:
            continue
        shards = total_size(axes, mesh)
        if size != shape[dim] or size % shards:
            raise CannotLocalize(
                f"dimension {dim} of the operand is sharded, but slices have {size} of its "
                f"{shape[dim]} elements",
                illegal=False,
            )
        sizes[dim] = size // shards
    return sizes


def _make_gather(
    state: Localization, op: Operation, value: Value, start: Value, sizes: Sequence[int]
) -> Value:
    properties = {
        "dimension_numbers": op.properties["dimension_numbers"],
        "slice_sizes": array_of_ints(sizes),
        "indices_are_sorted": op.properties.get("indices_are_sorted", BoolAttr(False)),
    }
    types = [state.local_type(op.result)]
    new = Builder.before(op).op("gather", [value, start], types, properties)
    new.attributes.update(op.attributes)
    return new.result


def _masked(op: Operation, numbers: GatherDimensionNumbers, gathered: Value, mask: Value) -> Value:
    """Return the gathered elements, with zeros where the mask is false."""
    build = Builder.before(op)
    shape, vector_dim = tensor(mask).shape, numbers.index_vector_dim
    if vector_dim < len(shape):
        mask = _all_along(build, mask, vector_dim)
    result = tensor(gathered)
    dims: list[int] = []
    if tensor(mask).rank:
        dims = [dim for dim in range(result.rank) if dim not in numbers.offset_dims]
    spread = build.broadcast(mask, result.shape, dims)
    return build.select(spread, gathered, build.zeros(result))


def _all_along(build: Builder, mask: Value, dim: int) -> Value:
    """Return the conjunction along a dimension, which is dropped."""
    shape = tensor(mask).shape
    start = build.scalar(1, I1)
    type_ = TensorType((*shape[:dim], *shape[dim + 1 :]), I1)
    properties: dict[str, Attribute] = {"dimensions": array_of_ints([dim])}
    reduced = build.op("reduce", [mask, start], [type_], properties)
    build.add_body(reduced, I1, "and")
    return reduced.result


# Scatter


def localize_scatter(state: Localization, op: Operation) -> None:
    """Convert: scatter the updates for the device's shard."""
    count = len(op.results)
    source = state.sharding(op.operands[0])
    updates = state.sharding(op.operands[count + 1])
    if is_replicated(source) and is_replicated(updates):
        state.localize(op)
        return
    mesh = state.mesh(updates if source is None else source, of=".")
    axes = _partial_axes(state, op, updates, source)
    if source is None or source.is_fully_replicated:
        if not axes:
            state.localize(op)
            return
        sharded_dims: list[int] = []
    else:
        sharded_dims = _indexed_sharded_dims(state, op, source, mesh)
        if not sharded_dims and not axes:
            state.localize(op)
            return
    values = state.operands(op)
    if axes:
        values[:count] = _keep_on_one_device(state, op, values[:count], mesh, axes)
    if source is not None and sharded_dims:
        values[count] = _local_scatter_indices(state, op, values, source, mesh, sharded_dims)
    _make_scatter(state, op, values)


def _partial_axes(
    state: Localization,
    op: Operation,
    updates: TensorSharding | None,
    source: TensorSharding | None,
) -> list[AxisRef]:
    """Return the axes along which the updates are sharded, but not the operand.

    Only dimensions of the updates that number windows count.
    """
    numbers = attribute(op, "scatter_dimension_numbers", ScatterDimensionNumbers)
    if updates is None:
        return []
    of_source = {axis for dim in source.dims for axis in dim.axes} if source is not None else ()
    return [
        axis
        for dim in range(updates.rank)
        if dim not in numbers.update_window_dims
        for axis in axes_of(updates, dim)
        if axis not in of_source
    ]


def _indexed_sharded_dims(
    state: Localization, op: Operation, source: TensorSharding, mesh: Mesh
) -> list[int]:
    numbers = attribute(op, "scatter_dimension_numbers", ScatterDimensionNumbers)
    found = []
    for dim in range(source.rank):
        axes = axes_of(source, dim)
        if not axes:
            continue
        if total_size(axes, mesh) == 1:
            raise CannotLocalize(
                "We should have removed trivial sharding in a previous pass.", illegal=False
            )
        if dim in numbers.scatter_dims_to_operand_dims:
            found.append(dim)
        elif dim in numbers.inserted_window_dims:
            raise CannotLocalize(
                f"sharding operand dimension {dim} that is not indexed but in inserted window "
                "dimension is not supported."
            )
    return found


def _keep_on_one_device(
    state: Localization,
    op: Operation,
    values: Sequence[Value],
    mesh: Mesh,
    axes: Sequence[AxisRef],
) -> list[Value]:
    """Return the operands on one device along each axis, and the identity on the others."""
    build = Builder.before(op)
    first = tensor(values[0])
    reduction = scatter_reduction(op)
    start = (
        None
        if reduction is None
        else identity(reduction.name, first.element, exact=state.options.fix_wrong_results)
    )
    if start is None:
        raise CannotLocalize("failed to get scatter reduction identity.", named=False)
    scalar = build.constant(start, start.type)
    number = state.device_id(build)
    leads = [int(index == 0) for index in state.shard_indices(op, mesh, axes)]
    leads_here = build.entry_at(build.integers(leads, (len(leads),), I1), number)
    where = build.broadcast(leads_here, first.shape, [0])
    neutral = build.broadcast(scalar, first.shape)
    return [build.select(where, value, neutral) for value in values]


def _local_scatter_indices(
    state: Localization,
    op: Operation,
    values: Sequence[Value],
    source: TensorSharding,
    mesh: Mesh,
    sharded_dims: Sequence[int],
) -> Value:
    """Return indices relative to the shard; those outside stay outside."""
    numbers = attribute(op, "scatter_dimension_numbers", ScatterDimensionNumbers)
    indices = _Indices(
        state,
        op,
        values[len(op.results)],
        mesh,
        source,
        state.global_type(op.operands[0]).static_shape,
        tensor(values[0]).static_shape,
        numbers.index_vector_dim,
        numbers.scatter_dims_to_operand_dims,
        sharded_dims,
    )
    low, _ = indices.bounds(upper=False)
    return Builder.before(op).elementwise("subtract", indices.value, indices.spread(low))


def _make_scatter(state: Localization, op: Operation, values: Sequence[Value]) -> None:
    flags = ("indices_are_sorted", "unique_indices")
    properties = {
        "scatter_dimension_numbers": op.properties["scatter_dimension_numbers"],
        **{flag: op.properties.get(flag, BoolAttr(False)) for flag in flags},
    }
    types = [state.local_type(result) for result in op.results]
    new = Builder.before(op).op("scatter", values, types, properties)
    new.attributes.update(op.attributes)
    state.move_regions(op, new)
    state.replace(op, new.results)
