"""The aggressive strategy: what each tensor of a factor can have."""

from sdy_factor_cases import ax, closed, step, tensor

from emu.sdy.dialect.attributes import (
    PropagationDirection,
)
from emu.sdy.propagation.aggressive import propagate_aggressive

NONE, FORWARD, BACKWARD, BOTH = PropagationDirection


A, B, C, D = map(ax, "abcd")


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
