"""Concatenations of partial sums."""

from __future__ import annotations

import emu.sdy

TEXT = """\
sdy.mesh @m = <["x"=2, "y"=3]>
func.func @main(%a: tensor<16xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}], unreduced={"y"}>}) -> (tensor<32xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}) {
  %0 = stablehlo.concatenate %a, %a, dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}]>]>} : (tensor<16xf32>, tensor<16xf32>) -> tensor<32xf32>
  return %0 : tensor<32xf32>
}
"""


def test_operands_that_were_partial_sums_differ_from_the_result() -> None:
    module = emu.sdy.parse(TEXT)
    emu.sdy.run_passes(module, "func.func(sdy-insert-explicit-reshards)")
    names = [op.name for op in module.walk() if op.dialect in {"sdy", "stablehlo"}]
    assert names[1:] == [
        "sdy.all_reduce",
        "sdy.all_reduce",
        "sdy.reshard",
        "sdy.reshard",
        "stablehlo.concatenate",
        "sdy.reshard",
    ]
