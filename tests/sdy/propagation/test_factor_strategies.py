"""The basic and the aggressive strategy, and the explanation of their conflicts."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from sdy_factor_cases import MESH, ax

from emu.sdy.dialect.attributes import (
    OpShardingRule,
    PropagationDirection,
)
from emu.sdy.dialect.axes import contains, lists_overlap
from emu.sdy.propagation.aggressive import propagate_aggressive
from emu.sdy.propagation.basic import StepContext, propagate_basic
from emu.sdy.propagation.conflicts import find_conflicts
from emu.sdy.propagation.events import ConflictReason
from emu.sdy.propagation.projection import (
    FactorSharding,
    Prefix,
    Projection,
    TensorFactors,
    list_prefix,
)
from emu.sdy.propagation.steps import Outcome

NONE, FORWARD, BACKWARD, BOTH = PropagationDirection


A, B, C, D = map(ax, "abcd")


PIECES = {
    "a": [(A,)],
    "b": [(B,), (ax("b", 1, 2),), (ax("b", 2, 2),)],
    "c": [(C,)],
    "d": [(D,), (ax("d", 1, 2),), (ax("d", 1, 4), ax("d", 4, 2)), (ax("d", 1, 2), ax("d", 4, 2))],
}


@st.composite
def some_tensor(draw, count):
    """A tensor that has some of the factors, sharded in some valid way."""
    own = draw(st.lists(st.integers(0, count - 1), min_size=1, unique=True))
    names = draw(st.lists(st.sampled_from("abcd"), unique=True))
    axes = [axis for name in names for axis in draw(st.sampled_from(PIECES[name]))]
    # Behind the factors: replicated, unreduced, nowhere.
    places = [draw(st.integers(0, len(own) + 2)) for _ in axes]
    at = [
        tuple(a for a, p in zip(axes, places, strict=True) if p == i) for i in range(len(own) + 2)
    ]
    factors = {}
    for index, factor in enumerate(own):
        minor = draw(st.booleans())
        overflow = at[index][1:] if not minor and draw(st.booleans()) else ()
        kept = at[index][: len(at[index]) - len(overflow)]
        factors[factor] = FactorSharding(kept, draw(st.booleans()), minor, overflow)
    return TensorFactors(factors, at[-2], at[-1])


@st.composite
def cases(draw):
    """A strategy, tensors and what else a step depends on."""
    count = draw(st.integers(1, 4))
    operands = draw(st.lists(some_tensor(count), min_size=1, max_size=3))
    results = draw(st.lists(some_tensor(count), min_size=1, max_size=2))
    about = StepContext(
        MESH,
        tuple(draw(st.sampled_from((2, 4, 6, 8, 64))) for _ in range(count)),
        tuple(draw(st.sampled_from((BOTH, BOTH, FORWARD, BACKWARD, NONE))) for _ in range(count)),
        draw(st.booleans()),
        draw(st.booleans()),
    )
    strategy = draw(st.sampled_from((propagate_basic, propagate_aggressive)))
    return strategy, Projection(operands, results), about


@settings(deadline=None)
@given(cases())
def test_axes_are_only_appended(case):
    strategy, before, about = case
    after = before.copy()
    strategy(after, about)
    for old, new in zip(before.tensors, after.tensors, strict=True):
        assert old.factors.keys() == new.factors.keys()
        for factor, sharding in old.factors.items():
            now = new.factors[factor]
            assert list_prefix(sharding.axes, now.axes) is not Prefix.NONE
            assert replace(now, axes=sharding.axes) == sharding
            if sharding.is_closed:
                assert now.axes == sharding.axes


@settings(deadline=None)
@given(cases())
def test_no_tensor_gets_an_axis_twice(case):
    strategy, before, about = case
    after = before.copy()
    strategy(after, about)
    for old, new in zip(before.tensors, after.tensors, strict=True):
        for factor, sharding in new.factors.items():
            gained = [axis for axis in sharding.axes if axis not in old.factors[factor].axes]
            others = [
                axis
                for index, other in new.factors.items()
                if index != factor
                for axis in other.axes + other.overflow_axes
            ]
            assert not lists_overlap(gained, [*others, *new.replicated_axes, *new.unreduced_axes])


@settings(deadline=None)
@given(cases())
def test_a_basic_step_leaves_nothing_to_do(case):
    _, projection, about = case
    propagate_basic(projection, about)
    assert not any(propagate_basic(projection, about))


def conflicts_of(strategy, before, about):
    after = before.copy()
    strategy(after, about)
    rule = OpShardingRule(about.factor_sizes)
    return after, find_conflicts(strategy, rule, Outcome(about, before, after, ()), after)


@settings(deadline=None)
@given(cases())
def test_whatever_did_not_arrive_is_explained(case):
    strategy, before, about = case
    after, conflicts = conflicts_of(strategy, before, about)
    reported = {(conflict.factor, conflict.tensor, conflict.axis) for conflict in conflicts}
    for index, mine in enumerate(after.tensors):
        for factor, sharding in mine.factors.items():
            for source in before.tensors:
                offered = source.factors.get(factor, FactorSharding()).axes
                if any(not any(contains(o, a) for o in sharding.axes) for a in offered):
                    assert any((factor, index, axis) in reported for axis in offered)


@settings(deadline=None)
@given(cases())
def test_what_is_explained_did_not_arrive(case):
    strategy, before, about = case
    after, conflicts = conflicts_of(strategy, before, about)
    for conflict in conflicts:
        mine = after.tensors[conflict.tensor].factors[conflict.factor].axes
        assert not any(contains(axis, conflict.axis) for axis in mine)
        assert conflict.axis in before.tensors[conflict.source].factors[conflict.factor].axes


def without_reason(conflict, before, about):
    """The same step without the reported reason."""
    changed = before.copy()
    other = None if conflict.other_tensor is None else changed.tensors[conflict.other_tensor]
    match conflict.reason:
        case ConflictReason.DIRECTION:
            about = replace(about, directions=(BOTH,) * len(about.directions))
        case ConflictReason.CONSERVATIVE:
            about = replace(about, conservative=False)
        case ConflictReason.RESULT_LIMITS:
            about = replace(about, elementwise=False)
        case ConflictReason.REPLICATED:
            other.replicated_axes = ()
        case ConflictReason.UNREDUCED:
            other.unreduced_axes = ()
        case ConflictReason.CLOSED:
            other.factors[conflict.factor] = replace(
                other.factors[conflict.factor], is_closed=False
            )
        case ConflictReason.OVERFLOW:
            other.factors[conflict.factor] = replace(
                other.factors[conflict.factor], overflow_axes=()
            )
        case ConflictReason.NOT_DIVISIBLE:
            other.factors[conflict.factor] = replace(
                other.factors[conflict.factor], is_minor_most=True
            )
        case ConflictReason.NOT_TAKEN | ConflictReason.DISAGREEMENT:
            other.factors[conflict.factor] = replace(other.factors[conflict.factor], axes=())
        case ConflictReason.OTHER_FACTOR:
            del other.factors[conflict.other_factor]
    return changed, about


@settings(deadline=None)
@given(cases())
def test_without_its_reason_a_cut_is_none_or_has_another(case):
    strategy, before, about = case
    _, conflicts = conflicts_of(strategy, before, about)
    for conflict in conflicts:
        changed, other = without_reason(conflict, before, about)
        assert conflict not in conflicts_of(strategy, changed, other)[1]
