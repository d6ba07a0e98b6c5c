"""Rules for manual and named computations."""

from __future__ import annotations

import math
from collections.abc import Sequence

from emu.mlir.ir import Operation
from emu.mlir.types import DialectType, TensorType, Type
from emu.sdy.dialect.attributes import AxisRef, ManualAxes, Mesh, TensorShardingPerValue
from emu.sdy.dialect.verify.problems import Problem, axis_text
from emu.sdy.dialect.verify.shardings import (
    bound_axis_problem,
    mesh_of,
    shape_of,
    shardings_problem,
)


def _manual_axes(op: Operation) -> tuple[str, ...]:
    stored = op.properties.get("manual_axes")
    return stored.axes if isinstance(stored, ManualAxes) else ()


def _per_value(op: Operation, name: str) -> TensorShardingPerValue | None:
    stored = op.properties.get(name)
    return stored if isinstance(stored, TensorShardingPerValue) else None


def manual_axes_problem(op: Operation) -> Problem | None:
    """Check that no enclosing manual computation has the same manual axes."""
    return bound_axis_problem(op, _manual_axes(op))


def manual_computation_problem(op: Operation) -> Problem | None:
    """Return the problem with the shardings and shapes of a manual computation, or None."""
    body = op.body()
    inner = [argument.type for argument in body.arguments]
    outer = [value.type for value in op.operands]
    returned = [value.type for value in body.terminator.operands]
    results = [value.type for value in op.results]
    ins = _per_value(op, "in_shardings") or TensorShardingPerValue()
    outs = _per_value(op, "out_shardings") or TensorShardingPerValue()
    problem = _values_problem(op, outer, inner, ins, "operand")
    problem = problem or _values_problem(op, results, returned, outs, "result")
    if problem is not None or not (ins.shardings or outs.shardings):
        return problem
    return _common_mesh_problem(op, [*ins.shardings, *outs.shardings])


def _common_mesh_problem(op: Operation, shardings: Sequence[object]) -> Problem | None:
    """Check that all shardings are on one mesh, or an empty one, which has the manual axes."""
    manual = _manual_axes(op)
    common: Mesh | None = None
    for sharding in shardings:
        mesh = mesh_of(sharding, op)  # type: ignore[arg-type]  # a TensorSharding
        assert mesh is not None  # every sharding was found to be right
        if common is None or common.is_empty:
            common = mesh
        elif not mesh.is_empty and mesh != common:
            common = None
            break
    if common is None:
        if manual:
            return Problem(
                "all in and out shardings must be bound to the same mesh or an empty mesh."
            )
        return None
    for axis in manual:
        if not common.has_axis(axis):
            return Problem(f'unknown manual axis: "{axis}"')
    return None


def _values_problem(
    op: Operation,
    global_types: Sequence[Type],
    local_types: Sequence[Type],
    per_value: TensorShardingPerValue,
    kind: str,
) -> Problem | None:
    if not (global_types or local_types or per_value.shardings):
        return None
    problem = shardings_problem(per_value, global_types, op)
    if problem is not None:
        return problem.within(f"{kind} ")
    if len(global_types) != len(local_types):
        return Problem(
            f"number of op {kind}s and region {kind}s must match. Op has {len(global_types)} "
            f"op {kind}s and {len(local_types)} region {kind}s"
        )
    manual = frozenset(_manual_axes(op))
    for index, sharding in enumerate(per_value.shardings[: len(global_types)]):
        mesh = mesh_of(sharding, op)
        assert mesh is not None  # the sharding was found to be right
        for dim, dim_sharding in enumerate(sharding.dims):
            problem = _order_problem(
                dim_sharding.axes, manual, f"{kind} sharding at index {index}", dim
            )
            if problem is not None:
                return problem
        sizes = [
            math.prod(axis.size(mesh) for axis in dim_sharding.axes if axis.name in manual)
            for dim_sharding in sharding.dims
        ]
        problem = _local_type_problem(global_types[index], local_types[index], sizes, kind, index)
        if problem is not None:
            return problem
    return None


def _order_problem(
    axes: Sequence[AxisRef], manual: frozenset[str], where: str, dim: int
) -> Problem | None:
    """Check that manual axes come before free ones."""
    for place, axis in enumerate(axes):
        if axis.name in manual and place and axes[place - 1].name not in manual:
            return Problem(
                f"{where} must have all manual axes come before free axes in its dimension "
                f"sharding at index {dim}. Saw manual axis {axis_text(axis)} after free axis "
                f"{axis_text(axes[place - 1])}"
            )
    return None


def _local_type_problem(
    global_type: Type, local_type: Type, sizes: Sequence[int], kind: str, index: int
) -> Problem | None:
    """Check that the body's type is the global one split along the manual axes, without padding."""
    shape = shape_of(global_type)
    if shape is None or isinstance(global_type, DialectType):
        return None
    local: list[int | None] = []
    for size, manual in zip(shape, sizes, strict=True):
        if size is not None and size % manual:
            return Problem(
                f"{kind} dimension size {size} is not divisible by the manual axes size {manual}"
            )
        local.append(None if size is None else size // manual)
    assert isinstance(global_type, TensorType)  # only tensors are left
    expected = TensorType(tuple(local), global_type.element)
    if expected != local_type:
        return Problem(
            f"{kind} shape, corresponding sharding, and region {kind} shape at index {index} "
            f"must match. Expected local shape '{expected}', actual local shape '{local_type}'"
        )
    return None


def named_computation_problem(op: Operation) -> Problem | None:
    """Return the problem with the arguments and shardings of a named computation, or None."""
    inner = [argument.type for argument in op.body().arguments]
    outer = [value.type for value in op.operands]
    if len(inner) != len(outer):
        return Problem(
            "number of block arguments must match the number of operands: "
            f"{len(inner)} != {len(outer)}",
            bare=True,
        )
    for index, (inner_type, outer_type) in enumerate(zip(inner, outer, strict=True)):
        if inner_type != outer_type:
            return Problem(
                f"expected the type of the {index}'th block argument to match the type of the "
                f"corresponding operand: '{inner_type}' vs '{outer_type}'",
                bare=True,
            )
    results = [value.type for value in op.results]
    for name, types in (("in_shardings", outer), ("out_shardings", results)):
        per_value = _per_value(op, name)
        problem = None if per_value is None else shardings_problem(per_value, types, op)
        if problem is not None:
            return problem.within(f"{name} ")
    return None
