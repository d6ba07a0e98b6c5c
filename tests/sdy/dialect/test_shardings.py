"""Where shardings are kept, meshes, and shardings as data."""

from __future__ import annotations

from dataclasses import replace

import pytest

import emu.sdy.dialect.ops
import emu.stablehlo  # noqa: F401  # makes the operations known
from emu.mlir import parse
from emu.mlir.ir import Operation, Value
from emu.mlir.symbols import SymbolTable
from emu.mlir.types import FloatType, IntegerType, TensorType, TupleType, UnrankedTensorType
from emu.sdy.dialect import shardings as sh
from emu.sdy.dialect.attributes import (
    AxisRef,
    DimensionSharding,
    Mesh,
    MeshAxis,
    SubAxisInfo,
    TensorSharding,
    TensorShardingPerValue,
)
from emu.sdy.dialect.names import SHARDING, SHARDING_RULE

F32 = FloatType("f32")
MESHES = """
sdy.mesh @grid = <["x"=2, "y"=4]>
sdy.mesh @other = <["x"=2, "y"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>
sdy.mesh @third = <["z"=8]>
sdy.mesh @one = <[], device_ids=[5]>
sdy.mesh @none = <[]>
"""


def read(text: str) -> Operation:
    return parse(MESHES + text, verify=False)


def named(module: Operation, name: str) -> list[Operation]:
    return [op for op in module.walk() if op.name == name]


def cut(mesh: str | Mesh, *dims: str, open_: bool = False) -> TensorSharding:
    """``cut("grid", "x y", "")``: the axes of each dimension."""
    return TensorSharding(
        mesh,
        tuple(DimensionSharding(tuple(map(AxisRef, dim.split())), not open_) for dim in dims),
    )


PROGRAM = """
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>},
                %b: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.add %a, %b : tensor<8x8xf32>
  %1:2 = stablehlo.custom_call @split(%0) {sdy.sharding =
    #sdy.sharding_per_value<[<@grid, [{"x"}, {}]>, <@grid, [{}, {"y"}]>]>}
    : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  %2 = sdy.sharding_constraint %0 <@grid, [{"y"}, {}]> : tensor<8x8xf32>
  %3 = sdy.reshard %0 <@grid, [{"y"}, {}]> : tensor<8x8xf32>
  %4 = sdy.all_gather [{"y"}, {}] %3 out_sharding=<@grid, [{}, {}]> : tensor<8x8xf32>
  %5 = sdy.propagation_barrier %4 allowed_direction=NONE : tensor<8x8xf32>
  %6 = sdy.propagation_barrier %5 allowed_direction=NONE : tensor<8x8xf32>
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %7 = stablehlo.reduce(%0 init: %c) across dimensions = [0]
    : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
   reducer(%p: tensor<f32>, %q: tensor<f32>) {
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }
  return %6 : tensor<8x8xf32>
}
"""


@pytest.fixture
def module() -> Operation:
    return read(PROGRAM)


def value(module: Operation, name: str, result: int = 0) -> Value:
    return named(module, name)[0].results[result]


def test_reading(module: Operation) -> None:
    main = named(module, "func.func")[0]
    a, b = main.body().arguments
    assert sh.get_sharding(a) == cut("grid", "x", "")
    assert sh.get_sharding(b) is None
    assert sh.get_sharding(value(module, "stablehlo.add")) is None
    assert sh.get_sharding(value(module, "stablehlo.custom_call", 1)) == cut("grid", "", "y")
    assert sh.get_sharding(value(module, "sdy.sharding_constraint")) == cut("grid", "y", "")
    assert sh.get_sharding(value(module, "sdy.reshard")) == cut("grid", "y", "")
    assert sh.get_sharding(value(module, "sdy.all_gather")) == cut("grid", "", "")
    barrier = named(module, "sdy.propagation_barrier")[1].result
    assert sh.get_sharding(barrier) is None
    assert sh.sharding_bypassing_barriers(barrier) == cut("grid", "", "")
    assert sh.get_shardings([a, b]) == [cut("grid", "x", ""), None]
    call = named(module, "stablehlo.custom_call")[0]
    assert sh.get_shardings(call) == (cut("grid", "x", ""), cut("grid", "", "y"))
    assert sh.get_shardings(main) == ()
    per_value = sh.sharding_per_value(call)
    assert per_value is not None
    assert per_value.shardings == sh.get_shardings(call)


