"""Rules for the record of propagation that an operation may carry."""

from __future__ import annotations

from collections.abc import Iterator

from emu.mlir.ir import Operation
from emu.sdy.dialect.attributes import Mesh
from emu.sdy.dialect.edge_attributes import EdgeNodeType, EdgeValueRef, PropagationEdges
from emu.sdy.dialect.shardings import get_sharding
from emu.sdy.dialect.verify.problems import Problem
from emu.sdy.dialect.verify.shardings import mesh_of
from emu.sdy.dialect.wellformed import propagation_edges_problem


def _ends(edges: PropagationEdges) -> Iterator[EdgeValueRef]:
    for step in edges.steps:
        for entry in step.axis_entries:
            yield entry.source
            yield from entry.targets


def edges_problem(edges: PropagationEdges, op: Operation) -> Problem | None:
    """Return the problem with the record on an operation, or None."""
    message = propagation_edges_problem(edges)
    if message is not None:
        return Problem(message)
    meshes: list[Mesh | None] = []
    for end in _ends(edges):
        values = op.results if end.type is EdgeNodeType.RESULT else op.operands
        if 0 <= end.index < len(values):
            sharding = get_sharding(values[end.index])
            if sharding is not None:
                meshes.append(mesh_of(sharding, op))
    if not meshes:
        return Problem("expected propagation edges attr to reference a sharding.")
    full = [mesh for mesh in meshes if mesh is None or not mesh.is_empty] or meshes
    if full[0] is None or any(mesh != full[0] for mesh in full):
        return Problem("expected a common mesh for propagation edges attr.")
    return _entries_problem(edges, op, full[0])


def _entries_problem(edges: PropagationEdges, op: Operation, mesh: Mesh) -> Problem | None:
    for step in edges.steps:
        for entry in step.axis_entries:
            if not mesh.has_axis(entry.axis.name):
                return Problem("expected axis ref to be in one of the meshes")
            for end in (entry.source, *entry.targets):
                problem = _range_problem(end, op)
                if problem is not None:
                    return problem
    return None


def _range_problem(end: EdgeValueRef, op: Operation) -> Problem | None:
    if op.name == "sdy.func_data_flow_edge":
        return None  # it numbers the ends of the edge, not its own operands
    is_result = end.type is EdgeNodeType.RESULT
    count = len(op.results if is_result else op.operands)
    if 0 <= end.index < count:
        return None
    kind = "a result" if is_result else "an operand"
    return Problem(
        f"expected a value ref to have {kind} index in range [0, {count}), got: {end.index}"
    )
