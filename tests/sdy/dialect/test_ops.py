"""The operations' text forms, and operations made by hand."""

from __future__ import annotations

import pytest

from emu.mlir import parse
from emu.mlir.diagnostics import MlirError
from emu.mlir.ir import Block, Operation
from emu.mlir.registry import definition
from emu.mlir.text.printer import to_text
from emu.mlir.types import FloatType, TensorType
from emu.sdy.dialect import builders, ops
from emu.sdy.dialect.attributes import (
    AllToAllParam,
    AllToAllParamList,
    AxisRef,
    AxisRefList,
    DimensionSharding,
    ListOfAxisRefLists,
    Mesh,
    MeshAxis,
    PropagationDirection,
    ReductionOp,
    SdyAttribute,
    TensorSharding,
)

T = "tensor<8x8xf32>"
BODY = f"""module {{
  sdy.mesh @grid = <["x"=2, "y"=4]>
  func.func @f(%arg0: {T}) {{
    @OP@
    return
  }}
}}
"""

LINES = [
    f'%0 = sdy.sharding_constraint %arg0 <@grid, [{{"x"}}, {{?}}]> : {T}',
    f'%0 = sdy.reshard %arg0 <@grid, [{{"x"}}, {{}}], unreduced={{"y"}}> {{note = "n"}} : {T}',
    f"sdy.sharding_group %arg0 group_id=5 : {T}",
    f"sdy.sharding_group %arg0 group_id=-1 {{note}} : {T}",
    "%0 = sdy.constant dense<1.500000e+00> : tensor<8x8xf32>",
    "%0 = sdy.constant {note} dense<[1, 2]> : tensor<2xi32>",
    "%0 = sdy.constant() <{value = dense<2> : tensor<i32>}> {note} : () -> tensor<i64>",
    "%0 = sdy.constant dense_resource<weights> : tensor<2xi32>",
    f"%0 = sdy.data_flow_edge %arg0 : {T}",
    f'%0 = sdy.data_flow_edge %arg0 sharding=<@grid, [{{"x", ?}}, {{?}}]> : {T}',
    f"%0 = sdy.func_data_flow_edge %arg0 {{note}} : {T}",
    f"%0 = sdy.propagation_barrier %arg0 allowed_direction=NONE : {T}",
    f"%0 = sdy.propagation_barrier %arg0 allowed_direction=BACKWARD : {T}",
    f'%0 = sdy.all_gather [{{"x"}}, {{}}] %arg0 out_sharding=<@grid, [{{}}, {{}}]> : {T}',
    f'%0 = sdy.all_slice [{{"x":(1)2}}, {{"y"}}] %arg0 out_sharding=<@grid, [{{}}, {{}}]> : {T}',
    f'%0 = sdy.all_to_all [{{"x"}}: 0->1] %arg0 out_sharding=<@grid, [{{}}, {{"x"}}]> : {T}',
    f'%0 = sdy.collective_permute %arg0 out_sharding=<@grid, [{{"x"}}, {{}}]> {{note}} : {T}',
    f'%0 = sdy.all_reduce {{"x", "y"}} %arg0 out_sharding=<@grid, [{{}}, {{}}]> : {T}',
    f'%0 = sdy.reduce_scatter [{{"x"}}, {{}}] %arg0 out_sharding=<@grid, [{{"x"}}, {{}}]> : {T}',
    f'%0 = sdy.all_reduce max {{"x"}} %arg0 out_sharding=<@grid, [{{}}, {{}}]> {{note}} : {T}',
    f'%0 = sdy.reduce_scatter min [{{"x"}}, {{}}] %arg0 out_sharding=<@grid, [{{"x"}}, {{}}]> : {T}',
    f'%0 = sdy.reshard %arg0 <@grid, [{{}}, {{}}], unreduced=max{{"y"}}> : {T}',
    (
        f'%0 = sdy.sharded_to_unreduced [{{"x"}}, {{}}] %arg0 out_sharding=<@grid, [{{}}, {{}}], '
        f'unreduced={{"x"}}> : {T}'
    ),
    (
        f'%0 = sdy.replicated_to_unreduced {{"x"}} %arg0 out_sharding=<@grid, [{{}}, {{}}], '
        f'unreduced={{"x"}}> : {T}'
    ),
    f"""%0 = sdy.manual_computation(%arg0) in_shardings=[<@grid, [{{"x"}}, {{?}}]>] \
out_shardings=[<@grid, [{{"x"}}, {{}}]>] manual_axes={{"x"}} (%arg1: tensor<4x8xf32>) {{
      sdy.return %arg1 : tensor<4x8xf32>
    }} : ({T}) -> {T}""",
    """sdy.manual_computation() in_shardings=[] out_shardings=[] manual_axes={} () {
      sdy.return {note}
    } {note} : () -> ()""",
    f"""%0:2 = sdy.named_computation<"twice">(%arg0) in_shardings=[<@grid, [{{"x"}}, {{?}}]>] \
(%arg1: {T}) {{
      sdy.return %arg1, %arg1 : {T}, {T}
    }} : ({T}) -> ({T}, {T})""",
    f"""%0 = sdy.named_computation<"a \\22b\\22">(%arg0) out_shardings=[<@grid, [{{}}, {{}}]>] \
(%arg1: {T}) {{
      sdy.return %arg1 : {T}
    }} {{note = 1 : i32}} : ({T}) -> {T}""",
]


