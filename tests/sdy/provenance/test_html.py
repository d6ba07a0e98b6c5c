"""The page of an explanation."""

from __future__ import annotations

import json
import re

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


def test_the_page_shows_the_end_of_a_long_path() -> None:
    steps = "".join(f"  %t{i + 1} = stablehlo.tanh %t{i} : tensor<8x32xf32>\n" for i in range(20))
    text = MLP.replace("%t =", "%t0 =").replace("  %s =", f"{steps}  %s =").replace("%t,", "%t20,")
    explanation = emu.sdy.explain(text)
    (report,) = explanation.value("%t20")
    _, names = paths(report)[0][0]
    assert names == ["%x", "%h", *(f"%t{i}" for i in range(21))]
    assert [name_of(link.value).name for link in report.paths(3)[0][0][1]] == names[-3:]
    data = re.search(r"const data = (.*);", explanation.html())
    (why,) = [v["why"] for v in json.loads(data[1])["values"] if v["name"] == "%t20"]
    assert "(as it came to %t9 in @main)" in why
    assert "%t8" not in why
