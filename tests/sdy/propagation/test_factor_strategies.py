"""The basic and the aggressive strategy, and the explanation of their conflicts."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.sdy.dialect.attributes import (
    AxisRef,
    Mesh,
    MeshAxis,
    OpShardingRule,
    PropagationDirection,
    SubAxisInfo,
)
from emu.sdy.dialect.axes import contains, lists_overlap
from emu.sdy.propagation.aggressive import propagate_aggressive
from emu.sdy.propagation.basic import StepContext, compatible_axes, merge_axes, propagate_basic
from emu.sdy.propagation.conflicts import find_conflicts
from emu.sdy.propagation.events import Conflict, ConflictReason
from emu.sdy.propagation.projection import (
    FactorSharding,
    Prefix,
    Projection,
    TensorFactors,
    list_prefix,
)
from emu.sdy.propagation.steps import Outcome

NONE, FORWARD, BACKWARD, BOTH = PropagationDirection
MESH = Mesh((MeshAxis("a", 2), MeshAxis("b", 4), MeshAxis("c", 3), MeshAxis("d", 8)))


def ax(name, pre_size=0, size=0):
    return AxisRef(name, SubAxisInfo(pre_size, size) if size else None)


A, B, C, D = map(ax, "abcd")


def tensor(factors, replicated=(), unreduced=()):
    """A tensor by its factors: axes, or a `FactorSharding`."""
    return TensorFactors(
        {
            f: s if isinstance(s, FactorSharding) else FactorSharding(tuple(s), is_minor_most=True)
            for f, s in factors.items()
        },
        replicated,
        unreduced,
    )


def closed(*axes):
    return FactorSharding(axes, is_closed=True, is_minor_most=True)


def context(projection, **changes):
    count = 1 + max(f for t in projection.tensors for f in t.factors)
    return replace(StepContext(MESH, (64,) * count, (BOTH,) * count), **changes)


def step(strategy, operands, results, **changes):
    """What a strategy makes of tensors: for each, the axes by factor."""
    projection = Projection(list(operands), list(results))
    after = projection.copy()
    updated = strategy(after, context(projection, **changes))
    for old, new, flag in zip(projection.tensors, after.tensors, updated, strict=True):
        assert flag == (old != new)
    return [{f: s.axes for f, s in t.factors.items()} for t in after.tensors]


# Merging lists


@pytest.mark.parametrize(
    ("axes", "more", "can_expand", "expected"),
    [
        ((), (A,), True, ((A,), True)),
        ((), (A,), False, ((), False)),
        ((A,), (A, B), True, ((A, B), True)),
        ((A,), (A, B), False, ((A,), False)),
        ((A, B), (A,), True, ((A, B), True)),
        ((A, B), (A,), False, ((A, B), False)),
        ((A, B), (A, C), True, ((A,), False)),
        ((A,), (B,), True, ((), False)),
        ((ax("d", 1, 2),), (ax("d", 1, 4),), True, ((ax("d", 1, 4),), True)),
        ((ax("d", 1, 2),), (ax("d", 1, 4), A), True, ((ax("d", 1, 4), A), True)),
        ((ax("d", 1, 2),), (ax("d", 1, 4),), False, ((ax("d", 1, 2),), False)),
        ((ax("d", 1, 2), A), (ax("d", 1, 4), A), True, ((ax("d", 1, 2),), False)),
        ((D,), (ax("d", 1, 2),), True, ((D,), True)),
        ((D, A), (ax("d", 1, 2), A), True, ((ax("d", 1, 2),), False)),
        ((ax("d", 1, 2),), (ax("d", 2, 2),), True, ((), False)),
    ],
)
def test_merging_two_lists(axes, more, can_expand, expected):
    assert merge_axes(axes, more, can_expand) == expected


@pytest.mark.parametrize(
    ("direction", "expected"),
    [(NONE, ()), (FORWARD, (A,)), (BACKWARD, (A, B)), (BOTH, (A, B))],
)
def test_a_direction_says_who_brings_axes(direction, expected):
    projection = Projection([tensor({0: [A]})], [tensor({0: [A, B]})])
    assert compatible_axes(projection, 0, direction) == expected


# The basic strategy


def test_basic_gives_all_tensors_the_agreed_axes():
    left, right, result = step(
        propagate_basic,
        [tensor({0: [A], 2: [B]}), tensor({1: [], 2: []})],
        [tensor({0: [], 1: [C]})],
    )
    assert (left, right, result) == ({0: (A,), 2: (B,)}, {1: (C,), 2: (B,)}, {0: (A,), 1: (C,)})


def test_basic_stops_for_all_where_one_cannot_follow():
    # The second operand is closed, so that nobody gets "b".
    assert step(
        propagate_basic, [tensor({0: [A, B]}), tensor({0: closed(A)})], [tensor({0: []})]
    ) == [{0: (A, B)}, {0: (A,)}, {0: (A,)}]


def test_basic_leaves_an_axis_that_two_factors_want():
    assert step(
        propagate_basic, [tensor({0: [A]}), tensor({1: [A]})], [tensor({0: [], 1: []})]
    ) == [
        {0: (A,)},
        {1: (A,)},
        {0: (), 1: ()},
    ]


@pytest.mark.parametrize("explicit", [{"replicated": (B,)}, {"unreduced": (B,)}])
def test_basic_stops_at_explicit_axes(explicit):
    assert step(propagate_basic, [tensor({0: [A, B]})], [tensor({0: []}, **explicit)]) == [
        {0: (A, B)},
        {0: (A,)},
    ]


def test_basic_cuts_an_axis_to_what_divides_a_factor_that_is_not_minor_most():
    major = FactorSharding()
    sizes = {"factor_sizes": (2, 64)}
    for axes, expected in [((B,), (ax("b", 1, 2),)), ((C,), ()), ((A, C), (A,))]:
        _, result = step(propagate_basic, [tensor({0: axes})], [tensor({0: major, 1: []})], **sizes)
        assert result[0] == expected


def test_basic_lets_a_part_of_the_last_axis_stay():
    # The second operand has a half of "b" and is closed: nobody gets the whole.
    half = ax("b", 1, 2)
    assert step(
        propagate_basic, [tensor({0: [B]}), tensor({0: closed(half)})], [tensor({0: []})]
    ) == [{0: (B,)}, {0: (half,)}, {0: (half,)}]


def test_a_factor_that_is_cut_unevenly_takes_nothing_more():
    odd = FactorSharding((C,))
    _, result = step(
        propagate_basic, [tensor({0: [C, A]})], [tensor({0: odd, 1: []})], factor_sizes=(4, 64)
    )
    assert result[0] == (C,)


def test_conservative_propagation_makes_no_sub_axes():
    def result(**changes):
        return step(
            propagate_basic,
            [tensor({0: [B]})],
            [tensor({0: FactorSharding(), 1: []})],
            factor_sizes=(2, 64),
            **changes,
        )[1][0]

    assert result() == (ax("b", 1, 2),)
    assert result(conservative=True) == ()


# The aggressive strategy


def test_aggressive_gives_each_what_it_can_have():
    assert step(
        propagate_aggressive, [tensor({0: [A, B]}), tensor({0: closed(A)})], [tensor({0: []})]
    ) == [{0: (A, B)}, {0: (A,)}, {0: (A, B)}]


def test_aggressive_prefers_the_larger_source():
    small, large = tensor({0: [A]}), tensor({1: [A], 2: []})
    for operands in ([small, large], [large, small]):
        result = step(propagate_aggressive, operands, [tensor({0: [], 1: []})])[2]
        assert result == {0: (), 1: (A,)}


def test_of_equal_sources_the_first_one_wins():
    for first, second in [(0, 1), (1, 0)]:
        operands = [tensor({first: [A]}), tensor({second: [A]})]
        result = step(propagate_aggressive, operands, [tensor({0: [], 1: []})])[2]
        assert result == {first: (A,), second: ()}


def test_of_elementwise_operations_the_more_sharded_factor_wins():
    operands = [tensor({0: [A], 1: []}), tensor({0: [], 1: [A, B]})]
    plain, elementwise = (
        step(propagate_aggressive, operands, [tensor({0: [], 1: []})], elementwise=flag)[2]
        for flag in (False, True)
    )
    assert plain == {0: (A,), 1: ()}
    assert elementwise == {0: (), 1: (A, B)}


def test_operands_of_elementwise_operations_get_no_more_than_a_result():
    operands = [tensor({0: [A]}), tensor({0: []})]
    for flag, expected in [(False, (A,)), (True, ())]:
        after = step(propagate_aggressive, operands, [tensor({0: closed()})], elementwise=flag)
        assert after[1][0] == expected


# Explanations


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


# Properties

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


@given(cases())
def test_without_its_reason_a_cut_is_none_or_has_another(case):
    strategy, before, about = case
    _, conflicts = conflicts_of(strategy, before, about)
    for conflict in conflicts:
        changed, other = without_reason(conflict, before, about)
        assert conflict not in conflicts_of(strategy, changed, other)[1]
