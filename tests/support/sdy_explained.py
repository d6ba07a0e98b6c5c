"""Explanations for tests of their parts."""

from __future__ import annotations

import emu.sdy
from emu.sdy.provenance.names import name_of

MLP = """\
sdy.mesh @m = <["data"=4, "model"=2]>

func.func @main(
    %x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@m, [{"data"}, {}]>},
    %w: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {"model"}]>},
    %v: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %h = stablehlo.dot %x, %w : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %t = stablehlo.tanh %h : tensor<8x32xf32>
  %s = stablehlo.add %t, %v : tensor<8x32xf32>
  return %s : tensor<8x32xf32>
}
"""


def paths(report: emu.sdy.ValueReport) -> list[list[tuple[str, list[str]]]]:
    """By dimension: each axis with the names of the values on its path."""
    return [
        [(axis.name, [name_of(link.value).name for link in links]) for axis, links in axes]
        for axes in report.axes
    ]
