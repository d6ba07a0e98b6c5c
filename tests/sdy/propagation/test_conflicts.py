"""Reasons why an axis did not reach a tensor."""

from dataclasses import replace

import pytest
from sdy_factor_cases import ax, closed, context, tensor

from emu.sdy.dialect.attributes import (
    OpShardingRule,
    PropagationDirection,
)
from emu.sdy.propagation.aggressive import propagate_aggressive
from emu.sdy.propagation.basic import propagate_basic
from emu.sdy.propagation.conflicts import find_conflicts
from emu.sdy.propagation.events import Conflict, ConflictReason
from emu.sdy.propagation.projection import (
    FactorSharding,
    Projection,
)
from emu.sdy.propagation.steps import Outcome

NONE, FORWARD, BACKWARD, BOTH = PropagationDirection


A, B, C, D = map(ax, "abcd")


def explained(strategy, operands, results, blocked=(), **changes):
    projection = Projection(list(operands), list(results))
    about = context(projection, **changes)
    directions = tuple(NONE if f in blocked else d for f, d in enumerate(about.directions))
    about = replace(about, directions=directions)
    rule = OpShardingRule(about.factor_sizes, blocked_propagation=tuple(blocked))
    after = projection.copy()
    strategy(after, about)
    return find_conflicts(strategy, rule, Outcome(about, projection, after, ()), after)


@pytest.mark.parametrize(
    ("target", "changes", "reason"),
    [
        (tensor({0: closed()}), {}, ConflictReason.CLOSED),
        (tensor({0: []}, replicated=(A,)), {}, ConflictReason.REPLICATED),
        (tensor({0: []}, unreduced=(A,)), {}, ConflictReason.UNREDUCED),
        (tensor({0: FactorSharding((), overflow_axes=(C,))}), {}, ConflictReason.OVERFLOW),
        (tensor({0: FactorSharding()}), {"factor_sizes": (5,)}, ConflictReason.NOT_DIVISIBLE),
        (tensor({0: [B]}), {}, ConflictReason.NOT_TAKEN),
        (tensor({0: []}), {"directions": (BACKWARD,)}, ConflictReason.DIRECTION),
        (tensor({0: []}), {"blocked": (0,)}, ConflictReason.BLOCKED),
    ],
)
@pytest.mark.parametrize("strategy", [propagate_basic, propagate_aggressive])
def test_the_reason_of_a_cut(strategy, target, changes, reason):
    (conflict,) = [
        conflict
        for conflict in explained(strategy, [tensor({0: [A]})], [target], **changes)
        if conflict.tensor == 1
    ]
    assert (conflict.factor, conflict.axis, conflict.source, conflict.reason) == (0, A, 0, reason)


def test_another_factor_has_the_axis():
    conflicts = explained(
        propagate_aggressive, [tensor({0: [A]}), tensor({1: [A]})], [tensor({0: [], 1: []})]
    )
    assert conflicts == (Conflict(1, A, 2, ConflictReason.OTHER_FACTOR, 1, 2, 0),)


def test_conservative_propagation_is_a_reason():
    conflicts = explained(
        propagate_basic,
        [tensor({0: [B]})],
        [tensor({0: FactorSharding(), 1: []})],
        factor_sizes=(2, 64),
        conservative=True,
    )
    assert conflicts == (Conflict(0, B, 1, ConflictReason.CONSERVATIVE, 0, 1),)


def test_a_shorter_result_is_a_reason():
    conflicts = explained(
        propagate_aggressive,
        [tensor({0: [A]}), tensor({0: []})],
        [tensor({0: closed()})],
        elementwise=True,
    )
    assert Conflict(0, A, 1, ConflictReason.RESULT_LIMITS, 0, 2) in conflicts


def test_two_tensors_that_disagree_keep_a_third_from_getting_any():
    conflicts = explained(
        propagate_aggressive, [tensor({0: [A]}), tensor({0: [B]})], [tensor({0: []})]
    )
    assert Conflict(0, A, 2, ConflictReason.DISAGREEMENT, 0, 1) in conflicts
    assert Conflict(0, B, 2, ConflictReason.DISAGREEMENT, 1, 0) in conflicts
