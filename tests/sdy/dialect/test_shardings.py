"""Shardings of values, wherever they are stored."""

from __future__ import annotations

import pytest
from sdy_dialect_cases import F32, cut, named, read

import emu.sdy.dialect.ops
import emu.stablehlo  # noqa: F401  # makes the operations known
from emu.mlir import parse
from emu.mlir.ir import Operation, Value
from emu.mlir.types import TensorType
from emu.sdy.dialect import shardings as sh
from emu.sdy.dialect.attributes import (
    TensorShardingPerValue,
)
from emu.sdy.dialect.dataflow import body_terminator, owning_op
from emu.sdy.dialect.names import SHARDING, SHARDING_RULE

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
    assert owning_op(a) is main
    assert owning_op(add.result) is add
    assert body_terminator(main).name == "func.return"


def test_closed_shardings_like_others() -> None:
    like = sh.fully_closed_like([Value(TensorType((8, 6), F32))], "m")
    assert like.shardings == (cut("m", "", ""),)
    like = sh.fully_closed_like(TensorShardingPerValue((cut("q", "x", open_=True),)))
    assert like.shardings == (cut("q", ""),)
    with pytest.raises(ValueError, match="mesh is None"):
        sh.fully_closed_like([])


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
