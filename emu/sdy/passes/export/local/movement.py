"""Conversion of operations that create, slice, pad and join arrays, and of windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emu.mlir.ir import Operation, Value
from emu.mlir.types import TensorType
from emu.sdy.dialect.attributes import AxisRef, Mesh, TensorSharding
from emu.sdy.dialect.axes import total_size
from emu.sdy.passes.builder import Builder, tensor
from emu.sdy.passes.export.local.collectives import dynamic_slice_along, gathered_along
from emu.sdy.passes.export.local.localization import (
    CannotLocalize,
    Localization,
    axes_of,
    is_replicated,
)
from emu.sdy.rules.reading import integer, integers
from emu.stablehlo.syntax import array_of_ints
from emu.stablehlo.windows import padding


def _ints(op: Operation, name: str) -> tuple[int, ...]:
    return integers(op, name) or ()


def _axes_text(axes: Sequence[AxisRef]) -> str:
    names = [
        f'"{axis.name}"' + (f":({s.pre_size}){s.size}" if (s := axis.sub_axis) else "")
        for axis in axes
    ]
    return f"[{', '.join(names)}]"


def _mismatch(dim: int, source: Sequence[AxisRef], target: Sequence[AxisRef], what: str) -> str:
    return (
        f"dimension {dim} has mismatched sharding axes ({_axes_text(source)} vs "
        f"{_axes_text(target)}). This requires a {what} which should have been handled by "
        "previous passes."
    )


# Concatenating and slicing


def localize_concatenate(state: Localization, op: Operation) -> None:
    """Convert a concatenation along a dimension that is not sharded."""
    target = state.sharding(op.result)
    along = integer(op, "dimension")
    if axes_of(target, along):
        raise CannotLocalize(
            f"dimension {along} is sharded but the concatenation is on this dimension."
        )
    for index, value in enumerate(op.operands):
        source = state.sharding(value)
        if source is None or source.is_fully_replicated:
            continue
        if axes_of(source, along):
            raise CannotLocalize(
                f"operand {index} is sharded on concatenation dimension {along}. This is not "
                "supported."
            )
        for dim in range(source.rank):
            if dim != along and axes_of(source, dim) != axes_of(target, dim):
                raise CannotLocalize(
                    _mismatch(dim, axes_of(source, dim), axes_of(target, dim), "reshard")
                )
    state.localize(op)


def _sliced_axes(
    source: TensorSharding | None, target: TensorSharding | None, dim: int, *, is_whole: bool
) -> Sequence[AxisRef]:
    """Return the axes of a dimension, which a slice must keep whole if there are any."""
    axes, others = axes_of(source, dim), axes_of(target, dim)
    if axes != others:
        raise CannotLocalize(_mismatch(dim, axes, others, "reshard"))
    if axes and not is_whole:
        raise CannotLocalize(
            f"dimension {dim} is sharded but the slice is not a full slice and requires "
            "device communication."
        )
    return axes


def localize_slice(state: Localization, op: Operation) -> None:
    """Convert a slice along dimensions that are not sharded."""
    source, target = state.sharding(op.operands[0]), state.sharding(op.result)
    if is_replicated(source) and is_replicated(target):
        state.localize(op)
        return
    value = state.current(op.operands[0])
    starts, limits = _ints(op, "start_indices"), _ints(op, "limit_indices")
    strides = _ints(op, "strides")
    local_limits = []
    sizes = zip(state.global_type(op.operands[0]).shape, tensor(value).static_shape, strict=True)
    for dim, (size, local_size) in enumerate(sizes):
        is_whole = not starts[dim] and limits[dim] == size
        # Along axes of size 1, no device has other elements than the first.
        is_local = is_whole or (
            source is not None and source.dims[dim].sharded_size(state.mesh(source)) == 1
        )
        axes = _sliced_axes(source, target, dim, is_whole=is_local)
        if axes and is_whole and state.options.fix_wrong_results and local_size % strides[dim]:
            raise CannotLocalize(
                f"dimension {dim} is sharded, and the stride {strides[dim]} does not divide the "
                f"size {local_size} of a shard: it begins at another element on each device."
            )
        local_limits.append(local_size if axes and is_whole else limits[dim])
    properties = {
        "start_indices": op.properties["start_indices"],
        "limit_indices": array_of_ints(local_limits),
        "strides": op.properties["strides"],
    }
    new = Builder.before(op).op("slice", [value], [state.local_type(op.result)], properties)
    state.replace(op, new.results)


def localize_dynamic_slice(state: Localization, op: Operation) -> None:
    """Convert a dynamic slice that keeps sharded dimensions whole.

    Shardy leaves the global sizes there, which its own verifier rejects.
    """
    source, target = state.sharding(op.operands[0]), state.sharding(op.result)
    if is_replicated(source) and is_replicated(target):
        state.localize(op)
        return
    sizes = list(_ints(op, "slice_sizes"))
    local = state.local_tensor(op.operands[0]).static_shape
    for dim, (size, local_size) in enumerate(
        zip(state.global_type(op.operands[0]).static_shape, local, strict=True)
    ):
        axes = _sliced_axes(source, target, dim, is_whole=sizes[dim] == size)
        sizes[dim] = local_size if axes else sizes[dim]
    properties = {**op.properties, "slice_sizes": array_of_ints(sizes)}
    new = Builder.before(op).op(
        "dynamic_slice", state.operands(op), [state.local_type(op.result)], properties
    )
    state.replace(op, new.results)


def localize_dynamic_update_slice(state: Localization, op: Operation) -> None:
    """Convert an update of shards; a sharded dimension that is updated in part is gathered."""
    sharding, of_update = state.sharding(op.result), state.sharding(op.operands[1])
    old, update = (state.global_type(value).static_shape for value in op.operands[:2])
    partial = [dim for dim, sizes in enumerate(zip(old, update, strict=True)) if len({*sizes}) > 1]
    sharded_dims = [dim for dim in partial if axes_of(sharding, dim)]
    cut = [dim for dim in partial if axes_of(of_update, dim)]
    if not sharded_dims and not cut:
        state.localize(op)
        return
    if not state.options.fix_wrong_results:
        state.warn(op, "each device updates its shard at the place that is meant for the whole")
        state.localize(op)
        return
    # The update's start indices are global and only known at run time, so it is applied to
    # the gathered dimension, of which each device keeps its shard.
    value, part, *others = state.operands(op)
    for dim in cut:
        assert of_update is not None
        part = gathered_along(state, op, part, of_update, axes_of(of_update, dim), dim)
    for dim in sharded_dims:
        assert sharding is not None
        value = gathered_along(state, op, value, sharding, axes_of(sharding, dim), dim)
    operands = [value, part, *others]
    updated = Builder.before(op).op("dynamic_update_slice", operands, [value.type]).result
    if sharding is None or not sharded_dims:
        state.replace(op, [updated])
        return
    axes = [axes_of(sharding, dim) if dim in sharded_dims else () for dim in range(len(old))]
    type_ = state.local_tensor(op.result)
    mesh = state.mesh(sharding)
    state.replace(op, [dynamic_slice_along(state, op, updated, mesh, axes, type_)])


# Iota


def localize_iota(state: Localization, op: Operation) -> None:
    """Convert to an iota of the shard plus the shard's offset."""
    sharding = state.sharding(op.result)
    if sharding is None or sharding.is_fully_replicated:
        return
    mesh = state.mesh(sharding)
    type_ = state.local_tensor(op.result)
    dim = integer(op, "iota_dimension")
    build = Builder.before(op)
    counted = build.iota(dim, type_)
    axes = axes_of(sharding, dim)
    if axes:
        size = type_.static_shape[dim]
        # Offsets are i64 from a table; the iota may have any element type.
        offset = state.by_device(build, [i * size for i in state.shard_indices(op, mesh, axes)])
        offset = build.convert(offset, type_.element)
        counted = build.elementwise("add", counted, build.broadcast(offset, type_.shape))
    state.replace(op, [counted])


