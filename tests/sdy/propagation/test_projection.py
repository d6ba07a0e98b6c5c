"""Dimensions to factors and back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.sdy.dialect.attributes import (
    AxisRef,
    DimensionSharding,
    DimMapping,
    Mesh,
    MeshAxis,
    OpShardingRule,
    SubAxisInfo,
    TensorMapping,
    TensorSharding,
)
from emu.sdy.propagation.projection import (
    FactorSharding,
    Prefix,
    TensorFactors,
    distribute_axes,
    list_prefix,
    project,
)

MESH = Mesh((MeshAxis("a", 2), MeshAxis("b", 4), MeshAxis("c", 3), MeshAxis("d", 8)))


def ax(name, pre_size=0, size=0):
    return AxisRef(name, SubAxisInfo(pre_size, size) if size else None)


A, B, C, D = map(ax, "abcd")


def open_dim(*axes):
    return DimensionSharding(axes, False)


def one_tensor(dims, sizes, *shardings, replicated=(), unreduced=()):
    """The projection of an operand with these dimensions, given by factors."""
    mapping = TensorMapping(tuple(DimMapping(dim) for dim in dims))
    rule = OpShardingRule(tuple(sizes), (mapping,), ())
    sharding = TensorSharding("m", shardings, replicated, unreduced)
    return mapping, project(rule, [sharding], [], MESH).operands[0]


def test_an_axis_is_split_where_factors_meet():
    mapping, tensor = one_tensor([(0, 1)], (2, 16), open_dim(B, A))
    assert tensor.factors == {
        0: FactorSharding((ax("b", 1, 2),)),
        1: FactorSharding((ax("b", 2, 2), A), is_minor_most=True),
    }
    assert tensor.sharding(mapping, (2, 16), "m", MESH).dims == (open_dim(B, A),)


def test_a_sub_axis_is_split_further():
    _, tensor = one_tensor([(0, 1)], (2, 2), open_dim(ax("d", 2, 4)))
    assert tensor.factors[0].axes == (ax("d", 2, 2),)
    assert tensor.factors[1].axes == (ax("d", 4, 2),)


def test_axes_that_do_not_divide_overflow_and_close_what_follows():
    mapping, tensor = one_tensor([(0, 1, 2)], (4, 4, 4), open_dim(A, C, B))
    assert tensor.factors == {
        0: FactorSharding((A,), overflow_axes=(C, B)),
        1: FactorSharding(is_closed=True),
    }
    assert tensor.has_overflow
    assert tensor.sharded_size(MESH) == 24
    assert tensor.sharding(mapping, (4, 4, 4), "m", MESH).dims == (open_dim(A, C, B),)


def test_the_minor_most_factor_takes_what_does_not_divide_it():
    _, tensor = one_tensor([(0,)], (4,), open_dim(C, D))
    assert tensor.factors == {0: FactorSharding((C, D), is_minor_most=True)}
    assert not tensor.has_overflow


def test_a_missing_sharding_is_open_unless_asked_otherwise():
    rule = OpShardingRule((4,), (TensorMapping((DimMapping((0,)),)),), ())
    for closed in (False, True):
        tensor = project(rule, [None], [], MESH, closed_if_missing=closed).operands[0]
        assert tensor.factors == {0: FactorSharding((), closed, is_minor_most=True)}


def test_what_lies_behind_an_incomplete_factor_is_dropped():
    mapping = TensorMapping((DimMapping((0, 1)),))
    tensor = TensorFactors(
        {0: FactorSharding((A,)), 1: FactorSharding((B,), is_minor_most=True)}, (C,), (D,)
    )
    # The first factor has size 4, so that "b" would cut each of two halves.
    assert tensor.sharding(mapping, (4, 8), "m", MESH) == TensorSharding(
        "m", (open_dim(A),), (C,), (D,)
    )
    assert tensor.sharding(mapping, (2, 8), "m", MESH).dims == (open_dim(A, B),)


def test_priorities_do_not_come_back():
    dim = DimensionSharding((A,), False, 3)
    mapping, tensor = one_tensor([(0,)], (4,), dim)
    assert tensor.sharding(mapping, (4,), "m", MESH).dims == (open_dim(A),)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((), (), Prefix.EQUAL),
        ((), (A,), Prefix.STRICT),
        ((A,), (A, B), Prefix.STRICT),
        ((A,), (A,), Prefix.EQUAL),
        ((A, B), (A,), Prefix.NONE),
        ((A, C), (A, B), Prefix.NONE),
        ((A, ax("d", 1, 2)), (A, D), Prefix.STRICT),
        ((A, ax("d", 1, 2)), (A, ax("d", 1, 4), B), Prefix.STRICT),
        ((ax("d", 1, 2), A), (D, A), Prefix.NONE),
        ((ax("d", 2, 2),), (D,), Prefix.NONE),
    ],
)
def test_list_prefix(first, second, expected):
    assert list_prefix(first, second) is expected


def test_expanding_needs_a_strict_prefix_and_the_factor():
    tensor = TensorFactors({0: FactorSharding((A,))})
    assert not tensor.expand(1, (A, B))
    assert not tensor.expand(0, (A,))
    assert not tensor.expand(0, (B, A))
    assert tensor.expand(0, (A, B))
    assert tensor.factors[0].axes == (A, B)


def test_updating_replaces_axes_and_overflow():
    tensor = TensorFactors({0: FactorSharding((A,), is_closed=True)})
    assert not tensor.update(1, (B,))
    assert not tensor.update(0, (A,))
    assert tensor.update(0, (B,), (C,))
    assert tensor.factors[0] == FactorSharding((B,), True, False, (C,))


def _matmul():
    def mapping(*factors):
        return TensorMapping(tuple(DimMapping((f,)) for f in factors))

    return OpShardingRule((8, 8, 8), (mapping(0, 2), mapping(2, 1)), (mapping(0, 1),), (2,))


def test_common_prefix_of_all_tensors():
    rule = _matmul()
    left = TensorSharding("m", (open_dim(B, A), open_dim(C)))
    right = TensorSharding("m", (open_dim(), open_dim(D)))
    result = TensorSharding("m", (open_dim(ax("b", 1, 2)), open_dim(D)))
    projection = project(rule, [left, right], [result], MESH)
    assert projection.common_prefix_axes(3) == [(ax("b", 1, 2),), (D,), ()]


def test_distributing_axes_skips_factors_that_they_do_not_divide():
    empty = (FactorSharding(), FactorSharding(is_minor_most=True))
    first, second = distribute_axes(empty, (3, 8), (B, C), MESH)
    assert (first.axes, second.axes) == ((C,), (B,))
    first, second = distribute_axes(empty, (2, 2), (D,), MESH)
    assert (first.axes, second.axes) == ((ax("d", 1, 2),), (ax("d", 2, 2),))
    assert second.overflow_axes == (ax("d", 4, 2),)


PIECES = {
    "a": [(ax("a"),)],
    "b": [(B,), (ax("b", 1, 2), ax("b", 2, 2)), (ax("b", 2, 2),)],
    "c": [(C,)],
    "d": [(D,), (ax("d", 1, 2), ax("d", 4, 2)), (ax("d", 2, 4),)],
}


@st.composite
def tensors(draw):
    """Dimensions of factors, their sizes, and a sharding of them."""
    counts = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    starts = [sum(counts[:i]) for i in range(len(counts) + 1)]
    dims = [tuple(range(starts[i], starts[i + 1])) for i in range(len(counts))]
    sizes = draw(
        st.lists(st.sampled_from((2, 3, 4, 6, 8)), min_size=starts[-1], max_size=starts[-1])
    )
    names = draw(st.permutations("abcd"))
    axes = [axis for name in names for axis in draw(st.sampled_from(PIECES[name]))]
    places = draw(st.lists(st.integers(0, 4), min_size=len(axes), max_size=len(axes)))
    by_dim = [[axis for axis, at in zip(axes, places, strict=True) if at == i] for i in range(5)]
    shardings = []
    for i in range(len(dims)):
        # Two sub-axes that could be one are no valid sharding.
        kept = [
            axis for n, axis in enumerate(by_dim[i]) if not n or by_dim[i][n - 1].name != axis.name
        ]
        shardings.append(DimensionSharding(tuple(kept), draw(st.booleans())))
    return dims, sizes, shardings


@settings(deadline=None)
@given(tensors())
def test_there_and_back_is_the_same(tensor):
    dims, sizes, shardings = tensor
    mapping, projected = one_tensor(dims, sizes, *shardings)
    assert projected.sharding(mapping, sizes, "m", MESH).dims == tuple(shardings)


@settings(deadline=None)
@given(tensors())
def test_no_axis_is_lost_or_doubled_among_factors(tensor):
    dims, sizes, shardings = tensor
    _, projected = one_tensor(dims, sizes, *shardings)
    cut = 1
    for dim in shardings:
        cut *= dim.sharded_size(MESH)
    assert projected.sharded_size(MESH) == cut
