"""Positions of devices in a mesh."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from emu.sdy.dialect.attributes import AxisRef, Mesh


def _coordinates(position: int, mesh: Mesh) -> list[int]:
    """Return the coordinate along each axis of a position in the mesh."""
    found = []
    for axis in reversed(mesh.axes):
        position, coordinate = divmod(position, axis.size)
        found.append(coordinate)
    return found[::-1]


def _position(coordinates: Iterable[int], mesh: Mesh) -> int:
    position = 0
    for coordinate, axis in zip(coordinates, mesh.axes, strict=True):
        position = position * axis.size + coordinate
    return position


def _component(axis: AxisRef, mesh: Mesh) -> tuple[int, int, int]:
    """Return the index of an axis in the mesh, and the size and stride of the sub-axis in it."""
    index, size = mesh.axis_index(axis.name), axis.size(mesh)
    pre = 1 if axis.sub_axis is None else axis.sub_axis.pre_size
    return index, size, mesh.axes[index].size // (pre * size)


def devices_of(mesh: Mesh) -> tuple[int, ...]:
    """Return the device at each position."""
    return mesh.device_ids or tuple(range(mesh.total_size))


def reversed_mesh(mesh: Mesh, axes: Sequence[AxisRef]) -> Mesh:
    """Return the mesh with its devices in the opposite order along some axes."""
    devices = devices_of(mesh)
    components = [_component(axis, mesh) for axis in axes]
    found = []
    for position in range(mesh.total_size):
        old = _coordinates(position, mesh)
        new = list(old)
        for index, size, stride in components:
            coordinate = old[index] // stride % size
            new[index] += (size - 1 - 2 * coordinate) * stride
        found.append(devices[_position(new, mesh)])
    return Mesh(mesh.axes, tuple(found))


def shifts(mesh: Mesh, axes: Sequence[AxisRef], offset: int) -> list[tuple[int, int]]:
    """Return pairs of devices: of each, and of the one that is ``offset`` shards after it.

    Args:
        mesh: The mesh.
        axes: The axes of the dimension, major to minor.
        offset: Distance in shards; negative towards the first one.
    """
    components = [_component(axis, mesh) for axis in reversed(axes)]
    devices = devices_of(mesh)
    pairs = []
    for position in range(mesh.total_size):
        coordinates = _coordinates(position, mesh)
        carry = offset
        for index, size, stride in components:
            old = coordinates[index] // stride % size
            carry, new = divmod(old + carry, size)
            coordinates[index] += (new - old) * stride
        if carry == 0:
            pairs.append((devices[position], devices[_position(coordinates, mesh)]))
    return pairs


def shard_numbers(mesh: Mesh, axes: Sequence[AxisRef]) -> list[int]:
    """Return the number of the shard that each device has, by device.

    Args:
        mesh: The mesh.
        axes: The axes of the dimension, major to minor.
    """
    components = [_component(axis, mesh) for axis in axes]
    found = [0] * mesh.total_size
    for position, device in enumerate(devices_of(mesh)):
        coordinates = _coordinates(position, mesh)
        number = 0
        for index, size, stride in components:
            number = number * size + coordinates[index] // stride % size
        found[device] = number
    return found


def divisor(mesh: Mesh, axis: AxisRef) -> int:
    """Return what to divide a position by, so that the last digit is that of an axis."""
    index, _, stride = _component(axis, mesh)
    for other in mesh.axes[index + 1 :]:
        stride *= other.size
    return stride
