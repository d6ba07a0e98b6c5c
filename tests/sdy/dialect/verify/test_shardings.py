"""Meshes and shardings: each rule broken once."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.mlir.attributes import StringAttr
from emu.mlir.diagnostics import Diagnostics
from emu.mlir.ir import Block, Operation, Region
from emu.mlir.types import DialectType, FloatType, TensorType
from emu.mlir.verify import verify
from emu.sdy.dialect.attributes import (
    AxisRef,
    DimensionSharding,
    Mesh,
    MeshAxis,
    SubAxisInfo,
    TensorSharding,
)
from emu.sdy.dialect.verify.shardings import shape_of, sharding_for_type_problem
from emu.sdy.dialect.wellformed import mesh_problem

F32 = FloatType("f32")

HEAD = """
sdy.mesh @grid = <["u"=6, "v"=8, "w"=4]>
sdy.mesh @one = <[], device_ids=[2]>
"""

SHARDINGS = [
    ("unknown mesh", "<@nowhere, [{}, {}]>", "unknown mesh: @nowhere"),
    (
        "maximal with dimensions",
        "<@one, [{}, {}]>",
        (
            "a maximal sharding can only have a sharding with rank 0 and no replicated or "
            "unreduced axes."
        ),
    ),
    ("rank", '<@grid, [{"u"}]>', "sharding doesn't match tensor rank: 1 != 2"),
    (
        "closed, empty and with a priority",
        "<@grid, [{}, {}p2]>",
        "dim 1 is empty and closed but has a priority",
    ),
    ("unknown axis", '<@grid, [{"u"}, {"z"}]>', 'unknown axis name: "z"'),
    ("axis twice", '<@grid, [{"u"}, {"v", "u"}]>', 'duplicate axis ref: "u"'),
    (
        "sub-axis twice",
        '<@grid, [{"u":(1)2}, {"u":(1)2}]>',
        'duplicate axis ref: "u":(1)2',
    ),
    (
        "axis twice, once replicated",
        '<@grid, [{"u"}, {}], replicated={"u"}>',
        'duplicate axis ref: "u"',
    ),
    (
        "axis twice, once unreduced",
        '<@grid, [{}, {}], replicated={"w"}, unreduced={"w"}>',
        'duplicate axis ref: "w"',
    ),
    (
        "sub-axes to merge",
        '<@grid, [{"v":(1)2, "v":(2)4}, {}]>',
        'two consecutive sub-axes can be merged: "v":(1)2, "v":(2)4',
    ),
    (
        "replicated axes out of order",
        '<@grid, [{}, {}], replicated={"w", "v"}>',
        "replicated axes are not ordered w.r.t. mesh",
    ),
    (
        "unreduced sub-axes out of order",
        '<@grid, [{}, {}], unreduced={"v":(4)2, "v":(1)2}>',
        "unreduced axes are not ordered w.r.t. mesh",
    ),
    (
        "full and sub-axis",
        '<@grid, [{"v"}, {"v":(2)2}]>',
        'both sub-axis and full-axis are used for axis name: "v"',
    ),
    (
        "pre-size of nothing",
        '<@grid, [{"v":(0)2}, {}]>',
        'sub-axis pre-size must be at least 1: "v":(0)2',
    ),
    (
        "size of one",
        '<@grid, [{"v":(2)1}, {}]>',
        'sub-axis sizes must be greater than 1: "v":(2)1',
    ),
    (
        "sub-axis that does not divide",
        '<@grid, [{"u":(1)4}, {}]>',
        'sub-axis next pre-size 4 doesn\'t divide the size of the full axis 6: "u":(1)4',
    ),
    (
        "sub-axis beyond the axis",
        '<@grid, [{"u":(3)4}, {}]>',
        'sub-axis next pre-size 12 doesn\'t divide the size of the full axis 6: "u":(3)4',
    ),
    (
        "sub-axis that is the axis",
        '<@grid, [{"w":(1)4}, {}]>',
        'sub-axis size is equal to the full axis size: "w":(1)4',
    ),
    (
        "overlap",
        '<@grid, [{"v":(2)4}, {"v":(1)4}]>',
        'overlapping sub-axes: "v":(1)4, "v":(2)4',
    ),
]


@pytest.mark.parametrize(
    ("sharding", "message"), [c[1:] for c in SHARDINGS], ids=[c[0] for c in SHARDINGS]
)
def test_a_sharding(complaints, sharding, message):
    text = HEAD + (
        "func.func @f(%x: tensor<24x16xf32>) {\n"
        f"  %y = sdy.sharding_constraint %x {sharding} : tensor<24x16xf32>\n"
        "  return\n}\n"
    )
    assert complaints(text) == [(5, f"'sdy.sharding_constraint' op {message}")]


TYPES = [
    (
        "tensor<*xf32>",
        '[{"u"}]',
        "only ranked tensors can have a sharding. type: 'tensor<*xf32>'",
    ),
    (
        "i32",
        "[{}]",
        (
            "non-shaped tensors can only have a sharding with rank 0 and no replicated or unreduced "
            "axes. type: 'i32', sharding: #sdy.sharding<@grid, [{}]>"
        ),
    ),
    (
        "tuple<tensor<4xf32>, tensor<4xf32>>",
        "[{}]",
        "ops can only have a sharding for a tuple of size 1: 'tuple<tensor<4xf32>, tensor<4xf32>>'",
    ),
    ("tuple<tensor<4xf32>>", "[{}, {}]", "sharding doesn't match tensor rank: 2 != 1"),
    ("vector<4x6xf32>", "[{}]", "sharding doesn't match tensor rank: 1 != 2"),
]


@pytest.mark.parametrize(("type_", "dims", "message"), TYPES, ids=[c[0] for c in TYPES])
def test_a_sharding_for_a_type(complaints, type_, dims, message):
    text = HEAD + (
        f"func.func @f(%x: {type_}) {{\n"
        f"  %y = sdy.sharding_constraint %x <@grid, {dims}> : {type_}\n"
        "  return\n}\n"
    )
    assert complaints(text) == [(5, f"'sdy.sharding_constraint' op {message}")]


GOOD = [
    '<@grid, [{"u", "v":(1)2}, {"v":(4)2, ?}p1], replicated={"v":(2)2}, unreduced={"w"}>',
    '<@grid, [{?}p0, {"w"}p3]>',
    '<mesh<["z"=5]>, [{"z"}, {}]>',
]


@pytest.mark.parametrize("sharding", GOOD)
def test_a_good_sharding(complaints, sharding):
    text = HEAD + (
        "func.func @f(%x: tensor<24x?xf32>) {\n"
        f"  %y = sdy.reshard %x {sharding} : tensor<24x?xf32>\n"
        "  return\n}\n"
    )
    assert complaints(text) == []


def test_axes_that_a_manual_computation_has(complaints):
    text = HEAD + (
        "func.func @f(%x: tensor<24xf32>) -> tensor<24xf32> {\n"
        '  %0 = sdy.manual_computation(%x) in_shardings=[<@grid, [{"u"}]>] '
        'out_shardings=[<@grid, [{"u"}]>] manual_axes={"u"} (%y: tensor<4xf32>) {\n'
        '    %1 = sdy.sharding_constraint %y <@grid, [{"v"}], unreduced={"u":(1)2}> : '
        "tensor<4xf32>\n"
        "    sdy.return %1 : tensor<4xf32>\n"
        "  } : (tensor<24xf32>) -> tensor<24xf32>\n"
        "  return %0 : tensor<24xf32>\n}\n"
    )
    assert complaints(text) == [
        (
            6,
            (
                "'sdy.sharding_constraint' op operates on axis \"u\" which is already bound by a "
                "parent sdy.manual_computation op"
            ),
        ),
        (5, "parent bounding this axis as manual"),
    ]


def test_divisibility_is_asked_for_separately():
    mesh = Mesh((MeshAxis("u", 6),))
    sharding = TensorSharding("m", (DimensionSharding((AxisRef("u"),)),))
    odd = TensorType((10,), F32)
    assert sharding_for_type_problem(sharding, odd, mesh) is None
    problem = sharding_for_type_problem(sharding, odd, mesh, check_divisibility=True)
    assert problem is not None
    assert problem.message == "dim 0 with size 10 is not divisible by its sharded size 6"


def test_negative_priority():
    sharding = TensorSharding("m", (DimensionSharding((), is_closed=False, priority=-1),))
    problem = sharding_for_type_problem(sharding, TensorType((4,), F32), Mesh((MeshAxis("u", 2),)))
    assert problem is not None
    assert problem.message == "dim 0 has a negative priority"


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("vector<4x8xf32>", (4, 8)),
        ("memref<?x2xi1>", (None, 2)),
        ("memref<f32>", ()),
        ("memref<*xf32>", None),
        ("none_such<4>", None),
    ],
)
def test_shapes_of_types_kept_as_text(body, shape):
    assert shape_of(DialectType("", body)) == shape


# Meshes

MESHES = [
    (("a", -1), (), "axis size must be at least 1, got: -1"),
    (("a", 2), (-3, 0), "device id must be non-negative, got: -3"),
    ((), (4, 5), "axes is empty and device_ids has more than one element"),
    (
        ("a", 2, "b", 3),
        (1, 0),
        "total product of axis sizes must match total number of device ids, got: 6 != 2",
    ),
    (("a", 3), (0, 3, 1), "sorted device ids must be iota(product(axes)), got: 0, 1, 3"),
    (("a", 2, "a", 3), (), 'duplicate axis name: "a"'),
]


def _mesh(axes: tuple[object, ...], ids: tuple[int, ...]) -> Mesh:
    pairs = zip(axes[::2], axes[1::2], strict=True)
    return Mesh(tuple(MeshAxis(str(name), int(str(size))) for name, size in pairs), ids)


@pytest.mark.parametrize(("axes", "ids", "message"), MESHES)
def test_a_mesh_that_a_program_built(axes, ids, message):
    op = Operation("sdy.mesh", properties={"sym_name": StringAttr("m"), "mesh": _mesh(axes, ids)})
    body = Block()
    body.append(op)
    module = Operation("builtin.module", regions=[Region([body])])
    diagnostics = Diagnostics()
    assert not verify(module, diagnostics)
    assert [d.message for d in diagnostics.emitted] == [f"'sdy.mesh' op {message}"]


@pytest.mark.parametrize(
    ("axes", "ids"), [((), ()), ((), (7,)), (("a", 2, "b", 2), (3, 2, 1, 0)), (("a", 1), ())]
)
def test_a_good_mesh(axes, ids):
    assert mesh_problem(_mesh(axes, ids)) is None


# Any sub-axes of one axis

FULL = 24
SUB_AXIS = st.builds(
    lambda pre, size: AxisRef("u", SubAxisInfo(pre, size)),
    st.sampled_from([1, 2, 3, 4, 6, 8, 12]),
    st.sampled_from([1, 2, 3, 4, 6, 8, 24]),
)


def _is_right(dims: list[list[AxisRef]]) -> bool:
    """By counting which digits of a device's coordinate each sub-axis takes."""
    taken: set[int] = set()
    for dim in dims:
        for axis in dim:
            sub = axis.sub_axis
            assert sub is not None
            if sub.size in (1, FULL) or FULL % (sub.pre_size * sub.size):
                return False
            digits = set(range(sub.pre_size, sub.pre_size * sub.size))
            if digits & taken:
                return False
            taken |= digits
        for a, b in pairwise(dim):
            if a.sub_axis.pre_size * a.sub_axis.size == b.sub_axis.pre_size:
                return False
    return True


@settings(deadline=None)
@given(st.lists(st.lists(SUB_AXIS, max_size=3), min_size=2, max_size=2))
def test_sub_axes_are_right_if_no_two_take_the_same_digits(dims):
    mesh = Mesh((MeshAxis("u", FULL),))
    sharding = TensorSharding("m", tuple(DimensionSharding(tuple(axes)) for axes in dims))
    problem = sharding_for_type_problem(sharding, TensorType((24, 24), F32), mesh)
    assert (problem is None) == _is_right(dims)
