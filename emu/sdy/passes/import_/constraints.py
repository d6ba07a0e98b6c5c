"""Application of sharding constraints to their inputs.

A constraint propagates like any other sharding, except that being *closed* does
not propagate. If a closed constraint clearly refers to its input (nothing else
constrains it), the sharding is copied to the input, with its closed dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from emu.mlir.ir import Operation, Value
from emu.sdy.dialect.attributes import TensorSharding, TensorShardingPerValue
from emu.sdy.dialect.dataflow import edge_of_target
from emu.sdy.dialect.shardings import (
    get_or_create_sharding,
    get_sharding,
    set_sharding,
    shardable_value,
)
from emu.sdy.passes.base import ModulePass, Session
from emu.sdy.passes.insertion_point import Place, replace_other_uses
from emu.sdy.propagation.origins import SourceTracker
from emu.sdy.rules import get_or_create

_CONSTRAINT = "sdy.sharding_constraint"
_MANUAL = "sdy.manual_computation"


class ApplyShardingConstraints(ModulePass, name="sdy-apply-sharding-constraints"):
    """Copy closed constraints to their inputs if these have no other constraint.

    The input must have no sharding yet, and no other constraint (or in-sharding of a
    manual computation) on it may differ. An input that is the target of a data-flow
    edge is not changed; the constraint takes over its uses instead. In a chain of
    constraints, the last one takes over the later uses of the input.
    """

    debug_sharding_origins: bool = False
    debug_propagation_edge_sharding: bool = False

    def run(self, op: Operation, session: Session) -> None:
        """Apply the constraints of a module."""
        tracker = SourceTracker(
            op, origins=self.debug_sharding_origins, edges=self.debug_propagation_edge_sharding
        )
        for each in op.walk(post_order=True):
            if each.name == _CONSTRAINT:
                _apply_constraint_op(each, session, tracker)
            elif each.name == _MANUAL:
                _apply_in_shardings(each, session, tracker)
        tracker.save()


def _apply_constraint_op(constraint: Operation, session: Session, tracker: SourceTracker) -> None:
    source = constraint.operands[0]
    tail = _tail_of_chain(constraint)
    if tail is not None:
        last = tail

        def later(user: Operation, _: int) -> bool:
            return (
                user is not constraint
                and user.name != "func.return"
                and user.parent is last.parent
                and last.is_before(user)
            )

        source.replace_uses_where(tail.result, later)

    def moved() -> Operation:
        constraint.detach()  # first: it may be the operation right after the source
        return Place.after_value(source).insert(constraint)

    _apply(constraint, source, _sharding_of(constraint), moved, session, tracker)


def _sharding_of(constraint: Operation) -> TensorSharding:
    sharding = constraint.properties["sharding"]
    assert isinstance(sharding, TensorSharding)  # checked by the verifier
    return sharding


def _in_shardings(manual: Operation) -> tuple[TensorSharding, ...]:
    found = manual.properties["in_shardings"]
    assert isinstance(found, TensorShardingPerValue)  # checked by the verifier
    return found.shardings


def _apply_in_shardings(manual: Operation, session: Session, tracker: SourceTracker) -> None:
    def new_constraint(value: Value, sharding: TensorSharding) -> Operation:
        constraint = Operation(
            _CONSTRAINT,
            [value],
            [value.type],
            properties={"sharding": sharding},
            location=manual.location,
        )
        return Place.after_value(value).insert(constraint)

    for index, sharding in enumerate(_in_shardings(manual)):
        # Not earlier: a constraint on an earlier operand may have taken over this one.
        value = manual.operands[index]
        _apply(
            manual,
            value,
            sharding,
            partial(new_constraint, value, sharding),
            session,
            tracker,
        )


def _apply(
    op: Operation,
    source: Value,
    sharding: TensorSharding,
    constraint_after_source: Callable[[], Operation],
    session: Session,
    tracker: SourceTracker,
) -> None:
    """Copy ``sharding`` to ``source``, or let a constraint take over its uses."""
    if not _dictates(source, sharding):
        return
    defining = source.defining_op
    from_edge = defining is not None and defining.name == "sdy.data_flow_edge"
    if not from_edge and edge_of_target(source) is None:
        rule = get_or_create(op, diagnostics=session.diagnostics)  # sets it on the operation
        tracker.around(op, rule, partial(set_sharding, source, sharding))
        return
    # The edge's sharding would hold for all its targets.
    constraint = constraint_after_source()
    replace_other_uses(source, constraint.result)
    if sharding.unreduced_axes:
        # Unreduced axes do not propagate from the constraint to the source.
        own = get_or_create_sharding(source, sharding.mesh)
        unreduced, reduction_op = sharding.unreduced_axes, sharding.reduction_op
        set_sharding(source, replace(own, unreduced_axes=unreduced, reduction_op=reduction_op))


def _dictates(source: Value, sharding: TensorSharding) -> bool:
    if shardable_value(source) is None or get_sharding(source) is not None:
        return False
    return sharding.is_fully_closed and not any(
        (user.name == _CONSTRAINT and _sharding_of(user) != sharding)
        or (user.name == _MANUAL and _in_shardings(user)[index] != sharding)
        for user, index in source.uses
    )


def _is_constrained(value: Value, exception: Operation | None = None) -> bool:
    return any(
        user.name in (_CONSTRAINT, _MANUAL) and user is not exception for user in value.walk_users()
    )


def _tail_of_chain(head: Operation) -> Operation | None:
    """Return the last of a chain of constraints after ``head``, each the only user.

    None unless ``head`` is the first, its input has no sharding and no other
    constraint, at least one follows, and nothing else constrains the last.
    """
    source = head.operands[0]
    defining = source.defining_op
    if defining is not None and defining.name == _CONSTRAINT:
        return None
    if get_sharding(source) is not None or _is_constrained(source, head):
        return None
    tail = head
    while tail.result.has_one_use and (user := tail.result.users[0]).name == _CONSTRAINT:
        tail = user
    if tail is head or _is_constrained(tail.result):
        return None
    return tail
