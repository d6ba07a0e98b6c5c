"""What is wrong with an attribute by itself, without the operation it is on.

The parser asks as soon as it has read one. Each function gives a message, or
None if all is well.
"""

from __future__ import annotations

import math
from collections import Counter

from emu.sdy.dialect.attributes import Mesh, MeshAxis, PropagationEdges

__all__ = ["mesh_axis_problem", "mesh_problem", "propagation_edges_problem"]


def mesh_axis_problem(axis: MeshAxis) -> str | None:
    """An axis has a size of at least 1."""
    return None if axis.size > 0 else f"axis size must be at least 1, got: {axis.size}"


def mesh_problem(mesh: Mesh) -> str | None:
    """Names of axes are unique, and device ids a permutation of all devices."""
    devices = mesh.device_ids
    negative = next((device for device in devices if device < 0), None)
    if negative is not None:
        return f"device id must be non-negative, got: {negative}"
    if not mesh.axes:
        if len(devices) > 1:
            return "axes is empty and device_ids has more than one element"
        return None
    repeated = _second_occurrence([axis.name for axis in mesh.axes])
    if repeated is not None:
        return f'duplicate axis name: "{repeated}"'
    if not devices:
        return None
    total = math.prod(axis.size for axis in mesh.axes)
    if total != len(devices):
        return (
            "total product of axis sizes must match total number of device ids, "
            f"got: {total} != {len(devices)}"
        )
    ordered = sorted(devices)
    if ordered != list(range(total)):
        return f"sorted device ids must be iota(product(axes)), got: {', '.join(map(str, ordered))}"
    return None


def _second_occurrence(names: list[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def propagation_edges_problem(edges: PropagationEdges) -> str | None:
    """Steps are numbered apart, and go from a source to other targets."""
    seen: set[int] = set()
    for step in edges.steps:
        index = step.step_index
        if index < 0:
            return f"propagation edges have negative step index: {index}"
        if index in seen:
            return f"propagation edges have duplicate step index: {index}"
        seen.add(index)
        for entry in step.axis_entries:
            counts = Counter(entry.targets)
            for target, count in counts.items():
                if target == entry.source:
                    return "propagation edges have a source that is the same as a target"
                if count > 1:
                    return (
                        f"propagation edges have duplicate targets for step index: {index} "
                        f"and axis: {entry.axis.name}"
                    )
    return None
