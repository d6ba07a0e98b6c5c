"""The algebra of axes against a model: sets of cuts between prime digits.

An axis of size n is written as a string of prime digits in *every* order that
the divisors allow; here it is enough to know which device coordinates a
reference tells apart. Two coordinates are in the same shard of a sub-axis
``(m)k`` if ``c // (n / (m * k)) % k`` agrees; whether one reference contains or
overlaps another is then a question about partitions of coordinates.
"""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.sdy.dialect import axes as ax
from emu.sdy.dialect.attributes import AxisRef, DimensionSharding, Mesh, MeshAxis, TensorSharding

MESH = Mesh((MeshAxis("u", 24), MeshAxis("v", 16), MeshAxis("w", 2)))


def ref(text: str) -> AxisRef:
    """``u`` or ``u:2:3`` (pre-size 2, size 3)."""
    name, *numbers = text.split(":")
    return ax.sub_axis(name, int(numbers[0]), int(numbers[1])) if numbers else AxisRef(name)


def refs(text: str) -> tuple[AxisRef, ...]:
    return tuple(ref(part) for part in text.split())


def span(axis: AxisRef) -> tuple[int, int]:
    """Where a reference begins and ends among the divisors of its axis."""
    return ax.pre_size(axis), ax.next_pre_size(axis, MESH)


