"""Along which axes an operation works: the choice for each factor."""

from __future__ import annotations

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
from emu.sdy.passes.export.reshards.common_axes import common_axes, compatible_axes_of_factor
from emu.sdy.propagation.projection import project

MESH = Mesh((MeshAxis("x", 2), MeshAxis("y", 4), MeshAxis("z", 3)))
I, J, K = 0, 1, 2


def axis(text: str) -> AxisRef:
    """``"y:1:2"`` is the major half of y."""
    name, *sub = text.split(":")
    return AxisRef(name, SubAxisInfo(*map(int, sub)) if sub else None)


def tensor(*dims: str) -> TensorSharding:
    """``tensor("x y", "")`` cuts the first of two dimensions along x and y."""
    return TensorSharding(
        "mesh", tuple(DimensionSharding(tuple(map(axis, dim.split()))) for dim in dims)
    )


def mapping(*dims: tuple[int, ...]) -> TensorMapping:
    return TensorMapping(tuple(map(DimMapping, dims)))


def rule(
    sizes: tuple[int, ...],
    operands: list[TensorMapping],
    result: TensorMapping,
    **kinds: tuple[int, ...],
) -> OpShardingRule:
    return OpShardingRule(sizes, tuple(operands), (result,), **kinds)  # type: ignore[arg-type]


def chosen(
    of: OpShardingRule, shardings: list[TensorSharding], sizes: list[int] | None = None
) -> list[str]:
    projection = project(of, shardings[:-1], shardings[-1:], MESH, closed_if_missing=True)
    axes = common_axes(projection, of, sizes or [64] * len(shardings), MESH)
    return [
        " ".join(
            a.name if a.sub_axis is None else f"{a.name}:{a.sub_axis.pre_size}:{a.sub_axis.size}"
            for a in each
        )
        for each in axes
    ]


UNARY = rule((8, 8), [mapping((I,), (J,))], mapping((I,), (J,)))
BINARY = rule((8, 8), [mapping((I,), (J,))] * 2, mapping((I,), (J,)))
DOT = rule(
    (8, 8, 8), [mapping((I,), (K,)), mapping((K,), (J,))], mapping((I,), (J,)), reduction=(K,)
)


def test_agreement_is_kept() -> None:
    assert chosen(DOT, [tensor("x", "y"), tensor("y", ""), tensor("x", "")]) == ["x", "", "y"]


def test_an_axis_on_two_factors_is_a_conflict() -> None:
    # i and j are both cut along x, and agree where they occur.
    got = chosen(DOT, [tensor("x", ""), tensor("", "x"), tensor("x", "")], [64, 64, 64])
    assert got == ["x", "", ""]


def test_two_tensors_prefer_the_larger_then_the_more_sharded() -> None:
    assert chosen(UNARY, [tensor("x", ""), tensor("", "y")], [64, 32]) == ["x", ""]
    assert chosen(UNARY, [tensor("x", ""), tensor("", "y")], [64, 64]) == ["", "y"]
    assert chosen(UNARY, [tensor("x", ""), tensor("", "x")], [64, 64]) == ["x", ""]


def test_two_tensors_prefer_the_one_without_cut_permutation_factors() -> None:
    reverse = rule((8, 8), [mapping((I,), (J,))], mapping((I,), (J,)), permutation=(J,))
    assert chosen(reverse, [tensor("", "y"), tensor("x", "")], [64, 64]) == ["x", ""]


def test_the_other_of_two_tensors_keeps_what_does_not_overlap() -> None:
    broadcast = rule((8, 8), [mapping((I,))], mapping((I,), (J,)))
    assert chosen(broadcast, [tensor("y:2:2"), tensor("", "y x")], [8, 64]) == ["", "y x"]
    assert chosen(broadcast, [tensor("y:2:2"), tensor("", "y x")], [64, 8]) == ["y:2:2", "y:1:2"]


def test_most_elements_win() -> None:
    shardings = [tensor("x", ""), tensor("", "x"), tensor("", "x")]
    assert chosen(BINARY, shardings) == ["", "x"]
    assert chosen(BINARY, shardings, [200, 64, 64]) == ["x", ""]


def test_prefixes_count_for_those_that_have_more() -> None:
    # y alone is on two tensors, y x on one; y first, then the rest of it.
    assert chosen(BINARY, [tensor("y", ""), tensor("y x", ""), tensor("", "x")]) == ["y", "x"]


def test_pass_through_factors_come_before_reductions() -> None:
    shardings = [tensor("", "y"), tensor("", "y"), tensor("", "")]
    assert chosen(DOT, shardings) == ["", "y", ""]


def test_a_factor_waits_for_those_before_it() -> None:
    # The dimension [ij] is cut along j only where i is cut up completely.
    reshape = rule((2, 8), [mapping((I, J))], mapping((I,), (J,)))
    assert chosen(reshape, [tensor(""), tensor("", "y")]) == ["", ""]
    assert chosen(reshape, [tensor(""), tensor("x", "y")]) == ["x", "y"]


def test_axes_of_a_replicated_factor_move_to_batching_factors() -> None:
    sort = rule((8, 6), [mapping((I,), (J,))], mapping((I,), (J,)), need_replication=(J,))
    assert chosen(sort, [tensor("", "y"), tensor("", "y")]) == ["y", ""]
    assert chosen(sort, [tensor("y", "x"), tensor("y", "x")]) == ["y x", ""]
    assert chosen(sort, [tensor("", "z"), tensor("", "z")]) == ["", ""], "3 does not divide 8"


def test_axes_of_a_replicated_factor_vanish_where_a_tensor_lacks_it() -> None:
    gather = rule(
        (8, 8), [mapping((I,), (J,)), mapping((I,))], mapping((I,)), need_replication=(J,)
    )
    assert chosen(gather, [tensor("", "y"), tensor(""), tensor("")]) == ["", ""]


def test_axes_of_one_factor() -> None:
    projection = project(DOT, [tensor("x", "y"), tensor("", "")], [tensor("x", "")], MESH)
    assert compatible_axes_of_factor(projection, I) == (AxisRef("x"),)
    assert compatible_axes_of_factor(projection, J) == ()
    assert compatible_axes_of_factor(projection, K) is None