# Padding


@dataclass(frozen=True, slots=True)
class _Dim:
    """One dimension of a padding.

    Attributes:
        offsets: For each device, the position of its input in its output.
        shifts: The same by number of the shard.
        interior: Padding between elements.
        spread: Size of a device's input with that padding.
        size: Size of a device's output.
    """

    offsets: list[int]
    shifts: list[int]
    interior: int
    spread: int
    size: int

    @property
    def is_uniform(self) -> bool:
        """Whether the input begins at the same position on all devices."""
        return all(offset == self.offsets[0] for offset in self.offsets)

    def low(self) -> int:
        """Return the padding in front that is enough for every device."""
        return max(0, *self.offsets)

    def high(self) -> int:
        """Return the padding at the end that is enough for every device."""
        return max(0, self.size - min(self.offsets) - self.spread)


def localize_pad(state: Localization, op: Operation) -> None:
    """Convert a padding, by different amounts on different devices if necessary."""
    source, target = state.sharding(op.operands[0]), state.sharding(op.result)
    if source is None or source.is_fully_replicated:
        if not is_replicated(target):
            raise CannotLocalize(
                "the operand is replicated but the result is sharded; this requires a reshard "
                "which should have been handled by previous passes.",
                illegal=False,
            )
        state.localize(op)
        return
    mesh = state.mesh(source)
    value, filler = state.operands(op)
    type_ = state.local_tensor(op.result)
    dims = _padded_dims(state, op, (source, target), mesh, (tensor(value), type_))
    build = Builder.before(op)
    interior = [dim.interior for dim in dims]
    if all(dim.is_uniform for dim in dims):
        low = [dim.offsets[0] for dim in dims]
        high = [dim.size - (dim.spread + dim.offsets[0]) for dim in dims]
        padded = build.pad(value, filler, low, high, interior, type_.shape)
    else:
        low = [dim.low() for dim in dims]
        high = [dim.high() for dim in dims]
        shape = [dim.low() + dim.spread + dim.high() for dim in dims]
        padded = build.pad(value, filler, low, high, interior, shape)
        padded = _part_of_device(state, build, padded, dims)
    state.replace(op, [padded])


