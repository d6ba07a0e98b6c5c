"""Custom calls without sharding rule are computed on whole arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sdy_devices import on_devices, operations, whole

from emu.mlir.ir import Operation
from emu.stablehlo.reference.values import Array

RULE = "sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i]) {i=8}, custom>, "


def program(rule: str = "") -> str:
    sharded = 'sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}]>]>'
    return f"""
sdy.mesh @m = <["x"=4]>
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {{
  %0 = stablehlo.negate %a {{{sharded}}} : tensor<8xf32>
  %1 = stablehlo.custom_call @turn(%0) {{{rule}{sharded}}} : (tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}}"""


def turn(op: Operation, x: Array) -> Sequence[Array]:
    return [np.roll(x, 1)]


def test_values() -> None:
    given = np.arange(8, dtype=np.float32)
    (got,) = on_devices(program(), given, custom_calls={"turn": turn})
    np.testing.assert_array_equal(got, np.roll(-given, 1))
    np.testing.assert_array_equal(got, whole(program(), given, custom_calls={"turn": turn})[0])


def test_a_rule_says_that_a_call_works_on_shards() -> None:
    for rule, count in (("", 2), (RULE, 0)):
        names = [op.name for op in operations(program(rule), "emu-replicate-unknown-calls")]
        assert names.count("sdy.reshard") == count