@pytest.mark.parametrize("line", LINES)
def test_text_comes_back_through_both_forms(line: str) -> None:
    text = BODY.replace("@OP@", line)
    module = parse(text, verify=False)
    assert to_text(module) == text
    generic = to_text(module, generic=True)
    assert "sdy.mesh @" not in generic
    assert to_text(parse(generic, verify=False)) == text


def test_generic_form_keeps_directions_as_numbers() -> None:
    text = BODY.replace("@OP@", LINES[12])
    module = parse(text, verify=False)
    assert "<{allowed_direction = 2 : i32}>" in to_text(module, generic=True)
    barrier = next(op for op in module.walk() if op.name == "sdy.propagation_barrier")
    assert ops.allowed_direction(barrier) is PropagationDirection.BACKWARD
    with pytest.raises(ValueError, match="has no allowed_direction"):
        ops.allowed_direction(module)


REDUCE = f'%0 = sdy.all_reduce OP{{"x"}} %arg0 out_sharding=<@grid, [{{}}, {{}}]> : {T}'


@pytest.mark.parametrize(
    ("written", "printed", "number"), [("", "", 0), ("sum ", "", 0), ("max ", "max ", 1)]
)
def test_the_operator_of_a_sum_is_not_printed(written: str, printed: str, number: int) -> None:
    module = parse(BODY.replace("@OP@", REDUCE.replace("OP", written)), verify=False)
    assert to_text(module) == BODY.replace("@OP@", REDUCE.replace("OP", printed))
    assert f"reduction_op = {number} : i32" in to_text(module, generic=True)


def test_generic_form_without_an_operator_sums() -> None:
    text = BODY.replace("@OP@", REDUCE.replace("OP", ""))
    generic = to_text(parse(text, verify=False), generic=True)
    older = generic.replace("reduction_op = 0 : i32", "").replace(", }>", "}>").replace(", ,", ",")
    assert "reduction_op" not in older
    module = parse(older, verify=False)
    assert to_text(module, generic=True) == generic
    op = next(op for op in module.walk() if op.name == "sdy.all_reduce")
    assert ops.reduction_op(op) is ReductionOp.SUM


@pytest.mark.parametrize("wrong", ["3 : i32", "-1 : i32", "0 : i64", '"max"'])
def test_an_unknown_operator(wrong: str) -> None:
    text = BODY.replace("@OP@", REDUCE.replace("OP", ""))
    generic = to_text(parse(text, verify=False), generic=True)
    with pytest.raises(MlirError, match="Invalid attribute `reduction_op` in property conversion"):
        parse(generic.replace("0 : i32", wrong))


