"""Checks of single attributes, independent of where they are used.

MLIR rejects an ill-formed attribute when it is read. Here the parser calls
these functions, and the verifier calls them again for modules that were built
by a program.
"""

from __future__ import annotations

import math

from emu.sdy.dialect.attributes import Mesh, MeshAxis
from emu.sdy.dialect.edge_attributes import AxisToPropagationDetails, PropagationEdges


def mesh_axis_problem(axis: MeshAxis) -> str | None:
    """Return the problem with an axis of a mesh, or None."""
    if axis.size <= 0:
        return f"axis size must be at least 1, got: {axis.size}"
    return None


def mesh_problem(mesh: Mesh) -> str | None:
    """Return the problem with a mesh whose axes are well-formed, or None."""
    ids = mesh.device_ids
    for device in ids:
        if device < 0:
            return f"device id must be non-negative, got: {device}"
    if not mesh.axes:
        return "axes is empty and device_ids has more than one element" if len(ids) > 1 else None
    names: set[str] = set()
    for axis in mesh.axes:
        if axis.name in names:
            return f'duplicate axis name: "{axis.name}"'
        names.add(axis.name)
    return _device_ids_problem(mesh) if ids else None


def _device_ids_problem(mesh: Mesh) -> str | None:
    ids = mesh.device_ids
    total = math.prod(axis.size for axis in mesh.axes)
    if total != len(ids):
        return (
            "total product of axis sizes must match total number of device ids, "
            f"got: {total} != {len(ids)}"
        )
    ordered = sorted(ids)
    if ordered != list(range(total)):
        got = ", ".join(map(str, ordered))
        return f"sorted device ids must be iota(product(axes)), got: {got}"
    return None


def propagation_edges_problem(edges: PropagationEdges) -> str | None:
    """Return the problem with the record of an operation's propagation, or None."""
    steps: set[int] = set()
    for step in edges.steps:
        if step.step_index < 0:
            return f"propagation edges have negative step index: {step.step_index}"
        if step.step_index in steps:
            return f"propagation edges have duplicate step index: {step.step_index}"
        steps.add(step.step_index)
        for entry in step.axis_entries:
            problem = _targets_problem(entry, step.step_index)
            if problem is not None:
                return problem
    return None


def _targets_problem(entry: AxisToPropagationDetails, step: int) -> str | None:
    for place, target in enumerate(entry.targets):
        if target == entry.source:
            return "propagation edges have a source that is the same as a target"
        if target in entry.targets[:place]:
            return (
                f"propagation edges have duplicate targets for step index: {step} "
                f"and axis: {entry.axis.name}"
            )
    return None
