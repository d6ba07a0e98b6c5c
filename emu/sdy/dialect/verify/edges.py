"""Rules for data-flow edges and propagation barriers."""

from __future__ import annotations

from emu.mlir.attributes import IntegerAttr
from emu.mlir.ir import BlockArgument, Operation
from emu.sdy.dialect.attributes import PropagationDirection, TensorSharding
from emu.sdy.dialect.dataflow import DATA_FLOW_OPS
from emu.sdy.dialect.verify.problems import Problem
from emu.sdy.dialect.verify.shardings import mesh_of, shape_of, sharding_problem


def _dynamic_problem(op: Operation) -> Problem | None:
    shape = shape_of(op.result.type)
    if shape is None or None in shape:
        return Problem(
            f"expected {op.name} to have a static-shaped result. type: '{op.result.type}'"
        )
    return None


def data_flow_edge_problem(op: Operation) -> Problem | None:
    """Return the problem with an ``sdy.data_flow_edge``, or None."""
    problem = _dynamic_problem(op)
    if problem is not None:
        return problem
    (owner,) = op.operands
    if not owner.has_one_use:
        return Problem("expected input of sdy.data_flow_edge to have a single user")
    definer = owner.defining_op
    if definer is not None and definer.dialect == "sdy" and definer.name not in DATA_FLOW_OPS:
        return Problem(
            "expected input of sdy.data_flow_edge to not be defined by an SdyDialect op "
            "(other than an sdy.named_computation).",
            note="sdy op defining the input of the sdy.data_flow_edge",
            place=definer.location,
        )
    sharding = op.properties.get("sharding")
    if isinstance(sharding, TensorSharding):
        return sharding_problem(sharding, op.result.type, op, mesh_of(sharding, op))
    return None


def func_data_flow_edge_problem(op: Operation) -> Problem | None:
    """Return the problem with an ``sdy.func_data_flow_edge``, or None."""
    problem = _dynamic_problem(op)
    if problem is not None:
        return problem
    (operand,) = op.operands
    if not operand.has_one_use:
        return Problem("expected operand of sdy.func_data_flow_edge to have a single user")
    if isinstance(operand, BlockArgument):
        owner = operand.owner.parent_op
        if owner is None or owner.name != "func.func":
            return Problem(
                "expected operand of sdy.func_data_flow_edge to be a block argument of a func op."
            )
        return None
    definer = operand.defining_op
    if definer is None or definer.name != "func.call":
        return Problem("expected operand of sdy.func_data_flow_edge to be a result of call op.")
    return None


def propagation_barrier_problem(op: Operation) -> Problem | None:
    """Return the problem with an ``sdy.propagation_barrier``, or None."""
    direction = op.properties["allowed_direction"]
    if isinstance(direction, IntegerAttr) and direction.value == PropagationDirection.BOTH:
        return Problem(
            "cannot specify `BOTH` as the direction. Not blocking propagation direction makes "
            "the op redundant."
        )
    return None
