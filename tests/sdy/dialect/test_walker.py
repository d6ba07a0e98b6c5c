"""Walks over every sharding of a module."""

from __future__ import annotations

import re

from emu.mlir import parse
from emu.mlir.ir import Operation
from emu.sdy.dialect.attributes import Mesh, TensorSharding
from emu.sdy.dialect.walker import (
    FunctionResult,
    Place,
    transform_sharding,
    transform_shardings,
    walk_shardings,
)

EVERYWHERE = """
sdy.mesh @m = <["x"=2, "y"=2]>
func.func @main(%arg0: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}, %arg1: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"y"}]>}) {
  %0 = stablehlo.add %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@m, [{?}]>]>} : tensor<4xf32>
  %1:2 = stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x", ?}]>, <@m, [{"y", ?}]>]>} %0, %0 : tensor<4xf32>, tensor<4xf32>
  %2 = sdy.sharding_constraint %1#0 <@m, [{"x", "y"}]> : tensor<4xf32>
  %3 = sdy.manual_computation(%2) in_shardings=[<@m, [{"y", ?}]>] out_shardings=[<@m, [{"y", "x"}]>] manual_axes={"y"} (%arg2: tensor<2xf32>) {
    %4 = stablehlo.abs %arg2 {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}]>]>} : tensor<2xf32>
    sdy.return %4 : tensor<2xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  stablehlo.custom_call @sink(%3) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<mesh<[], device_ids=[2]>, []>]>} : (tensor<4xf32>) -> ()
  return %3, %1#1 : tensor<4xf32>, tensor<4xf32>
}
func.func private @outside(tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}) -> tensor<4xf32>
"""


def described(place: Place) -> str:
    if place is None:
        return "nothing"
    if isinstance(place, FunctionResult):
        return f"{place.function.symbol_name} result {place.index}"
    op = place.defining_op
    return "argument" if op is None else op.name


def test_walker_meets_every_sharding_in_order() -> None:
    met: list[tuple[str, int]] = []
    visited: list[str] = []
    walk_shardings(
        parse(EVERYWHERE),
        lambda sharding, place: met.append((described(place), len(sharding.all_axes()))),
        lambda op: visited.append(op.name),
    )
    assert met == [
        ("argument", 1),
        ("main result 1", 1),
        ("stablehlo.add", 0),
        ("stablehlo.optimization_barrier", 1),
        ("stablehlo.optimization_barrier", 1),
        ("sdy.sharding_constraint", 2),
        ("argument", 1),
        ("sdy.manual_computation", 2),
        ("stablehlo.abs", 1),
        ("nothing", 0),
        ("nothing", 1),
    ]
    assert visited[:3] == ["builtin.module", "sdy.mesh", "func.func"]


def test_walker_changes_every_sharding() -> None:
    module = parse(EVERYWHERE)

    def renamed(sharding: TensorSharding, _: Place) -> TensorSharding:
        same = isinstance(sharding.mesh, Mesh)
        return sharding if same else TensorSharding("n", sharding.dims)

    transform_shardings(module, renamed)
    text = str(module)
    assert text.count("<@n, ") == EVERYWHERE.count("<@m, ")
    assert text == str(parse(EVERYWHERE)).replace("<@m, ", "<@n, ")


def test_one_sharding_is_changed_where_it_is() -> None:
    module = parse(EVERYWHERE)
    function = next(op for op in module.body() if op.name == "func.func")
    add = next(op for op in function.body() if op.name == "stablehlo.add")

    def opened(sharding: TensorSharding) -> TensorSharding:
        return TensorSharding.fully_open(sharding.rank, sharding.mesh)

    def shardings_in(op: Operation) -> list[str]:
        return re.findall(r"<@m, (\[[^\]]*\])", str(op).partition("\n")[0])

    for place in (FunctionResult(function, 1), add.operands[0], FunctionResult(function, 0)):
        transform_sharding(place, opened)
    assert shardings_in(function) == ["[{?}]", "[{?}]"]
