"""Rules for the dialect's attributes on operations of any dialect."""

from __future__ import annotations

from functools import partial

from emu.mlir.attributes import ArrayAttr, Attribute, TypeAttr
from emu.mlir.diagnostics import Diagnostics
from emu.mlir.ir import Operation
from emu.mlir.types import FunctionType
from emu.sdy.dialect.attributes import OpShardingRule, TensorSharding, TensorShardingPerValue
from emu.sdy.dialect.edge_attributes import PropagationEdges
from emu.sdy.dialect.names import (
    BLOCK_ARG_PROPAGATION_EDGES,
    PROPAGATION_EDGES,
    RESULT_PROPAGATION_EDGES,
    SHARDING,
    SHARDING_RULE,
)
from emu.sdy.dialect.verify.problems import Problem, report
from emu.sdy.dialect.verify.propagation_edges import edges_problem
from emu.sdy.dialect.verify.rules import sharding_rule_problem
from emu.sdy.dialect.verify.shardings import mesh_of, sharding_problem, shardings_problem


def _sharding(op: Operation, attribute: Attribute) -> Problem | None:
    if not isinstance(attribute, TensorShardingPerValue):
        return Problem("should have a sharding attribute of type TensorShardingPerValueAttr")
    problem = shardings_problem(attribute, [value.type for value in op.results], op)
    return problem and problem.within("result ")


def _sharding_rule(op: Operation, attribute: Attribute) -> Problem | None:
    if not isinstance(attribute, OpShardingRule):
        return Problem(
            "should have a sharding rule attribute of type OpShardingRuleAttr for attr named "
            f"'{SHARDING_RULE}'"
        )
    return sharding_rule_problem(attribute, op)


def _propagation_edges(op: Operation, attribute: Attribute) -> Problem | None:
    if not isinstance(attribute, PropagationEdges):
        return Problem(
            "should have a propagation edges attribute of type PropagationEdgesAttr for attr "
            f"named '{PROPAGATION_EDGES}'"
        )
    return edges_problem(attribute, op)


def _lists_of_propagation_edges(op: Operation, attribute: Attribute) -> Problem | None:
    if isinstance(attribute, ArrayAttr) and all(
        isinstance(each, PropagationEdges) for each in attribute.elements
    ):
        return None
    return Problem(
        "should have a propagation edges attribute of type ArrayAttr<PropagationEdgesAttr> for "
        f"attr named '{RESULT_PROPAGATION_EDGES}' or '{BLOCK_ARG_PROPAGATION_EDGES}'"
    )


_CHECKS = {
    SHARDING: _sharding,
    SHARDING_RULE: _sharding_rule,
    PROPAGATION_EDGES: _propagation_edges,
    RESULT_PROPAGATION_EDGES: _lists_of_propagation_edges,
    BLOCK_ARG_PROPAGATION_EDGES: _lists_of_propagation_edges,
}


def verify_operation(
    op: Operation, name: str, attribute: Attribute, diagnostics: Diagnostics
) -> bool:
    """Verify a discardable attribute of an operation."""
    check = _CHECKS.get(name)
    problem = None if check is None else check(op, attribute)
    if problem is not None:
        report(op, problem, diagnostics)
    return problem is None


def _verify_value(
    kind: str,
    op: Operation,
    index: int,
    name: str,
    attribute: Attribute,
    diagnostics: Diagnostics,
) -> bool:
    if name != SHARDING or op.name != "func.func":
        return True
    problem: Problem | None
    if isinstance(attribute, TensorSharding):
        stored = op.properties.get("function_type")
        if not isinstance(stored, TypeAttr) or not isinstance(stored.type, FunctionType):
            return True  # the function's own verifier says so
        types = stored.type.inputs if kind == "arg" else stored.type.results
        problem = sharding_problem(attribute, types[index], op, mesh_of(attribute, op))
    else:
        problem = Problem("should have a sharding attribute of type TensorShardingAttr")
    if problem is not None:
        report(op, problem.within(f"{kind} {index} - "), diagnostics)
    return problem is None


verify_argument = partial(_verify_value, "arg")
"""Verifies an attribute of a function's argument."""

verify_result = partial(_verify_value, "result")
"""Verifies an attribute of a function's result."""