def test_attributes_may_be_written_whole() -> None:
    text = '"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "a b"}> : () -> ()\n'
    text += 'sdy.mesh @plain = #sdy.mesh<["x"=2]> {note}\n'
    module = parse(text, verify=False)
    lines = to_text(module).splitlines()[1:-1]
    assert lines == ['  sdy.mesh @"a b" = <["x"=2]>', '  sdy.mesh @plain = <["x"=2]> {note}']


def test_inherent_attributes_in_the_dictionary() -> None:
    line = f"%0 = sdy.data_flow_edge %arg0 {{sharding = #sdy.sharding<@grid, [{{}}, {{}}]>}} : {T}"
    module = parse(BODY.replace("@OP@", line), verify=False)
    edge = next(op for op in module.walk() if op.name == "sdy.data_flow_edge")
    assert "sharding" in edge.properties
    assert not edge.attributes
    assert "%arg0 sharding=<@grid, [{}, {}]> : " in to_text(module)


def test_the_dictionary_overrules_the_syntax() -> None:
    module = parse('sdy.mesh @a = <["x"=2]> {sym_name = "b"}', verify=False)
    assert '  sdy.mesh @b = <["x"=2]>' in to_text(module).splitlines()


def test_flags() -> None:
    for name in ("reshard", "return", "constant", "propagation_barrier"):
        assert definition(f"sdy.{name}").pure
    for name in ("sharding_constraint", "sharding_group", "all_gather", "data_flow_edge", "mesh"):
        assert not definition(f"sdy.{name}").pure
    for name in ("manual_computation", "named_computation"):
        known = definition(f"sdy.{name}")
        assert known.isolated
        assert known.recursive_effects
        assert not known.pure
    assert definition("sdy.mesh").symbol
    assert definition("sdy.return").terminator


def made() -> list[tuple[Operation, str]]:
    """Operations made by hand, and their text."""
    kind = TensorType((8, 8), FloatType("f32"))
    block = Block([kind])
    (value,) = block.arguments
    x = AxisRef("x")
    cut = TensorSharding("grid", (DimensionSharding((x,)), DimensionSharding()))
    flat = TensorSharding.fully_closed(2, "grid")
    manual = Block([kind])
    manual.append(builders.make_return(manual.arguments))
    lists = ListOfAxisRefLists(((x,), ()))

    def collective(name: str, axes: SdyAttribute | None, out: TensorSharding) -> Operation:
        return builders.make_collective(f"sdy.{name}", value, axes, out)

    return [
        (builders.make_mesh("grid", Mesh((MeshAxis("x", 2),))), 'sdy.mesh @grid = <["x"=2]>'),
        (builders.make_reshard(value, cut), "sdy.reshard"),
        (collective("all_gather", lists, flat), 'sdy.all_gather [{"x"}, {}]'),
        (collective("all_slice", lists, cut), 'sdy.all_slice [{"x"}, {}]'),
        (
            collective("all_to_all", AllToAllParamList((AllToAllParam((x,), 0, 1),)), cut),
            '[{"x"}: 0->1]',
        ),
        (collective("collective_permute", None, cut), "sdy.collective_permute"),
        (collective("all_reduce", AxisRefList((x,)), flat), 'sdy.all_reduce {"x"}'),
        (collective("reduce_scatter", lists, cut), 'sdy.reduce_scatter [{"x"}, {}]'),
        (collective("sharded_to_unreduced", lists, flat), "sdy.sharded_to_unreduced"),
        (
            collective("replicated_to_unreduced", AxisRefList((x,)), flat),
            "sdy.replicated_to_unreduced",
        ),
        (
            builders.make_manual_computation([value], [kind], [flat], [flat], ["x"], manual),
            'manual_axes={"x"}',
        ),
    ]


@pytest.mark.parametrize("index", range(11))
def test_operations_made_by_hand(index: int) -> None:
    op, text = made()[index]
    known = definition(op.name)
    assert known.name == op.name
    assert set(op.properties) <= set(known.properties)
    printed = to_text(op)
    assert text in printed
    assert f"{op.name} " in printed or f"{op.name}(" in printed or f"{op.name}<" in printed
