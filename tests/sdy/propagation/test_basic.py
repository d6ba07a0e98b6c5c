"""The basic strategy: axes on which all tensors of a factor agree."""

import pytest
from sdy_factor_cases import ax, closed, step, tensor

from emu.sdy.dialect.attributes import (
    PropagationDirection,
)
from emu.sdy.propagation.basic import compatible_axes, merge_axes, propagate_basic
from emu.sdy.propagation.projection import (
    FactorSharding,
    Projection,
)

NONE, FORWARD, BACKWARD, BOTH = PropagationDirection


A, B, C, D = map(ax, "abcd")


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