@st.composite
def references(draw: st.DrawFn, name: str | None = None) -> AxisRef:
    chosen = name or draw(st.sampled_from(["u", "v", "w"]))
    full = MESH.axis_size(chosen)
    divisors = [d for d in range(1, full + 1) if full % d == 0]
    low = draw(st.sampled_from(divisors[:-1]))
    high = draw(st.sampled_from([d for d in divisors if d > low and d % low == 0]))
    if (low, high) == (1, full):
        return AxisRef(chosen)
    return ax.sub_axis(chosen, low, high // low)


def shard_of(axis: AxisRef, coordinate: int) -> int:
    """The digit of a coordinate along a reference."""
    low, high = span(axis)
    full = MESH.axis_size(axis.name)
    return coordinate // (full // high) % (high // low)


def splits(axis: AxisRef, pieces: list[AxisRef]) -> bool:
    """Whether pieces, major to minor, tell apart what ``axis`` does, in order."""
    for coordinate in range(MESH.axis_size(axis.name)):
        index = 0
        for piece in pieces:
            low, high = span(piece)
            index = index * (high // low) + shard_of(piece, coordinate)
        if index != shard_of(axis, coordinate):
            return False
    return True


def piece(name: str, low: int, high: int) -> list[AxisRef]:
    if low == high:
        return []
    full = (low, high) == (1, MESH.axis_size(name))
    return [AxisRef(name) if full else ax.sub_axis(name, low, high // low)]


def model_contains(a: AxisRef, b: AxisRef) -> bool:
    """Some split of ``a`` has ``b`` in it."""
    (low, high), (start, end) = span(a), span(b)
    if a.name != b.name or start % low or high % end or start < low or end > high:
        return False
    return splits(a, [*piece(a.name, low, start), b, *piece(a.name, end, high)])


pairs = st.one_of(
    st.tuples(references("u"), references("u")),
    st.tuples(references("v"), references("v")),
    st.tuples(references(), references()),
)


@settings(deadline=None)
@given(pairs)
def test_sharding_along_an_axis_is_sharding_along_its_pieces(pair: tuple[AxisRef, AxisRef]) -> None:
    a, b = pair
    if not ax.can_coexist(a, b):
        return
    if ax.contains(a, b):
        assert model_contains(a, b)
    prefix, suffix = ax.prefix_without_overlap(a, b), ax.suffix_without_overlap(a, b, MESH)
    middle = ax.overlap(a, b)
    if middle is None:
        assert prefix == suffix == a
        assert not ax.overlaps(a, b)
    else:
        pieces = [p for p in (prefix, middle, suffix) if p is not None]
        assert splits(a, pieces)
        assert model_contains(b, middle)
        for left in (prefix, suffix):
            assert left is None or not ax.overlaps(left, b)


@settings(deadline=None)
@given(pairs)
def test_coexistence_is_one_split_with_both(pair: tuple[AxisRef, AxisRef]) -> None:
    a, b = pair
    if a.name != b.name:
        assert ax.can_coexist(a, b)
        return
    ends = sorted({*span(a), *span(b)})
    full = MESH.axis_size(a.name)
    divide = all(high % low == 0 for low, high in pairwise([1, *ends, full]))
    # Where one is a whole axis its ends are the split's own.
    assert ax.can_coexist(a, b) == divide
    assert ax.can_coexist(b, a) == divide


@settings(deadline=None)
@given(pairs)
def test_relations_are_consistent(pair: tuple[AxisRef, AxisRef]) -> None:
    a, b = pair
    assert ax.overlaps(a, b) == ax.overlaps(b, a)
    assert ax.overlap(a, b) == ax.overlap(b, a)
    assert ax.is_strict_prefix(a, b) == (ax.is_prefix(a, b) and a != b)
    if a.name == b.name:
        (low, high), (start, end) = span(a), span(b)
        assert ax.overlaps(a, b) == (max(low, start) < min(high, end))
        assert ax.is_prefix(a, b) == (low == start and high <= end)
        assert ax.is_suffix(a, b, MESH) == (high == end and low >= start)
    if ax.contains(a, b) and ax.contains(b, a):
        assert a == b
    common = ax.greatest_common_prefix(a, b)
    if common is not None:
        assert ax.is_prefix(common, a)
        assert ax.is_prefix(common, b)
        assert common in (a, b)


@settings(deadline=None)
@given(references(), references())
def test_merging_undoes_splitting(a: AxisRef, b: AxisRef) -> None:
    if ax.can_merge(a, b):
        merged = ax.merge(a, b, MESH)
        assert splits(merged, [a, b])
        assert span(merged) == (span(a)[0], span(b)[1])
    else:
        with pytest.raises(ValueError, match="not consecutive"):
            ax.merge(a, b, MESH)


@pytest.mark.parametrize(
    ("a", "b", "contained"),
    [
        ("v", "v:2:4", True),
        ("v:1:8", "v:1:4", True),
        ("v:2:8", "v:4:2", True),
        ("v:1:4", "v:2:4", False),
        ("v:2:4", "v:1:2", False),
        ("v:2:4", "v", False),
        ("v", "u:1:2", False),
    ],
)
def test_contains(a: str, b: str, contained: bool) -> None:
    assert ax.contains(ref(a), ref(b)) is contained


@pytest.mark.parametrize(
    ("a", "b", "prefix", "suffix"),
    [
        ("v", "v:2:2", "v:1:2", "v:4:4"),
        ("v:1:4", "v:2:4", "v:1:2", None),
        ("v:2:8", "v:4:2", "v:2:2", "v:8:2"),
        ("v:1:4", "v:4:2", "v:1:4", "v:1:4"),
        ("v:1:4", "u:2:4", "v:1:4", "v:1:4"),
        ("v:2:2", "v", None, None),
        ("u:1:2", "u:3:2", None, None),
        ("u:1:6", "u:1:4", None, None),
        ("u:2:3", "u:1:3", None, None),
    ],
)
def test_what_is_left_of_an_axis(a: str, b: str, prefix: str | None, suffix: str | None) -> None:
    assert ax.prefix_without_overlap(ref(a), ref(b)) == (prefix and ref(prefix))
    assert ax.suffix_without_overlap(ref(a), ref(b), MESH) == (suffix and ref(suffix))


@pytest.mark.parametrize(
    ("axes", "others", "left"),
    [
        ("u v w", "", "u v w"),
        ("u v w", "v", "u"),
        ("u v w", "v:4:4", "u v:1:4"),
        ("u v w", "v:4:4 v:2:2", "u v:1:2"),
        ("u v w", "u", ""),
        ("u:1:4 v", "w u:2:6", "u:1:2"),
        ("u:1:4 v", "u:1:6", ""),
    ],
)
def test_truncating_a_list(axes: str, others: str, left: str) -> None:
    assert ax.truncate_by_overlaps(refs(axes), refs(others)) == refs(left)
    assert ax.lists_overlap(refs(axes), refs(others)) == (left != axes)


@pytest.mark.parametrize(
    ("axes", "others", "strict"),
    [
        ("", "u", True),
        ("", "", False),
        ("u", "u v", True),
        ("u:1:2", "u", True),
        ("u:1:2", "u v", True),
        ("u v", "u v", False),
        ("u v", "u", False),
        ("v", "u v", False),
        ("u v:1:2", "u v", True),
        ("u v:2:2", "u v", False),
        ("u:1:2 v", "u v", False),
    ],
)
def test_strict_prefix_of_a_list(axes: str, others: str, strict: bool) -> None:
    assert ax.is_strict_prefix_of_list(refs(axes), refs(others)) is strict


@pytest.mark.parametrize(
    ("axes", "others", "common"),
    [
        ("u v", "u w", "u"),
        ("u v:1:4", "u v:1:2 w", "u v:1:2"),
        ("u", "u", "u"),
        ("v", "u", ""),
        ("v:2:2", "v:1:4", ""),
        ("u:1:4", "u:1:6", ""),
    ],
)
def test_common_prefix_of_lists(axes: str, others: str, common: str) -> None:
    assert ax.common_prefix_of_lists(refs(axes), refs(others)) == refs(common)


@st.composite
def disjoint(draw: st.DrawFn) -> list[AxisRef]:
    """Pieces of one split of each axis, some of them, in any order."""
    pieces: list[AxisRef] = []
    for axis in MESH.axes:
        ends = [1]
        while ends[-1] < axis.size:
            rest = axis.size // ends[-1]
            factors = [f for f in range(2, rest + 1) if rest % f == 0]
            ends.append(ends[-1] * draw(st.sampled_from(factors)))
        pieces += [p for low, high in pairwise(ends) for p in piece(axis.name, low, high)]
    kept = draw(st.lists(st.sampled_from(pieces), unique=True))
    return draw(st.permutations(kept))


def atoms(pieces: list[AxisRef]) -> set[tuple[str, int]]:
    """Which numbers between the ends of an axis the pieces cover."""
    return {(p.name, i) for p in pieces for i in range(span(p)[0], span(p)[1])}


@settings(deadline=None)
@given(disjoint(), disjoint())
def test_difference_of_sets(first: list[AxisRef], second: list[AxisRef]) -> None:
    for a in first:
        if not all(ax.can_coexist(a, b) for b in second):
            return
    left = ax.axis_set_difference(first, second, MESH)
    assert atoms(left) == atoms(first) - atoms(second)
    # The order of the first list is kept.
    owners = [next(i for i, a in enumerate(first) if ax.contains(a, p)) for p in left]
    assert owners == sorted(owners)


@settings(deadline=None)
@given(disjoint())
def test_sorting_and_merging(pieces: list[AxisRef]) -> None:
    merged = ax.sort_and_merge(pieces, MESH)
    assert atoms(merged) == atoms(pieces)
    assert ax.total_size(merged, MESH) == ax.total_size(pieces, MESH)
    assert [MESH.axis_index(a.name) for a in merged] == sorted(
        MESH.axis_index(a.name) for a in merged
    )
    assert not any(ax.can_merge(a, b) for a, b in pairwise(merged))
    assert ax.sort_and_merge(merged, MESH) == merged


def test_order_of_references() -> None:
    ordered = list(refs("u:1:2 u:1:4 u u:2:2 u:2:4 u:4:2 v w"))
    mixed = ordered[::-1]
    assert sorted(mixed, key=ax.axis_key) == ordered
    assert sorted(mixed, key=ax.sort_key(MESH)) == ordered
    by_mesh = Mesh((MeshAxis("w", 2), MeshAxis("u", 8)))
    assert sorted(refs("u w"), key=ax.sort_key(by_mesh)) == list(refs("w u"))
    assert ax.list_key(refs("w")) < ax.list_key(refs("u u"))
    assert ax.list_key(refs("u v")) < ax.list_key(refs("u w"))


@settings(deadline=None)
@given(disjoint())
def test_all_pieces_of_the_mesh(pieces: list[AxisRef]) -> None:
    found = ax.ordered_axes(pieces, MESH)
    for axis in MESH.axes:
        assert splits(AxisRef(axis.name), [p for p in found if p.name == axis.name])
    assert set(pieces) <= set(found)


def test_all_pieces_for_a_sharding() -> None:
    sharding = TensorSharding(
        "m",
        (DimensionSharding(refs("v:2:2 w")),),
        replicated_axes=refs("u:1:2"),
        unreduced_axes=refs("u:1:6"),
    )
    # Replicated axes do not count.
    assert ax.ordered_axes(sharding, MESH) == list(refs("u:1:6 u:6:4 v:1:2 v:2:2 v:4:4 w"))


def coordinates(device: int, mesh: Mesh) -> dict[str, int]:
    place = mesh.device_ids.index(device) if mesh.device_ids else device
    found = {}
    for axis in reversed(mesh.axes):
        found[axis.name] = place % axis.size
        place //= axis.size
    return found


@settings(deadline=None)
@given(disjoint())
def test_replica_groups(pieces: list[AxisRef]) -> None:
    groups = ax.replica_groups(pieces, MESH)
    assert sorted(d for group in groups for d in group) == list(range(MESH.total_size))
    others = [p for p in ax.ordered_axes(pieces, MESH) if p not in pieces]
    for group in groups:
        where = [coordinates(device, MESH) for device in group]
        assert len({tuple(shard_of(p, c[p.name]) for p in others) for c in where}) == 1
        along = [tuple(shard_of(p, c[p.name]) for p in pieces) for c in where]
        assert along == sorted(along)
        assert len(set(along)) == len(group) == ax.total_size(pieces, MESH)


def test_replica_groups_of_a_permuted_mesh() -> None:
    mesh = Mesh((MeshAxis("u", 2), MeshAxis("v", 2)), (3, 1, 2, 0))
    assert ax.replica_groups(refs("u"), mesh) == [[3, 2], [1, 0]]
    assert ax.replica_groups(refs("v u"), mesh) == [[3, 2, 1, 0]]
    assert ax.replica_groups((), mesh) == [[3], [1], [2], [0]]


def test_sizes() -> None:
    assert ax.total_size(refs("u:1:2 v w"), MESH) == 2 * 16 * 2
    assert ax.expanded_size(refs("u v"), refs("u"), MESH) == 16
    assert ax.total_size((), MESH) == 1
    assert math.prod(a.size(MESH) for a in ax.ordered_axes((), MESH)) == MESH.total_size


def test_prefix_that_overlaps_none_of_a_list() -> None:
    assert ax.prefix_without_overlap_of_list(ref("v"), refs("u v:8:2 v:2:2")) == ref("v:1:2")
    assert ax.prefix_without_overlap_of_list(ref("v"), refs("v:1:2 v:4:2")) is None
    assert ax.first_overlapping(ref("v:4:2"), refs("u v:2:2 v:4:4")) == 2
    assert ax.first_overlapping(ref("w"), refs("u v")) is None
