"""A reshape whose axes do not divide its factors, which ends Shardy itself."""

from __future__ import annotations

import emu.sdy

TEXT = """\
sdy.mesh @m = <["x"=3, "y"=8]>
func.func @main(%arg: tensor<4x3x8xf32>) -> (tensor<96xf32> {sdy.sharding = #sdy.sharding<@m, [{"x", "y"}]>}) {
  %0 = stablehlo.reshape %arg {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x", "y"}]>]>} : (tensor<4x3x8xf32>) -> tensor<96xf32>
  return %0 : tensor<96xf32>
}
"""


def test_both_sides_take_what_divides() -> None:
    module = emu.sdy.parse(TEXT)
    emu.sdy.run(module, "func.func(sdy-insert-explicit-reshards{enable-full-version=true})")
    text = str(module)
    assert "sdy.reshard %arg0" in text
    assert '#sdy.sharding_per_value<[<@m, [{"y":(1)4, "x"' in text
    assert text.count("sdy.reshard") == 2
