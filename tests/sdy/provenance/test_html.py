"""The page of an explanation: its data."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from sdy_explained import MLP

import emu.sdy
from emu.sdy.provenance.report import owner_text

PROGRAMS = Path(__file__).parents[1] / "costs" / "programs"


def data_of(page: str) -> dict[str, Any]:
    match = re.search(r"const data = (.*);\n", page)
    assert match is not None
    found: dict[str, Any] = json.loads(match[1])
    return found


def path_of(data: dict[str, Any], node: int) -> list[list[Any]]:
    path: list[list[Any]] = []
    while node >= 0:
        name, _, dim, step, cause, *_, node = data["nodes"][node]
        path.insert(0, [data["strings"][name], dim, step or None, data["strings"][cause]])
    return path


@pytest.mark.parametrize("name", ["mlp", "fully_sharded", "transformer_block", "ring_attention"])
def test_the_page_has_the_paths_of_the_reports(name: str) -> None:
    explanation = emu.sdy.explain((PROGRAMS / f"{name}.mlir").read_text())
    data = data_of(explanation.html())
    reports = list(explanation)
    assert [value["name"] for value in data["values"]] == [report.name.name for report in reports]
    for value, report in zip(data["values"], reports, strict=True):
        expected = [
            [
                dim,
                axis.stripped_text(),
                [[owner_text(s.value), s.dim, s.step, s.cause] for s in path],
            ]
            for dim, axes in enumerate(report.axes)
            for axis, path in axes
        ]
        found = [
            [dim, data["strings"][axis], path_of(data, node)] for dim, axis, node in value["axes"]
        ]
        assert found == expected
        refused = [data["strings"][each] for each in value["refused"]]
        assert len(refused) == len(report.rejections)
        assert all(each in str(report) for each in refused)


def test_steps_have_the_numbers_of_the_reports() -> None:
    explanation = emu.sdy.explain(MLP)
    data = data_of(explanation.html())
    assert len(data["steps"]) == len(explanation.recorder.steps)
    (report,) = explanation.value("%t")
    step = report.axes[0][0][1][-1].step
    assert f"[step {step}]" in str(report)
    number = [value["name"] for value in data["values"]].index("%t")
    changed = data["steps"][step - 1]["changes"]
    assert number in [each for each, _ in changed]
    # Replaying all steps ends at what the values have after propagation.
    now = [value["before"] for value in data["values"]]
    for each in data["steps"]:
        for place, sharding in each["changes"]:
            now[place] = sharding
    assert now == [value["after"] for value in data["values"]]


def test_arguments_have_the_names_of_the_front_end() -> None:
    data = data_of(emu.sdy.explain((PROGRAMS / "mlp.mlir").read_text()).html())
    labels = [data["strings"][value["label"]] for value in data["values"]]
    assert labels[:4] == ["x", "y", "w", "v"]
    assert {value["name"] for value in data["values"] if value["constant"]} >= {"%cst"}


def test_thousands_of_values_stay_small() -> None:
    lines = "".join(f"  %t{i + 1} = stablehlo.tanh %t{i} : tensor<8x32xf32>\n" for i in range(3000))
    text = (
        MLP.replace("%t =", "%t0 =").replace("  %s =", f"{lines}  %s =").replace("%t,", "%t3000,")
    )
    page = emu.sdy.explain(text).html()
    assert len(page) < 2_000_000
    data = data_of(page)
    assert len(data["values"]) == 3007
    assert len(data["nodes"]) < 3 * 3007
    assert len(path_of(data, data["values"][-2]["axes"][0][2])) > 3000


def test_the_cost_is_data_or_a_reason() -> None:
    explanation = emu.sdy.explain(MLP)
    cost = emu.sdy.cost(MLP)
    assert data_of(explanation.html())["cost"] is None
    assert data_of(explanation.html(cost="why"))["cost"] == "why"
    assert data_of(explanation.html(cost=cost))["cost"] == json.loads(cost.to_json())
    with pytest.raises(emu.sdy.ArgumentError, match=r"cost must be a Cost of emu\.sdy\.cost"):
        explanation.html(cost=3)  # type: ignore[arg-type]  # wrong on purpose


def test_texts_of_the_module_cannot_end_the_script() -> None:
    text = MLP.replace('"data"', '"</script><b>"')
    page = emu.sdy.explain(text).html()
    assert page.count("</script>") == 1
    assert data_of(page)["meshes"][0]["axes"][0][0] == "</script><b>"


def test_the_page_names_no_other_file() -> None:
    page = emu.sdy.explain(MLP).html()
    assert re.findall(r"(?:src|href)=|@import|url\(", page) == []
    assert set(re.findall(r"https?://[^\"' ]*", page)) == {"http://www.w3.org/2000/svg"}
