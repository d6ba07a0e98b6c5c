"""The page of an explanation."""

from __future__ import annotations

import json
import re

from sdy_explained import MLP, paths

import emu.sdy
from emu.sdy.provenance.names import name_of


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
