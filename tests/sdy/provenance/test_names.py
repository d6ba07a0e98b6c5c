"""Names of values in explanations."""

from __future__ import annotations

import pytest
from sdy_explained import MLP, paths

import emu.sdy


def test_values_of_one_name_in_regions_beside_each_other() -> None:
    text = """\
sdy.mesh @m = <["data"=4]>

func.func @main(%i: tensor<i32>, %x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"data"}]>},
    %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = "stablehlo.case"(%i) ({
    %in = stablehlo.tanh %x : tensor<8xf32>
    stablehlo.return %in : tensor<8xf32>
  }) : (tensor<i32>) -> tensor<8xf32>
  %b = "stablehlo.case"(%i) ({
    %in = stablehlo.negate %y : tensor<8xf32>
    stablehlo.return %in : tensor<8xf32>
  }) : (tensor<i32>) -> tensor<8xf32>
  return %a, %b : tensor<8xf32>, tensor<8xf32>
}
"""
    first, second = emu.sdy.explain(text).value("%in")
    assert (first.operation, second.operation) == ("stablehlo.tanh", "stablehlo.negate")
    assert paths(first) == [[("data", ["%x", "%in"])]]
    assert paths(second) == []


def test_names_are_those_of_the_text_or_of_the_printed_module() -> None:
    by_text = emu.sdy.explain(MLP)
    values = ["%x", "%w", "%v", "%h", "%t", "%s"]
    assert [name.name for name in by_text.names] == [*values, "result#0"]
    by_module = emu.sdy.explain(emu.sdy.parse(MLP))
    printed = ["%arg0", "%arg1", "%arg2", "%0", "%1", "%2"]
    assert [n.name for n in by_module.names] == [*printed, "result#0"]
    with pytest.raises(ValueError, match=r"no value is called '%nothing'; there are %x, %w"):
        by_text.value("nothing")
    with pytest.raises(ValueError, match=r"no value is called '%t' in @other"):
        by_text.value("%t", "other")
