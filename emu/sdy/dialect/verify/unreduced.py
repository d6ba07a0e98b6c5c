"""Rules for unreduced axes: where they may appear and disappear between operands and results."""

from __future__ import annotations

from collections.abc import Sequence

from emu.mlir.ir import Operation
from emu.sdy.dialect.attributes import AxisRef, Mesh, ReductionOp, TensorSharding
from emu.sdy.dialect.axes import axis_set_difference, overlaps
from emu.sdy.dialect.verify.problems import Problem
from emu.sdy.dialect.verify.shardings import mesh_of

Shardings = Sequence[TensorSharding | None]


def transition_problem(
    op: Operation,
    operands: Shardings,
    results: Shardings,
    *,
    introduced: ReductionOp | None = None,
    removed: ReductionOp | None = None,
) -> Problem | None:
    """Return the problem with the unreduced axes of results, given those of operands, or None.

    Axes that both have must have one operator. Shardings on several meshes are not
    checked.

    Args:
        op: The operation.
        operands: Shardings of the operands.
        results: Shardings of the results.
        introduced: The operator that new unreduced axes must have; None: there may be none.
        removed: The operator that axes which are reduced must have; None: all axes stay.
    """
    before, after = _unreduced(operands), _unreduced(results)
    if not before and not after:
        return None
    mesh = _only_mesh(op, (*operands, *results))
    if mesh is None:
        return None
    new = axis_set_difference(after, before, mesh)
    if new and introduced is None:
        return Problem(f"cannot add new unreduced axis '{new[0].name}'.")
    gone = axis_set_difference(before, after, mesh)
    problem = introduced is not None and _operator_problem(results, new, introduced, "introduce")
    if problem:
        return problem
    if gone and removed is None:
        return Problem(
            f"dropped unreduced axis '{gone[0].name}' without a blessed operation (e.g., "
            "sdy.reshard). This is an invalid transition from unreduced to reduced."
        )
    problem = removed is not None and _operator_problem(operands, gone, removed, "reduce")
    return problem or _kept_problem(operands, results)


def _unreduced(shardings: Shardings) -> list[AxisRef]:
    return [axis for sharding in shardings if sharding for axis in sharding.unreduced_axes]


def _only_mesh(op: Operation, shardings: Shardings) -> Mesh | None:
    """Return the mesh of all shardings; None if they have several, or none."""
    meshes = {mesh for s in shardings if s is not None and (mesh := mesh_of(s, op)) is not None}
    return meshes.pop() if len(meshes) == 1 else None


def _operator_problem(
    shardings: Shardings, axes: Sequence[AxisRef], expected: ReductionOp, what: str
) -> Problem | None:
    for sharding in shardings:
        if sharding is None or sharding.reduction_op is expected:
            continue
        if any(overlaps(own, axis) for own in sharding.unreduced_axes for axis in axes):
            found = sharding.reduction_op.keyword
            return Problem(
                f"cannot {what} '{found}' unreduced axes. Expected '{expected.keyword}'."
            )
    return None


def _kept_problem(operands: Shardings, results: Shardings) -> Problem | None:
    for result in results:
        for operand in operands:
            if result is None or operand is None or operand.reduction_op is result.reduction_op:
                continue
            kept = (
                overlaps(before, after)
                for after in result.unreduced_axes
                for before in operand.unreduced_axes
            )
            if any(kept):
                return Problem(
                    "cannot change the reduction operator of kept unreduced axes from "
                    f"{operand.reduction_op.keyword} to {result.reduction_op.keyword}."
                )
    return None
