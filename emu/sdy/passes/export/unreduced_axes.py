"""``sdy-verify-unreduced-axes``: finds partial results that nothing combines."""

from __future__ import annotations

from collections.abc import Sequence

from emu.mlir.diagnostics import PassFailed
from emu.mlir.ir import Operation, Region, Value
from emu.mlir.registry import definition
from emu.mlir.symbols import SymbolTable
from emu.sdy.dialect.attributes import AxisRef, ManualAxes, ReductionOp, TensorSharding
from emu.sdy.dialect.functions import (
    callee_name,
    find_function,
    func_arg_sharding,
    func_result_sharding,
)
from emu.sdy.dialect.names import REDUCING
from emu.sdy.dialect.shardings import sharding_bypassing_barriers
from emu.sdy.dialect.tensors import erase_manual_axes
from emu.sdy.dialect.verify.problems import Problem, report
from emu.sdy.dialect.verify.unreduced import transition_problem
from emu.sdy.passes.base import FunctionPass, Session

_RESHARDS = frozenset({"sdy.reshard", "sdy.sharding_constraint"})
_COLLECTIVES = frozenset({"stablehlo.all_reduce", "stablehlo.reduce_scatter"})
_RETURNS = frozenset({"func.return", "sdy.return"})
_OPERATORS = {
    "stablehlo.add": ReductionOp.SUM,
    "stablehlo.maximum": ReductionOp.MAX,
    "stablehlo.minimum": ReductionOp.MIN,
}

Shardings = list[TensorSharding | None]


class VerifyUnreducedAxes(FunctionPass, name="sdy-verify-unreduced-axes"):
    """Verify that unreduced axes of operands are reduced or passed on.

    Reshards and constraints may reduce them, collectives along those of their own
    operator. Other operations pass them on; they may add unreduced axes of a sum,
    and a reduction those of its operator. Calls and returns pass on what the other
    side expects.
    """

    def run(self, op: Operation, session: Session) -> None:
        """Report the first wrong operation of a function, inner ones before outer ones."""
        module = op.parent_op
        if module is None:
            raise ValueError(f"{op.name} is in no module")
        table = SymbolTable(module)
        for each in op.walk(post_order=True):
            problem = None if each is op else _problem(each, table)
            if problem is not None:
                report(each, problem, session.diagnostics)
                raise PassFailed("unreduced axes are inconsistent")


def _problem(op: Operation, table: SymbolTable) -> Problem | None:
    if op.name in _RESHARDS:
        return None  # its verifier knows what it may do
    if op.name == "stablehlo.reduce":
        inputs = op.operands[: len(op.results)]
        operator = reduction_operator(op.regions[0])
        return transition_problem(op, _operands(inputs), _results(op), introduced=operator)
    if op.name in REDUCING:
        if sharding_bypassing_barriers(op.operands[0]) is None:
            return Problem("operand must be sharded.")
        return None  # its verifier knows the rest
    if op.name in _COLLECTIVES:
        before = [sharding_bypassing_barriers(op.operands[0])]
        operator = reduction_operator(op.regions[0])
        return transition_problem(op, before, _results(op)[:1], removed=operator)
    if op.name == "func.call":
        return _call_problem(op, find_function(table, callee_name(op)))
    if op.name in _RETURNS:
        return _return_problem(op)
    if definition(op.name).terminator:
        return None
    # What a dot, or any other operation, sums up it may leave as partial sums.
    return transition_problem(op, _operands(op.operands), _results(op), introduced=ReductionOp.SUM)


def reduction_operator(body: Region) -> ReductionOp | None:
    """Return the operator with which a region combines all its values; None for any other."""
    terminator = body.blocks[0].terminator if body.blocks else None
    if terminator is None or terminator.name != "stablehlo.return":
        return None
    definers = [value.defining_op for value in terminator.operands]
    found = {None if op is None else _OPERATORS.get(op.name) for op in definers}
    return found.pop() if len(found) == 1 else None


def _is_resharded(value: Value) -> bool:
    op = value.defining_op
    while op is not None and op.name == "sdy.propagation_barrier":
        op = op.operands[0].defining_op
    return op is not None and op.name in _RESHARDS


def _operands(values: Sequence[Value]) -> Shardings:
    """Return the shardings of operands; None for those that were resharded just before."""
    return [
        None if _is_resharded(value) else sharding_bypassing_barriers(value) for value in values
    ]


def _results(op: Operation) -> Shardings:
    return [sharding_bypassing_barriers(result) for result in op.results]


# Calls and returns


def _call_problem(op: Operation, function: Operation) -> Problem | None:
    for index, operand in enumerate(op.operands):
        if _is_resharded(operand):
            continue
        given = sharding_bypassing_barriers(operand)
        problem = _mismatch(
            given, func_arg_sharding(function, index), f"' at call argument {index}."
        )
        if problem is not None:
            return problem
    for index, result in enumerate(op.results):
        given = func_result_sharding(function, index)
        problem = _mismatch(
            given, sharding_bypassing_barriers(result), f"' at call result {index}."
        )
        if problem is not None:
            return problem
    return None


def _return_problem(op: Operation) -> Problem | None:
    parent = op.parent_op
    if parent is None:
        return None
    for index, operand in enumerate(op.operands):
        expected = _expected_of_return(parent, index)
        if expected is None or _is_resharded(operand):
            continue
        problem = _mismatch(
            sharding_bypassing_barriers(operand),
            expected,
            f"' at return value {index} without a blessed operation (e.g., sdy.reshard). This is "
            "an invalid transition from unreduced to reduced.",
        )
        if problem is not None:
            return problem
    return None


def _expected_of_return(parent: Operation, index: int) -> TensorSharding | None:
    if parent.name == "func.func":
        return func_result_sharding(parent, index)
    if index >= len(parent.results):
        return None
    expected = sharding_bypassing_barriers(parent.results[index])
    manual = parent.properties.get("manual_axes")
    if expected is not None and isinstance(manual, ManualAxes):
        return erase_manual_axes(expected, manual.axes)
    return expected


def _mismatch(
    given: TensorSharding | None, expected: TensorSharding | None, where: str
) -> Problem | None:
    have, want = _unreduced(given), _unreduced(expected)
    if have == want:
        return None
    names = sorted({axis.name for axis in have ^ want})
    return Problem(f"has unreduced axes mismatch for '{', '.join(names)}{where}")


def _unreduced(sharding: TensorSharding | None) -> frozenset[AxisRef]:
    return frozenset() if sharding is None else frozenset(sharding.unreduced_axes)