def _check_elements(own: int, count: int, dim: _Dim, number: int) -> None:
    """Raise CannotLocalize if a device lacks elements of its part of the result.

    Args:
        own: Size of a shard of the operand.
        count: Number of shards.
        dim: The dimension.
        number: Its number.
    """
    step = dim.interior + 1
    whole = own * count
    for shard in range(count):
        # Where this shard's first element and that of the whole tensor are in its part.
        here = dim.shifts[shard]
        origin = here - shard * own * step
        first = max(0, -(origin // step))
        last = min(whole - 1, (dim.size - 1 - origin) // step)
        if first <= last and (first < shard * own or last >= (shard + 1) * own):
            raise CannotLocalize(
                f"dimension {number} is sharded, and the padding moves elements to other shards: "
                "run sdy-resolve-permutation-factors first",
            )


def _padded_dims(
    state: Localization,
    op: Operation,
    shardings: tuple[TensorSharding, TensorSharding | None],
    mesh: Mesh,
    types: tuple[TensorType, TensorType],
) -> list[_Dim]:
    dims = []
    lows, interiors = _ints(op, "edge_padding_low"), _ints(op, "interior_padding")
    for dim, (own, size) in enumerate(
        zip(types[0].static_shape, types[1].static_shape, strict=True)
    ):
        axes, others = (axes_of(sharding, dim) for sharding in shardings)
        if axes != others:
            raise CannotLocalize(_mismatch(dim, axes, others, "reshard collective"), illegal=False)
        interior = interiors[dim]
        # In the global result, the input of shard i begins at i * own * (interior + 1) + low,
        # and the output of shard i at i * size.
        count = total_size(axes, mesh)
        shifts = [index * own * (interior + 1) + lows[dim] - index * size for index in range(count)]
        offsets = [shifts[index] for index in state.shard_indices(op, mesh, axes)]
        found = _Dim(offsets, shifts, interior, (own - 1) * (interior + 1) + 1, size)
        if state.options.fix_wrong_results and own:
            _check_elements(own, count, found, dim)
        dims.append(found)
    return dims


def _part_of_device(
    state: Localization, build: Builder, padded: Value, dims: Sequence[_Dim]
) -> Value:
    """Return the device's part of a value that is padded enough for all devices."""
    number = state.device_id(build)
    starts = []
    for dim in dims:
        table = [dim.low() - offset for offset in dim.offsets]
        if dim.is_uniform:
            starts.append(build.scalar(table[0]))
        else:
            starts.append(build.by_device(table, number))
    return build.dynamic_slice(padded, starts, [dim.size for dim in dims])


# Windows


def localize_windowed(state: Localization, op: Operation) -> None:
    """Convert an operation with windows, which must be trivial along sharded dimensions."""
    value = op.operands[0]
    sharding = state.sharding(value)
    if not is_replicated(sharding):
        mesh = state.mesh(sharding)
        for dim in range(state.global_type(value).rank):
            axes = axes_of(sharding, dim)
            size = state.local_tensor(value).shape[dim]
            if axes and total_size(axes, mesh) > 1 and not _passes_through(op, dim, size):
                raise CannotLocalize(
                    f"In op {op.name} dimension {dim} is sharded but is not a pass-through "
                    "dimension.",
                    illegal=False,
                )
    state.localize(op)


def _passes_through(op: Operation, dim: int, size: int | None) -> bool:
    """Return whether no window along a dimension crosses the borders of shards.

    Args:
        op: The operation.
        dim: The dimension.
        size: Size of a shard.
    """
    pairs = padding(op.properties.get("padding"))
    if pairs and pairs[dim] != (0, 0):
        return False
    names = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
    window, stride, base_dilation, dilation = (
        values[dim] if (values := _ints(op, name)) else 1 for name in names
    )
    # Windows that do not overlap begin at the same element of each shard if they fill it.
    reach = (window - 1) * dilation + 1
    return base_dilation == 1 and reach <= stride and size is not None and size % stride == 0
