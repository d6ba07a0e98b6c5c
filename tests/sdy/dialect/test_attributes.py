"""How attributes are written and read: each text comes back as it was."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import emu.sdy.dialect.ops  # noqa: F401  # makes the attributes known
from emu.mlir import parse
from emu.mlir.attributes import Attribute
from emu.mlir.diagnostics import MlirError
from emu.sdy.dialect.attributes import (
    AllToAllParam,
    AllToAllParamList,
    AxisRef,
    AxisRefList,
    DimensionSharding,
    DimMapping,
    ListOfAxisRefLists,
    ManualAxes,
    Mesh,
    MeshAxis,
    OpShardingRule,
    ReductionOp,
    SdyAttribute,
    SubAxisInfo,
    TensorMapping,
    TensorSharding,
    TensorShardingPerValue,
)
from emu.sdy.dialect.edge_attributes import EdgeNodeType, EdgeValueRef
from emu.sdy.dialect.text import factor_symbol


def read(text: str) -> Attribute:
    module = parse(f'"t.holder"() {{a = {text}}} : () -> ()', verify=False)
    (holder,) = module.body()
    return holder.attributes["a"]


CANONICAL = [
    '#sdy<manual_axes{"rows", "cols"}>',
    "#sdy<manual_axes{}>",
    '#sdy<mesh_axis"rows"=2>',
    '#sdy.mesh<["rows"=2, "cols"=3]>',
    '#sdy.mesh<["rows"=2, "cols"=2], device_ids=[3, 1, 2, 0]>',
    "#sdy.mesh<[]>",
    "#sdy.mesh<[], device_ids=[7]>",
    "#sdy<sub_axis_info(2)4>",
    '#sdy<axis_ref"rows">',
    '#sdy<axis_ref"rows":(2)4>',
    '#sdy<dimension_sharding{"rows", "cols":(2)4, ?}p1>',
    "#sdy<dimension_sharding{?}>",
    "#sdy<dimension_sharding{}>",
    '#sdy<dimension_sharding{"rows"}p0>',
    '#sdy.sharding<@grid, [{"rows"}, {?}], replicated={"cols"}, unreduced={"deep":(1)2}>',
    "#sdy.sharding<@grid, []>",
    '#sdy.sharding<@"my grid", [{}]>',
    '#sdy.sharding<mesh<["rows"=2], device_ids=[1, 0]>, [{"rows", ?}p12]>',
    '#sdy.sharding_per_value<[<@grid, [{"rows"}]>, <@grid, []>]>',
    "#sdy.sharding_per_value<[]>",
    "#sdy<tensor_mapping[ij, k]>",
    "#sdy<tensor_mapping[]>",
    "#sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=2, j=3, k=4} reduction={k}>",
    (
        "#sdy.op_sharding_rule<([i, jk])->([i, j]) {i=2, j=3, k=4} reduction={k} "
        "need_replication={i} permutation={j} blocked_propagation={i, j}, custom>"
    ),
    "#sdy.op_sharding_rule<([], [])->([]), custom>",
    '#sdy<axis_ref_list{"rows", "cols":(1)2}>',
    "#sdy<axis_ref_list{}>",
    '#sdy<list_of_axis_ref_lists[{"rows"}, {}]>',
    "#sdy<list_of_axis_ref_lists[]>",
    '#sdy<all_to_all_param{"rows"}: 0->2>',
    '#sdy<all_to_all_param_list[{"rows"}: 0->2, {"cols", "deep"}: 1->3]>',
    '#sdy<axis_to_propagation_details{"rows" = operand-0 -> [result-0, operand-1]}>',
    '#sdy<propagation_one_step{step-3 = [{"rows" = operand-0 -> [result-0]}]}>',
    (
        '#sdy.propagation_edges<[{step-0 = [{"rows" = operand-0 -> [result-0]}, '
        '{"cols":(1)2 = result-0 -> [operand-0]}]}, {step-1 = [{"rows" = operand-1 -> [result-0]}]}]>'
    ),
]


@pytest.mark.parametrize("text", CANONICAL)
def test_text_comes_back(text: str) -> None:
    attribute = read(text)
    assert str(attribute) == text
    assert pickle.loads(pickle.dumps(attribute)) == attribute
    assert hash(read(text)) == hash(attribute)


@pytest.mark.parametrize(
    ("loose", "canonical"),
    [
        ('#sdy.mesh<["a"=4,"b"=2],device_ids=[0,1,2,3,4,5,6,7]>', '#sdy.mesh<["a"=4, "b"=2]>'),
        (
            '#sdy.sharding<@m,[{"a",?}p3 ,{ }],unreduced={"c"},replicated={"b"}>',
            '#sdy.sharding<@m, [{"a", ?}p3, {}], replicated={"b"}, unreduced={"c"}>',
        ),
        (
            '#sdy.sharding_per_value<[#sdy.sharding<@m, [#sdy<dimension_sharding{"a"}>]>]>',
            '#sdy.sharding_per_value<[<@m, [{"a"}]>]>',
        ),
        ('#sdy<axis_ref "a" : (1) 2>', '#sdy<axis_ref"a":(1)2>'),
        ("#sdy.sharding<#grid, []>", None),
        ("#sdy<dim_mapping ijz_1>", "#sdy.dim_mappingijz_1"),
        ("#sdy<edge_value_ref operand-4>", "#sdy<edge_value_refoperand-4>"),
        (
            "#sdy.op_sharding_rule<([i,,j])->([ij]) {i=2,j=4}>",
            "#sdy.op_sharding_rule<([i, #sdy.dim_mapping, j])->([ij]) {i=2, j=4}>",
        ),
        (
            "#sdy.op_sharding_rule<([i, #sdy.dim_mapping])->(#sdy<tensor_mapping[i]>) {i=2}>",
            "#sdy.op_sharding_rule<([i, #sdy.dim_mapping])->([i]) {i=2}>",
        ),
    ],
)
def test_other_spellings(loose: str, canonical: str | None) -> None:
    if canonical is None:
        with pytest.raises(MlirError, match="undefined symbol alias id 'grid'"):
            read(loose)
    else:
        assert str(read(loose)) == canonical


def test_what_was_read() -> None:
    assert read('#sdy.sharding<@m, [{"a", "b":(2)4, ?}p1, {}], replicated={"c"}>') == (
        TensorSharding(
            "m",
            (
                DimensionSharding((AxisRef("a"), AxisRef("b", SubAxisInfo(2, 4))), False, 1),
                DimensionSharding(),
            ),
            (AxisRef("c"),),
        )
    )
    assert read('#sdy.mesh<["a"=2, "b"=2], device_ids=[1, 0, 3, 2]>') == Mesh(
        (MeshAxis("a", 2), MeshAxis("b", 2)), (1, 0, 3, 2)
    )
    rule = read("#sdy.op_sharding_rule<([ij], [z, z_2])->([j]) {i=3, j=5}, custom>")
    assert rule == OpShardingRule(
        (3, 5),
        (
            TensorMapping((DimMapping((0, 1)),)),
            TensorMapping((DimMapping((17,)), DimMapping((19,)))),
        ),
        (TensorMapping((DimMapping((1,)),)),),
        is_custom=True,
    )
    assert read('#sdy<all_to_all_param_list[{"a"}: 0->1]>') == AllToAllParamList(
        (AllToAllParam((AxisRef("a"),), 0, 1),)
    )
    assert read("#sdy<edge_value_ref result-2>") == EdgeValueRef(EdgeNodeType.RESULT, 2)


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        (AxisRef("a", SubAxisInfo(1, 2)), '"a":(1)2'),
        (AxisRef('q"\\\n'), '"q\\22\\\\\\0A"'),
        (AxisRefList((AxisRef("a"), AxisRef("b"))), '{"a", "b"}'),
        (ListOfAxisRefLists(((), (AxisRef("a"),))), '[{}, {"a"}]'),
        (ManualAxes(("a",)), '{"a"}'),
        (TensorShardingPerValue((TensorSharding("m"),)), "<[<@m, []>]>"),
        (DimMapping((0, 18)), "iz_1"),
    ],
)
def test_stripped_text(attribute: SdyAttribute, text: str) -> None:
    assert attribute.stripped_text() == text


def test_names_of_factors() -> None:
    names = [factor_symbol(f) for f in (0, 1, 17, 18, 19, 27)]
    assert names == ["i", "j", "z", "z_1", "z_2", "z_10"]


names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)
axis_refs = st.builds(
    AxisRef,
    names,
    st.none() | st.builds(SubAxisInfo, st.integers(1, 9), st.integers(2, 9)),
)
axis_lists = st.lists(axis_refs, max_size=3).map(tuple)
dims = st.builds(
    DimensionSharding, axis_lists, st.booleans(), st.none() | st.integers(0, 2**63 - 1)
)
meshes = st.builds(
    Mesh,
    st.lists(
        st.builds(MeshAxis, names, st.integers(1, 5)), max_size=3, unique_by=lambda a: a.name
    ).map(tuple),
)
shardings = st.builds(
    TensorSharding,
    names | meshes,
    st.lists(dims, max_size=3).map(tuple),
    axis_lists,
    axis_lists,
    st.sampled_from(ReductionOp),
)
factors = st.lists(st.integers(0, 40), min_size=1, max_size=3).map(tuple)
mappings = st.lists(
    st.builds(TensorMapping, st.lists(st.builds(DimMapping, factors), max_size=3).map(tuple)),
    min_size=1,
    max_size=2,
).map(tuple)
rules = st.builds(
    OpShardingRule,
    st.lists(st.integers(1, 99), max_size=25).map(tuple),
    mappings,
    mappings,
    factors | st.just(()),
    factors | st.just(()),
    factors | st.just(()),
    factors | st.just(()),
    st.booleans(),
)


@settings(deadline=None)
@given(shardings | rules | meshes)
def test_any_attribute_comes_back(attribute: Attribute) -> None:
    text = str(attribute)
    assert read(text) == attribute
    assert str(read(text)) == text


def test_the_operator_goes_with_the_unreduced_axes() -> None:
    axes = (AxisRef("x"), AxisRef("y"))
    cut = TensorSharding("m", (DimensionSharding(),), (), axes, ReductionOp.MAX)
    assert str(cut) == '#sdy.sharding<@m, [{}], unreduced=max{"x", "y"}>'
    for kept in (cut.closed(), cut.opened(), cut.with_dims([]), cut.with_unreduced(axes[:1])):
        assert kept.reduction_op is ReductionOp.MAX
    reduced = cut.with_unreduced([])
    assert reduced == TensorSharding("m", (DimensionSharding(),))
    assert reduced.reduction_op is ReductionOp.SUM
    assert cut != TensorSharding("m", (DimensionSharding(),), (), axes, ReductionOp.MIN)
