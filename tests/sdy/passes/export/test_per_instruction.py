"""Single operations become manual computations; the program computes what it did."""

from __future__ import annotations

import numpy as np
import pytest
from sdy_devices import on_devices, operations, whole

import emu.sdy
from emu.sdy.passes.text import make_pass

NAME = "sdy-per-instruction-partitioning"


def sharded(dims: str) -> str:
    return f"{{sdy.sharding = #sdy.sharding_per_value<[<@m, [{dims}]>]>}}"


TEXT = f"""
sdy.mesh @m = <["x"=2, "y"=2]>
func.func @main(%a: tensor<6x5xf32>, %b: tensor<5x4xf32>) -> tensor<6xf32> {{
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = sdy.reshard %a <@m, [{{"x"}}, {{"y"}}]> : tensor<6x5xf32>
  %1 = sdy.reshard %b <@m, [{{"y"}}, {{}}]> : tensor<5x4xf32>
  %2 = stablehlo.dot %0, %1 {sharded('{"x"}, {}')} : (tensor<6x5xf32>, tensor<5x4xf32>) -> tensor<6x4xf32>
  %3 = stablehlo.negate %2 {sharded('{"x"}, {}')} : tensor<6x4xf32>
  %4 = stablehlo.reduce(%3 init: %z) applies stablehlo.add across dimensions = [1] {sharded('{"x"}')}
      : (tensor<6x4xf32>, tensor<f32>) -> tensor<6xf32>
  %5 = sdy.reshard %4 <@m, [{{}}]> : tensor<6xf32>
  return %5 : tensor<6xf32>
}}"""


@pytest.mark.parametrize(
    ("chosen", "count"),
    [
        ("", 6),
        ("dot", 1),
        ("dot,negate", 2),
        ("'selectLow=1, selectHigh=2'", 2),
        ("reshard, selectLow=2", 1),
    ],
)
def test_chosen_operations_are_wrapped(chosen: str, count: int) -> None:
    module = emu.sdy.parse(TEXT)
    emu.sdy.run_passes(module, make_pass(NAME, {"filter": chosen}))
    wrapped = [op for op in module.walk() if op.name == "sdy.manual_computation"]
    assert len(wrapped) == count


@pytest.mark.parametrize("chosen", ["", "dot", "reshard", "negate,reduce"])
def test_values(chosen: str) -> None:
    rng = np.random.default_rng(0)
    given = [rng.integers(-4, 4, shape).astype(np.float32) for shape in ((6, 5), (5, 4))]
    module = emu.sdy.parse(TEXT)
    emu.sdy.run_passes(module, make_pass(NAME, {"filter": chosen}))
    (got,) = on_devices(str(module), *given)
    np.testing.assert_array_equal(got, whole(TEXT, *given)[0])


def test_what_mixes_elements_with_padding_is_refused() -> None:
    text = f"""
sdy.mesh @m = <["x"=2]>
func.func @main(%a: tensor<5xf32>) -> tensor<5xf32> {{
  %0 = stablehlo.reverse %a, dims = [0] {sharded('{"x"}')} : tensor<5xf32>
  return %0 : tensor<5xf32>
}}"""
    with pytest.raises(emu.sdy.PassFailed, match="mixes elements along an uneven dimension"):
        operations(text, NAME)


@pytest.mark.parametrize("text", ["selectLow=a", "selectHigh=-1", "low=3", "selectLow=" + "9" * 30])
def test_filters_that_make_no_sense(text: str) -> None:
    with pytest.raises(emu.sdy.PassFailed, match="filter must have parts of names"):
        emu.sdy.run_passes(emu.sdy.parse(TEXT), make_pass(NAME, {"filter": text}))
