"""Reports about values."""

from __future__ import annotations

import re

from sdy_explained import MLP

import emu.sdy


def test_the_results_of_functions_have_paths_too() -> None:
    (report,) = emu.sdy.explain(MLP).value("result#0")
    assert report.operation == "result"
    assert report.before is None
    assert [[axis.name for axis, _ in way] for way in report.axes] == [["data"], ["model"]]
    assert "-> result 0 of @main dim 1: result of the function, factor j" in str(report)


def test_a_table_of_all_values() -> None:
    text = str(emu.sdy.explain(MLP))
    assert text.splitlines()[-1].startswith("7 values, ")
    assert re.search(r"^%h in @main +stablehlo.dot +<@m", text, re.MULTILINE)
