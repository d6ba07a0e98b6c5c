"""Which shardings of a tensor and of its reshape are the same, compared with what devices hold."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.mlir.attributes import StringAttr
from emu.mlir.types import FloatType, TensorType
from emu.sdy.dialect.attributes import (
    AxisRef,
    DimensionSharding,
    Mesh,
    MeshAxis,
    SubAxisInfo,
    TensorSharding,
)
from emu.sdy.dialect.reshape_shardings import is_equivalent_across_reshape

MESH = Mesh((MeshAxis("a", 8), MeshAxis("b", 3)))
F32 = FloatType("f32")
PIECES = [
    AxisRef("a"),
    AxisRef("b"),
    *(AxisRef("a", SubAxisInfo(*part)) for part in ((1, 2), (1, 4), (2, 2), (2, 4), (4, 2))),
]


def axis(text: str) -> AxisRef:
    name, _, part = text.partition(":")
    if not part:
        return AxisRef(name)
    pre_size, size = part.strip("(").split(")")
    return AxisRef(name, SubAxisInfo(int(pre_size), int(size)))


def sharding(*dims: str, mesh: str = "m", **others: tuple[AxisRef, ...]) -> TensorSharding:
    per_dim = (DimensionSharding(tuple(map(axis, dim.split()))) for dim in dims)
    return TensorSharding(mesh, tuple(per_dim), **others)


def held(given: TensorSharding, shape: tuple[int, ...]) -> list[set[int]]:
    """The row-major numbers of the elements that each device holds."""
    found = []
    for device in range(MESH.total_size):
        ranges = []
        for dim, size in zip(given.dims, shape, strict=True):
            index, count = 0, 1
            for each in dim.axes:
                inner = 3 if each.name == "a" else 1
                part = each.sub_axis or SubAxisInfo(1, MESH.axis_size(each.name))
                inner *= MESH.axis_size(each.name) // (part.pre_size * part.size)
                index = index * part.size + device // inner % part.size
                count *= part.size
            step = -(-size // count)
            ranges.append(range(min(size, index * step), min(size, (index + 1) * step)))
        strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        found.append(
            {
                sum(map(math.prod, zip(at, strides, strict=True)))
                for at in itertools.product(*ranges)
            }
        )
    return found


def equivalent(
    first: TensorSharding,
    shape: tuple[int, ...],
    second: TensorSharding,
    other: tuple[int, ...],
    **options: bool,
) -> bool:
    types = TensorType(shape, F32), TensorType(other, F32)
    forwards = is_equivalent_across_reshape(first, types[0], second, types[1], MESH, **options)
    backwards = is_equivalent_across_reshape(second, types[1], first, types[0], MESH, **options)
    assert forwards == backwards
    return forwards


SAME = [
    (sharding("a", ""), (8, 4), sharding("a", "", ""), (8, 2, 2)),
    (sharding("a:(1)2", "a:(2)4"), (2, 4), sharding("a"), (8,)),
    (sharding("a:(1)2", "a:(2)4"), (2, 12), sharding("a"), (24,)),
    (sharding("", "a:(2)4"), (2, 4), sharding("", "a:(2)2", "a:(4)2"), (2, 2, 2)),
    (sharding("b", "a"), (3, 8), sharding("b a"), (24,)),
    (sharding("a:(1)2", "a:(2)2", "a:(4)2"), (2, 2, 4), sharding("a"), (16,)),
]
OTHER = [
    (sharding("a:(2)4", "a:(1)2"), (4, 2), sharding("a"), (8,)),
    (sharding("a:(1)2", "a:(2)2"), (4, 6), sharding("a:(1)4"), (24,)),
    (sharding("a"), (16,), sharding("", "a"), (2, 8)),
    (sharding("a"), (8,), sharding("a", mesh="n"), (8,)),
    (sharding("a"), (8,), sharding("a", replicated_axes=(axis("b"),)), (8,)),
    (sharding("b", ""), (3, 5), sharding("", "b"), (5, 3)),
    # More shards than elements: the strides alone are the same.
    (sharding("", "a"), (4, 6), sharding("", "", "a"), (2, 3, 4)),
]


@pytest.mark.parametrize("case", SAME)
def test_the_same_elements_on_each_device(case):
    assert equivalent(*case)
    assert equivalent(*case, allow_non_divisible=True)
    assert held(*case[:2]) == held(*case[2:])


@pytest.mark.parametrize("case", OTHER)
def test_other_elements_or_other_places(case):
    assert not equivalent(*case)


UNEVEN = [
    (sharding("", "a"), (8, 20), sharding("", "", "a", ""), (2, 4, 4, 5), True),
    (sharding("a"), (6,), sharding("", "a"), (2, 3), False),
    (sharding("a:(1)2", "a:(2)4"), (4, 6), sharding("a"), (24,), False),
    (sharding("a:(1)2", "a:(2)4"), (2, 6), sharding("a"), (12,), True),
    (sharding("a:(1)2", "a:(2)4"), (2, 6), sharding("a:(1)2", "a:(2)4"), (4, 3), False),
    (sharding("a"), (12,), sharding("a:(1)2", "a:(2)2", "a:(4)2"), (2, 2, 3), True),
]


@pytest.mark.parametrize("case", UNEVEN)
def test_uneven_shards_may_be_the_same_up_to_padding(case):
    *both, expected = case
    assert equivalent(*both, allow_non_divisible=True) is expected


@pytest.mark.parametrize(
    "type_",
    [
        TensorType((8, None), F32),
        TensorType((8, 4), F32, StringAttr("layout")),
        FloatType("f32"),
    ],
)
def test_what_has_no_row_major_shape_is_never_the_same(type_):
    cut = sharding("a", "")
    plain = TensorType((4, 8), F32)
    assert not is_equivalent_across_reshape(cut, type_, cut, plain, MESH)
    assert is_equivalent_across_reshape(cut, type_, cut, type_, MESH)


shapes = st.sampled_from(
    [(24,), (2, 12), (4, 6), (8, 3), (3, 8), (2, 3, 4), (2, 2, 6), (2, 2, 2, 3)]
)


@st.composite
def sharded(draw: st.DrawFn) -> tuple[TensorSharding, tuple[int, ...]]:
    shape = draw(shapes)
    order = draw(st.permutations(PIECES))[: draw(st.integers(0, 3))]
    chosen: list[AxisRef] = []
    for piece in order:
        taken = [p.sub_axis or SubAxisInfo(1, 8) for p in chosen if p.name == piece.name]
        own = piece.sub_axis or SubAxisInfo(1, 8)
        if all(own.next_pre_size <= t.pre_size or t.next_pre_size <= own.pre_size for t in taken):
            chosen.append(piece)
    dims: list[list[AxisRef]] = [[] for _ in shape]
    for piece in chosen:
        dims[draw(st.integers(0, len(shape) - 1))].append(piece)
    return TensorSharding("m", tuple(DimensionSharding(tuple(d)) for d in dims)), shape


@settings(max_examples=500)
@given(sharded(), sharded())
def test_equivalent_shardings_put_the_same_elements_on_each_device(first, second):
    if equivalent(*first, *second):
        assert held(*first) == held(*second)