def test_arguments_of_a_reduction_have_no_place(module: Operation) -> None:
    p = named(module, "stablehlo.reduce")[0].body().arguments[0]
    assert sh.shardable_value(p) is None
    assert sh.get_sharding(p) is None
    before = str(module)
    sh.set_sharding(p, cut("grid"))
    assert str(module) == before


def test_writing(module: Operation) -> None:
    new = cut("grid", "y", "x")
    main = named(module, "func.func")[0]
    held: list[Value] = [
        *main.body().arguments,
        value(module, "stablehlo.add"),
        value(module, "stablehlo.custom_call", 1),
        value(module, "sdy.sharding_constraint"),
        value(module, "sdy.reshard"),
        value(module, "sdy.all_gather"),
    ]
    for each in held:
        sh.set_sharding(each, new)
        assert sh.get_sharding(each) == new
    assert value(module, "sdy.all_gather").defining_op.properties["out_sharding"] == new  # type: ignore[union-attr]
    # The other result keeps its sharding.
    assert sh.get_sharding(value(module, "stablehlo.custom_call", 0)) == cut("grid", "x", "")


def test_the_other_results_become_open(module: Operation) -> None:
    call = named(module, "stablehlo.custom_call")[0]
    del call.attributes[SHARDING]
    sh.replace_sharding_at(call, 1, cut("grid", "x", "y"))
    assert sh.get_shardings(call) == (cut("grid", "", "", open_=True), cut("grid", "x", "y"))
    sh.set_shardings(call, ())
    assert len(sh.get_shardings(call)) == 2
    sh.set_shardings(call, [cut("grid", "", "")] * 2)
    assert sh.get_shardings(call) == (cut("grid", "", ""),) * 2
    sh.set_shardings(call, TensorShardingPerValue((cut("grid", "x", ""),) * 2))
    assert sh.get_shardings(call)[1] == cut("grid", "x", "")


def test_a_sharding_where_there_is_none(module: Operation) -> None:
    a, b = named(module, "func.func")[0].body().arguments
    assert sh.get_or_create_sharding(a, "third") == cut("grid", "x", "")
    assert sh.get_or_create_sharding(b, "third") == cut("third", "", "", open_=True)
    assert sh.get_or_create_sharding(b, "third", closed_if_missing=True) == cut("third", "", "")


def test_uses_and_owners(module: Operation) -> None:
    main = named(module, "func.func")[0]
    add = named(module, "stablehlo.add")[0]
    a = main.body().arguments[0]
    assert sh.owning_op(a) is main
    assert sh.owning_op(add.result) is add
    assert sh.body_terminator(main).name == "func.return"


def test_rules_are_removed_unless_a_user_gave_them(module: Operation) -> None:
    rule = "#sdy.op_sharding_rule<([i])->([i]) {i=8}"
    text = f"""func.func @f(%a: tensor<8xf32>) {{
      %0 = stablehlo.abs %a {{sdy.sharding_rule = {rule}>}} : tensor<8xf32>
      %1 = stablehlo.abs %a {{sdy.sharding_rule = {rule}, custom>}} : tensor<8xf32>
      return
    }}"""
    module = parse(text, verify=False)
    sh.remove_sharding_rules(module)
    kept = [SHARDING_RULE in op.attributes for op in named(module, "stablehlo.abs")]
    assert kept == [False, True]


# Meshes


