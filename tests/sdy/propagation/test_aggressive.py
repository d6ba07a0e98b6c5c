"""The aggressive strategy: what each tensor of a factor can have."""

from dataclasses import replace

from emu.sdy.dialect.attributes import (
    AxisRef,
    Mesh,
    MeshAxis,
    PropagationDirection,
    SubAxisInfo,
)
from emu.sdy.propagation.aggressive import propagate_aggressive
from emu.sdy.propagation.basic import StepContext
from emu.sdy.propagation.projection import (
    FactorSharding,
    Projection,
    TensorFactors,
)

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
