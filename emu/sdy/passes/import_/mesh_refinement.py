"""Several meshes as one: axes fine enough that each axis of each mesh is a list of them.

The position of a device in a list is a number. An axis of a mesh over the list is a part of that number's
digits: ``(stride, size)`` is the digit ``position // stride % size``. On eight devices, the axes of
``["data"=2, "model"=4]`` are ``(4, 2)`` and ``(1, 4)``, and the axis of ``["flat"=8]`` is ``(1, 8)``, which is
both of them. So ``"flat"`` is the list ``"data", "model"``. The ends of all digits, each of which must
divide the next one, are the ends of the digits of the mesh that replaces them all.

Meshes whose ends do not fit, ``["a"=2, "b"=3]`` and ``["c"=3, "d"=2]``, and those whose devices come in another
order, get the same axes too, each with its devices in an order of its own: ``"c"`` is then ``"b"``, on other
devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from emu.sdy.dialect.attributes import AxisRef, Mesh, MeshAxis, SubAxisInfo

_COPIES = "copies"

_Digit = tuple[int, int]
"""Stride and size."""


@dataclass(frozen=True)
class Refined:
    """What replaces a mesh.

    Attributes:
        mesh: The new mesh. Those of all meshes have the same axes.
        axes: New axes for each axis, major to minor.
    """

    mesh: Mesh
    axes: Mapping[str, tuple[str, ...]]

    def replace(self, axis: AxisRef) -> tuple[AxisRef, ...]:
        """Return the new axes for an axis or a part of one, major to minor.

        Raises:
            ValueError: The part cuts a new axis where that has no part.
        """
        if axis.sub_axis is None:
            return tuple(map(AxisRef, self.axes[axis.name]))
        low, high = axis.sub_axis.pre_size, axis.sub_axis.next_pre_size
        found, before = [], 1
        for name in self.axes[axis.name]:
            after = before * self.mesh.axis_size(name)
            start, end = max(low, before), min(high, after)
            if (start, end) == (before, after):
                found.append(AxisRef(name))
            elif start < end:
                if start % before or end % start or after % end:
                    raise ValueError(f"{axis} is no part of the axes {self.axes[axis.name]}")
                found.append(AxisRef(name, SubAxisInfo(start // before, end // start)))
            before = after
        return tuple(found)

    def replace_all(self, axes: Iterable[AxisRef]) -> tuple[AxisRef, ...]:
        """Return the new axes for a list of axes."""
        return tuple(new for axis in axes for new in self.replace(axis))


def refine(meshes: Mapping[str, Mesh], n_devices: int) -> dict[str, Refined]:
    """Return what replaces each mesh.

    Args:
        meshes: Meshes with axes, by their names; the number of devices of each must divide
            ``n_devices``. A smaller one is repeated: the devices that it has not hold copies.
        n_devices: Number of devices.
    """
    full = {name: _repeated(mesh, n_devices) for name, mesh in meshes.items()}
    given = next((m for m in full.values() if m.device_ids), None)
    # A list of devices in which most meshes are in order: that of the first one of full size.
    first = next((m for n, m in full.items() if meshes[n].total_size == n_devices), given)
    order = (first.device_ids if first is not None else ()) or tuple(range(n_devices))
    position = {device: place for place, device in enumerate(order)}
    ends, digits = {1, n_devices}, {}
    for name, mesh in full.items():
        found = _digits(mesh, [position[device] for device in _devices(mesh)])
        if found is not None:
            theirs = {end for each in found for s, n in each for end in (s, s * n)}
            if _is_chain(ends | theirs):
                ends |= theirs
                digits[name] = found
    if len(digits) < len(full):
        ends = set(_prime_ends(sorted(ends)))
    cuts = list(pairwise(sorted(ends)))[::-1]
    names = _names(full, digits, cuts)
    axes = tuple(MeshAxis(name, high // low) for name, (low, high) in zip(names, cuts, strict=True))
    in_order = Mesh(axes, order)
    refined = {}
    for name, mesh in full.items():
        if name in digits:
            parts = {
                axis.name: tuple(
                    new
                    for stride, size in each
                    for new, (low, high) in zip(names, cuts, strict=True)
                    if stride <= low and high <= stride * size
                )
                for axis, each in zip(mesh.axes, digits[name], strict=True)
            }
            refined[name] = Refined(in_order, parts)
        else:
            refined[name] = _reordered(mesh, axes)
    return refined


def _devices(mesh: Mesh) -> Sequence[int]:
    return mesh.device_ids or range(mesh.total_size)


def _repeated(mesh: Mesh, n_devices: int) -> Mesh:
    """Return a mesh on all devices, with an axis along which a smaller one is repeated."""
    size = mesh.total_size
    if size == n_devices:
        return mesh
    copies = n_devices // size
    name = _unused(_COPIES, {axis.name for axis in mesh.axes})
    devices = tuple(copy * size + device for copy in range(copies) for device in _devices(mesh))
    return Mesh((MeshAxis(name, copies), *mesh.axes), devices)


def _digits(mesh: Mesh, positions: Sequence[int]) -> list[list[_Digit]] | None:
    """Return the digits of each axis, major to minor; None if positions are no digits."""
    found, place = [], mesh.total_size
    for axis in mesh.axes:
        place //= axis.size
        digits = _axis_digits([positions[place * i] for i in range(axis.size)])
        if digits is None:
            return None
        found.append(digits)
    values = [_values(digits) for digits in found]
    if list(map(sum, product(*values))) != list(positions):
        return None
    return found


def _axis_digits(positions: Sequence[int]) -> list[_Digit] | None:
    """Return the digits, major to minor, of the positions along an axis."""
    digits: list[_Digit] = []
    count, size = 1, len(positions)
    if positions[0] != 0:
        return None
    while count < size:
        stride, left = positions[count], size // count
        run = next(
            (i for i in range(left) if positions[i * count] != i * stride),
            left,
        )
        run = next(n for n in range(run, 0, -1) if left % n == 0)
        if run == 1:
            return None
        digits.insert(0, (stride, run))
        count *= run
    return digits


def _values(digits: Sequence[_Digit]) -> list[int]:
    """Return the positions that digits stand for, in order."""
    return [sum(place) for place in product(*([s * i for i in range(n)] for s, n in digits))]


def _is_chain(ends: set[int]) -> bool:
    return all(low > 0 and high % low == 0 for low, high in pairwise(sorted(ends)))


def _primes(number: int) -> Iterator[int]:
    factor = 2
    while number > 1:
        if factor * factor > number:
            factor = number
        while number % factor == 0:
            yield factor
            number //= factor
        factor += 1


def _prime_ends(ends: Sequence[int]) -> Iterator[int]:
    yield ends[0]
    for low, high in pairwise(ends):
        for prime in _primes(high // low):
            low *= prime  # the next end
            yield low


def _names(
    meshes: Mapping[str, Mesh],
    digits: Mapping[str, list[list[_Digit]]],
    cuts: Sequence[tuple[int, int]],
) -> list[str]:
    """Return a name for each new axis: that of an equal axis of a mesh, or one made of a longer one's."""
    used: set[str] = set()
    names = []
    for low, high in cuts:
        best: tuple[bool, str] = (False, "axis")
        for mesh, found in digits.items():
            for axis, each in zip(meshes[mesh].axes, found, strict=True):
                is_equal = each == [(low, high // low)]
                holds = any(s <= low and high <= s * n for s, n in each)
                if is_equal > best[0] or (holds and best[1] == "axis"):
                    best = (is_equal, axis.name)
        names.append(_unused(best[1], used, always=not best[0]))
        used.add(names[-1])
    return names


def _unused(name: str, used: set[str], *, always: bool = False) -> str:
    """Return a name that is not used, with a number where it needs one, or always."""
    if not always and name not in used:
        return name
    number = 0
    while f"{name}_{number}" in used:
        number += 1
    return f"{name}_{number}"


def _reordered(mesh: Mesh, axes: tuple[MeshAxis, ...]) -> Refined:
    """Return a mesh with the given axes, whose sizes are primes, that has a mesh's devices in another order."""
    left = list(range(len(axes)))
    parts: dict[str, tuple[str, ...]] = {}
    strides = [0] * len(axes)
    stride = mesh.total_size
    for axis in mesh.axes:
        taken = []
        stride //= axis.size
        inner = axis.size * stride
        for prime in _primes(axis.size):
            place = next(i for i in left if axes[i].size == prime)
            left.remove(place)
            taken.append(axes[place].name)
            inner //= prime
            strides[place] = inner
        parts[axis.name] = tuple(taken)
    devices = _devices(mesh)
    places = product(*([s * i for i in range(a.size)] for s, a in zip(strides, axes, strict=True)))
    return Refined(Mesh(axes, tuple(devices[sum(place)] for place in places)), parts)
