"""Which devices take part in a collective, and along which axes of the mesh they differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from emu.mlir.attributes import Attribute, DenseElementsAttr
from emu.mlir.dense import integer_values
from emu.mlir.ir import Operation
from emu.mlir.types import TensorType
from emu.sdy.dialect.attributes import AxisRef, Mesh, MeshAxis
from emu.sdy.dialect.axes import sub_axis
from emu.stablehlo.attributes import ChannelHandle


def rows_of(attribute: Attribute | None) -> list[list[int]] | None:
    """Return the rows of a matrix of numbers without -1, which fills short rows; None for others."""
    if not isinstance(attribute, DenseElementsAttr) or not isinstance(attribute.type, TensorType):
        return None
    shape = attribute.type.static_shape
    if len(shape) != 2:
        return None
    numbers, width = integer_values(attribute), max(1, shape[1])
    return [
        [n for n in numbers[start : start + width] if n >= 0]
        for start in range(0, len(numbers), width)
    ]


def has_channel(op: Operation) -> bool:
    """Return whether a collective has a channel, and so is one between partitions."""
    handle = op.properties.get("channel_handle")
    return isinstance(handle, ChannelHandle) and handle.handle > 0


def groups_of(op: Operation, n_devices: int) -> list[list[int]] | None:
    """Return the groups of devices of a collective of a program with one replica.

    None where they are not written as numbers. Without a channel, and without
    ``use_global_device_ids``, groups hold replicas: then each device is alone.
    """
    if op.name == "stablehlo.collective_permute":
        pairs = rows_of(op.properties.get("source_target_pairs"))
        return pairs if has_channel(op) else []
    rows = rows_of(op.properties.get("replica_groups"))
    if rows is None or "use_global_device_ids" in op.properties:
        return rows
    if not has_channel(op):
        return [[device] for device in range(n_devices)]
    if op.name in ("stablehlo.all_to_all", "stablehlo.collective_broadcast"):
        return rows
    # Rows hold replicas, of which all partitions take part.
    return [list(range(n_devices))]


def axes_of(groups: Sequence[Sequence[int]], mesh: Mesh) -> tuple[AxisRef, ...]:
    """Return the axes along which the devices of each group differ; none if they follow no axes."""
    found: tuple[AxisRef, ...] | None = None
    for group in groups:
        axes = _axes_of_group(group, mesh)
        if axes is None or (found is not None and axes != found):
            return ()
        found = axes
    return found or ()


def axes_between(pairs: Sequence[Sequence[int]], mesh: Mesh) -> tuple[AxisRef, ...]:
    """Return the axes along which the two devices of any pair differ."""
    positions = _positions(mesh)
    if positions is None or any(device not in positions for pair in pairs for device in pair):
        return ()
    return tuple(
        AxisRef(axis.name)
        for axis, stride in _strides(mesh)
        if any(
            positions[a] // stride % axis.size != positions[b] // stride % axis.size
            for a, b in pairs
        )
    )


def _axes_of_group(group: Sequence[int], mesh: Mesh) -> tuple[AxisRef, ...] | None:
    positions = _positions(mesh)
    if positions is None or any(device not in positions for device in group):
        return None
    found = []
    for axis, stride in _strides(mesh):
        places = sorted({positions[device] // stride % axis.size for device in group})
        if len(places) == 1:
            continue
        part = _part(axis.name, places, axis.size)
        if part is None:
            return None
        found.append(part)
    return tuple(found) if math.prod(a.size(mesh) for a in found) == len(group) else None


def _part(name: str, places: Sequence[int], size: int) -> AxisRef | None:
    """Return the axis, or the sub-axis, of which these are all places with the other digits fixed."""
    count = len(places)
    if count == size:
        return AxisRef(name)
    step = places[1] - places[0]
    regular = all(b - a == step for a, b in pairwise(places))
    # A digit of radix `count` and stride `step` goes into the axis a whole number of times.
    if not regular or size % (count * step) or places[0] // step % count:
        return None
    return sub_axis(name, size // (count * step), count)


def _strides(mesh: Mesh) -> Iterator[tuple[MeshAxis, int]]:
    for index, axis in enumerate(mesh.axes):
        yield axis, math.prod(a.size for a in mesh.axes[index + 1 :])


def _positions(mesh: Mesh) -> dict[int, int] | None:
    if not mesh.axes:
        return None
    devices = mesh.device_ids or range(mesh.total_size)
    return {device: position for position, device in enumerate(devices)}