def test_looking_up_meshes(module: Operation) -> None:
    table = SymbolTable(module)
    grid = Mesh((MeshAxis("x", 2), MeshAxis("y", 4)))
    for scope in (table, module, named(module, "stablehlo.add")[0]):
        assert sh.get_mesh(scope, "grid") == grid
        assert sh.get_mesh(scope, grid) is grid
        assert sh.find_mesh(scope, "main") is None
        assert sh.mesh_operation(scope, "grid") is named(module, "sdy.mesh")[0]
        with pytest.raises(ValueError, match="unknown mesh: @nowhere"):
            sh.get_mesh(scope, "nowhere")


def test_the_mesh_in_common(module: Operation) -> None:
    table = SymbolTable(module)
    grid, other, third = (cut(name, "") for name in ("grid", "other", "third"))
    none, inlined = cut("none", ""), cut(sh.get_mesh(table, "grid"), "")
    assert sh.common_mesh_name([None, grid, None, grid], table) == "grid"
    assert sh.common_mesh_or_name([inlined, grid], table) == inlined.mesh
    assert sh.common_mesh_or_name([grid, inlined], table) == "grid"
    assert sh.common_mesh([none, grid], table) == sh.get_mesh(table, "grid")
    assert sh.common_mesh_name([grid, none], table) == "grid"
    assert sh.common_mesh_name([none, none], table) == "none"
    assert sh.common_mesh_name([grid, third], table) is None
    assert sh.common_mesh([], table) is None
    assert sh.common_mesh_name([grid, other], table) is None
    # Of meshes with the same axes the one in the natural order is preferred.
    assert sh.common_mesh_name([other, grid], table, ignore_device_ids=True) == "grid"
    assert sh.common_mesh_name([other, other], table, ignore_device_ids=True) == "other"
    assert sh.common_mesh_name([grid, third], table, ignore_device_ids=True) is None
    with pytest.raises(ValueError, match="inlined"):
        sh.common_mesh_name([inlined], table)
    assert sh.first_mesh_or_name([None, cut("one"), third, grid], table) == "third"
    assert sh.first_mesh_or_name([None, cut("one")], table) is None


def test_inlining_meshes(module: Operation) -> None:
    table = SymbolTable(module)
    mesh = sh.get_mesh(table, "third")
    assert sh.inline_mesh(table, cut("third", "z")) == cut(mesh, "z")
    assert sh.inline_mesh(table, cut(mesh, "z")) == cut(mesh, "z")
    both = TensorShardingPerValue((cut("third", "z"), cut("grid")))
    assert [s.mesh for s in sh.inline_meshes(table, both).shardings] == [
        mesh,
        sh.get_mesh(table, "grid"),
    ]


def test_a_maximal_mesh_never_equals_another() -> None:
    one, none = Mesh((), (5,)), Mesh(())
    assert one.is_maximal
    assert not one.is_empty
    assert not one.equals(none, ignore_device_ids=True)
    assert one.equals(Mesh((), (6,)), ignore_device_ids=True)
    assert not one.equals(Mesh((), (6,)))


# Shapes and shardings as data


def test_shapes() -> None:
    matrix = TensorType((8, 6), F32)
    assert sh.static_shape(matrix) == (8, 6)
    assert sh.static_shape(TensorType((8, None), F32)) is None
    assert sh.static_shape(UnrankedTensorType(F32)) is None
    assert sh.tensor_rank(matrix) == 2
    assert sh.tensor_rank(TupleType((matrix,))) == 0
    assert sh.is_scalar(Value(TensorType((), F32)))
    assert not sh.is_scalar(Value(IntegerType(32)))
    assert not sh.is_scalar(Value(matrix))


