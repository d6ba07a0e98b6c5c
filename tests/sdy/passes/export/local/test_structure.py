"""Reductions of sharded dimensions start once, not once per device."""

from __future__ import annotations

import numpy as np
import pytest
from sdy_devices import on_devices, operations

REDUCTIONS = {
    "add": lambda x, start: start + x.sum(0, dtype=x.dtype),
    "multiply": lambda x, start: start * x.prod(0, dtype=x.dtype),
    "maximum": lambda x, start: np.maximum(start, x.max(0)),
    "minimum": lambda x, start: np.minimum(start, x.min(0)),
    "and": lambda x, start: start & np.bitwise_and.reduce(x, 0),
    "or": lambda x, start: start | np.bitwise_or.reduce(x, 0),
    "xor": lambda x, start: start ^ np.bitwise_xor.reduce(x, 0),
}


def program(name: str, constant: bool) -> str:
    start = "%c = stablehlo.constant dense<5> : tensor<i32>" if constant else ""
    return f"""
sdy.mesh @m = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x4xi32> {{sdy.sharding = #sdy.sharding<@m, [{{"x"}}, {{"y"}}]>}}, %s: tensor<i32>)
    -> tensor<4xi32> {{
  {start}
  %0 = stablehlo.reduce(%a init: {"%c" if constant else "%s"}) applies stablehlo.{name} across dimensions = [0]
      : (tensor<8x4xi32>, tensor<i32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}}"""


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_values(name: str, constant: bool) -> None:
    a = np.random.default_rng(1).integers(1, 9, (8, 4)).astype(np.int32)
    start = np.asarray(5, np.int32)
    (got,) = on_devices(program(name, constant), a, start)
    np.testing.assert_array_equal(got, REDUCTIONS[name](a, start))


def test_a_sum_from_zero_needs_nothing() -> None:
    text = program("add", True).replace("dense<5>", "dense<0>")
    assert "stablehlo.select" not in {op.name for op in operations(text, "emu-partition-pipeline")}
    text = program("add", True)
    assert "stablehlo.select" in {op.name for op in operations(text, "emu-partition-pipeline")}
