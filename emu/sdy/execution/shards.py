"""Shards: which part of an array a device has, and the array of all parts."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from emu.mlir.types import TensorType
from emu.sdy.dialect.attributes import AxisRef, Mesh, TensorSharding
from emu.stablehlo.reference.values import Array


def coordinates(mesh: Mesh, device: int) -> dict[str, int]:
    """Return a device's coordinate along each axis of a mesh.

    Raises:
        ValueError: The device is not in the mesh.
    """
    place = mesh.device_ids.index(device) if mesh.device_ids else device
    sizes = [axis.size for axis in mesh.axes]
    if not 0 <= place < math.prod(sizes):
        raise ValueError(f"device {device} is not in a mesh of {math.prod(sizes)}")
    places = np.unravel_index(place, sizes) if sizes else ()
    return {axis.name: int(i) for axis, i in zip(mesh.axes, places, strict=True)}


def axis_coordinate(axis: AxisRef, mesh: Mesh, place: dict[str, int]) -> int:
    """Return a device's coordinate along an axis or a part of one.

    Args:
        axis: The axis.
        mesh: Its mesh.
        place: Coordinates of the device.
    """
    whole, size = mesh.axis_size(axis.name), axis.size(mesh)
    before = axis.sub_axis.pre_size if axis.sub_axis else 1
    return place[axis.name] // (whole // (before * size)) % size


def box(whole: Array, starts: Sequence[int], shape: Sequence[int]) -> Array:
    """Return a part of an array, a view; of an array of rank 0 too."""
    slices: list[Any] = [slice(a, a + n) for a, n in zip(starts, shape, strict=True)]
    part: Array = whole[(..., *slices)]
    return part


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the elements of a tensor are.

    Attributes:
        type: Type of the whole tensor.
        sharding: Its sharding; None for a copy on each device.
        mesh: The sharding's mesh.
        axes: Axes that count; None for all. A manual computation divides along its own only.
    """

    type: TensorType
    sharding: TensorSharding | None
    mesh: Mesh
    axes: Collection[str] | None = None

    @property
    def counts(self) -> list[int]:
        """Number of shards along each dimension."""
        if self.sharding is None or not self.mesh.axes:
            return [1] * self.type.rank
        return [math.prod(a.size(self.mesh) for a in self._axes(d)) for d in range(self.type.rank)]

    def _axes(self, dimension: int) -> list[AxisRef]:
        assert self.sharding is not None
        found = self.sharding.dims[dimension].axes
        return [a for a in found if self.axes is None or a.name in self.axes]

    @property
    def local_shape(self) -> tuple[int, ...]:
        """Shape of a shard; the last ones of an uneven sharding reach beyond the tensor."""
        return tuple(-(-n // c) for n, c in zip(self.type.static_shape, self.counts, strict=True))

    def starts(self, device: int) -> tuple[int, ...]:
        """Return where a device's shard starts."""
        if self.sharding is None or not self.mesh.axes:
            return (0,) * self.type.rank
        place = coordinates(self.mesh, device)
        found = []
        for dimension, size in enumerate(self.local_shape):
            index = 0
            for axis in self._axes(dimension):
                index = index * axis.size(self.mesh) + axis_coordinate(axis, self.mesh, place)
            found.append(index * size)
        return tuple(found)

    def part(self, whole: Array, device: int) -> Array:
        """Return the part of the whole tensor that a device has, a view; smaller than its shard at an end."""
        starts, shape = self.starts(device), self.local_shape
        return box(whole, starts, shape)

    def shard(self, whole: Array, device: int, *, copy: bool = True) -> Array:
        """Return a device's shard, with zeros where it reaches beyond the tensor.

        Args:
            whole: The whole tensor.
            device: The device.
            copy: Whether to copy it in any case; else it may be a view of any strides.
        """
        part, shape = self.part(whole, device), self.local_shape
        if part.shape == shape:
            return np.array(part, order="C") if copy else part
        full = np.zeros(shape, whole.dtype)
        full[tuple(map(slice, part.shape))] = part
        return full

    def store(self, part: Array, device: int, whole: Array) -> None:
        """Put a device's shard where it belongs in the whole tensor."""
        starts = self.starts(device)
        place = tuple(slice(a, a + n) for a, n in zip(starts, part.shape, strict=True))
        whole[place] = part[tuple(map(slice, whole[place].shape))]

    def assemble(self, parts: Sequence[Array], devices: Sequence[int]) -> Array:
        """Return the whole tensor of the shards of devices."""
        whole = np.empty(self.type.static_shape, parts[0].dtype)
        # The first device that holds a part decides where several hold it.
        for part, device in reversed(list(zip(parts, devices, strict=True))):
            self.store(part, device, whole)
        return whole


def is_same_place(a: Placement, b: Placement) -> bool:
    """Return whether devices hold the same parts of two arrays."""
    if a == b:
        return True
    if a.type != b.type or a.local_shape != b.local_shape:
        return False
    count = max(a.mesh.total_size, b.mesh.total_size)
    try:
        return all(a.starts(device) == b.starts(device) for device in range(count))
    except ValueError:  # a device is in one of the meshes only
        return False