def test_whole_shardings() -> None:
    types = [TensorType((8, 6), F32), TensorType((), F32), IntegerType(1)]
    assert sh.fully_open_shardings(types, "m") == (
        cut("m", "", "", open_=True),
        cut("m"),
        cut("m"),
    )
    assert sh.fully_closed_shardings(types[:1], "m") == (cut("m", "", ""),)
    assert sh.open_shardings_with(types, 0, cut("m", "x", "")) == (
        cut("m", "x", ""),
        cut("m"),
        cut("m"),
    )
    assert sh.fully_closed_like([Value(types[0])], "m").shardings == (cut("m", "", ""),)
    like = sh.fully_closed_like(TensorShardingPerValue((cut("q", "x", open_=True),)))
    assert like.shardings == (cut("q", ""),)
    with pytest.raises(ValueError, match="mesh is None"):
        sh.fully_closed_like([])


def test_opening_and_closing() -> None:
    closed = cut("m", "x", "y", "")
    sharding = replace(closed, replicated_axes=(AxisRef("z"),))
    opened = sh.open_dims(sharding, [0, 2])
    assert [dim.is_closed for dim in opened.dims] == [False, True, False]
    assert opened.replicated_axes == (AxisRef("z"),)
    assert sh.close_dims(opened, [0, 2]) == sharding
    assert sharding.opened().opened().closed() == closed
    assert TensorSharding.fully_open(2, "m") == cut("m", "", "", open_=True)


def test_equivalence() -> None:
    assert sh.is_equivalent(cut("m", "x", ""), cut("m", "x", "", open_=True))
    assert not sh.is_equivalent(cut("m", "x", ""), cut("n", "x", ""))
    assert not sh.is_equivalent(cut("m", "x", ""), cut("m", "", "x"))
    assert not sh.is_equivalent(cut("m", "x"), None)
    assert sh.is_equivalent(cut("m", ""), None)
    assert sh.is_equivalent(cut("m", "", ""), cut("n", ""))
    assert not sh.is_equivalent(cut("m", ""), cut("m", "x"))


def test_local_and_global_types() -> None:
    mesh = Mesh((MeshAxis("x", 2), MeshAxis("y", 4)))
    sharding = TensorSharding(
        "m",
        (DimensionSharding((AxisRef("x"), AxisRef("y", SubAxisInfo(1, 2)))), DimensionSharding()),
    )
    whole = TensorType((8, 6), F32)
    assert sh.local_type(sharding, whole, mesh) == TensorType((2, 6), F32)
    odd = TensorType((9, None), F32)
    assert sh.local_type(sharding, odd, mesh) == TensorType((3, None), F32)
    assert sh.local_type(sharding, odd, mesh, allow_non_divisible=False) is None
    assert sh.local_type(TensorSharding("m"), whole, mesh) is whole
    assert sh.local_type(sharding, IntegerType(1), mesh) == IntegerType(1)
    assert sh.global_type(sharding, TensorType((2, None), F32), mesh) == TensorType((8, None), F32)
    assert sh.global_type(TensorSharding("m"), whole, mesh) is whole


def test_manual_and_free_axes() -> None:
    outer = TensorSharding(
        "m",
        (
            DimensionSharding((AxisRef("x"), AxisRef("y")), False, 2),
            DimensionSharding((AxisRef("z"),)),
        ),
        (AxisRef("u"), AxisRef("w")),
        (AxisRef("v"),),
    )
    manual = ("x", "u", "v")
    assert sh.first_free_axis(outer.dims[0].axes, manual) == 1
    inner = sh.erase_manual_axes(outer, manual)
    assert str(inner) == '#sdy.sharding<@m, [{"y", ?}p2, {"z"}], replicated={"w"}>'
    assert sh.erase_manual_axes(outer, ()) is outer
    free = sh.erase_free_axes(outer, manual)
    assert str(free) == '#sdy.sharding<@m, [{"x", ?}p2, {}], replicated={"w"}>'
    new = cut("m", "y t", "")
    back = sh.add_free_axes(outer, new, manual)
    assert str(back) == (
        '#sdy.sharding<@m, [{"x", "y", "t"}, {}], replicated={"u", "w"}, unreduced={"v"}>'
    )
