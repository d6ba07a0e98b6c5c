"""The page of an explanation in a real browser. Where none is installed, these tests are skipped."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import find_browser, run_page
from sdy_explained import MLP

import emu.sdy

PROGRAMS = Path(__file__).parents[1] / "costs" / "programs"


@pytest.fixture(scope="module", autouse=True)
def browser() -> str:
    return find_browser()


@pytest.fixture
def page(tmp_path: Path) -> Path:
    text = (PROGRAMS / "mlp.mlir").read_text()
    path = tmp_path / "page.html"
    path.write_text(emu.sdy.explain(text).html(cost=emu.sdy.cost(text)))
    return path


COMMON = """
const all = selector => [...document.querySelectorAll(selector)];
const texts = selector => all(selector).map(each => each.textContent);
const type = words => { byId("search").value = words; byId("search").oninput(); };
const choose_filter = name => { byId("filter").value = name; byId("filter").onchange(); };
"""


def test_reasons_and_figures_name_dimensions_axes_and_steps(page: Path) -> None:
    found = run_page(
        page,
        COMMON
        + "return {why: texts('#why li'), figures: texts('figcaption'), drawn: texts('figure'),"
        "number: byId('number').textContent, what: byId('what').textContent, title: texts('h2')[0],"
        "top: byId('why').getBoundingClientRect().top};",
        at="value=%251&step=33",
    )
    assert found["title"] == "%1 : tensor<16x32xf32>"
    (report,) = emu.sdy.explain((PROGRAMS / "mlp.mlir").read_text()).value("%1")
    step = report.axes[0][0][1][-1].step
    assert found["why"][0].startswith('dim 0 (size 16) is sharded along "data": by stablehlo.tanh')
    assert f"[step {step}], from x (%arg0 in @main) dim 0 (given)" in found["why"][0]
    assert found["figures"] == ["before", "at step 33", "after"]
    assert "dim 0 (16) over data=2" in found["drawn"][2]
    assert "dim 1 (32) over model=4" in found["drawn"][2]
    assert "data=1" in found["drawn"][2]
    assert "model=3" in found["drawn"][2]
    assert "no sharding" in found["drawn"][0]
    assert found["number"].startswith("step 33 of ")
    assert found["top"] < 300  # the reason is seen without scrolling


def test_steps_go_forward_and_back(page: Path) -> None:
    found = run_page(
        page,
        COMMON
        + """
        const seen = [];
        const note = () => seen.push([byId("number").textContent, now.slice()]);
        slider.value = 0; slider.oninput(); note();
        const changes = [];
        for (let n = 0; n < 60; n++) { byId("on").onclick(); changes.push(changedNow().size); }
        note();
        for (let n = 0; n < 60; n++) byId("back").onclick();
        note();
        slider.value = slider.max; slider.oninput(); note();
        return {seen, changes, before: data.values.map(v => v.before), after: data.values.map(v => v.after),
                steps: data.steps.length, marked: texts('.row.changed').length};""",
    )
    first, end, back, last = found["seen"]
    assert first == back == [f"step 0 of {found['steps']}", found["before"]]
    assert end == last == [f"step {found['steps']} of {found['steps']}", found["after"]]
    assert sum(found["changes"]) > 10


def test_search_filters_and_folded_constants(page: Path) -> None:
    found = run_page(
        page,
        COMMON
        + """
        const count = () => byId("count").textContent;
        const result = {all: count(), names: texts('.row .name').slice(0, 4), rows: texts('.row').slice(1, 3)};
        byId("constants").checked = true; byId("constants").onchange();
        result.constants = count();
        type("tanh"); result.tanh = texts('.row .op');
        type("make.py:35 model"); result.line = texts('.row').length;
        type("nothing of the kind"); result.none = texts('.row').length;
        type(""); choose_filter("arguments"); result.arguments = texts('.row .op');
        choose_filter("changed"); result.changed = texts('.row .name').length;
        return result;""",
    )
    values = list(emu.sdy.explain((PROGRAMS / "mlp.mlir").read_text()))
    constants = sum(v.operation == "stablehlo.constant" for v in values)
    assert found["all"] == (
        f"{len(values) - constants} of {len(values)} values; {constants} constants are folded away"
    )
    assert found["names"] == ["%arg0", "%arg1", "%arg2", "%arg3"]
    assert found["rows"][0].split() == ["%arg0", "x", 'argument[{"data"},', "{}]"]
    assert found["constants"] == f"{len(values)} of {len(values)} values"
    assert found["tanh"]
    assert all("tanh" in each for each in found["tanh"])
    assert found["line"] > 2
    assert found["none"] == 0
    assert {each.strip() for each in found["arguments"]} == {"argument", "result"}
    assert found["changed"] == 1


def test_the_cost_has_its_causes_and_leads_to_values(page: Path) -> None:
    found = run_page(
        page,
        COMMON
        + """
        const rows = texts('#cost .tall tbody tr'), cards = texts('.card');
        const shown = !byId('cost').hidden && byId('values').hidden;
        all('#cost .tall a.value')[1].onclick();
        return {rows, cards, shown, title: texts('h2')[0], number: byId('number').textContent,
                back: byId('cost').hidden};""",
        at="view=cost",
    )
    cost = emu.sdy.cost((PROGRAMS / "mlp.mlir").read_text())
    assert found["shown"]
    assert found["back"]
    assert len(found["rows"]) == len(cost.collectives)
    assert any("communication" in card and "16 us" in card for card in found["cards"])
    longest = max(cost.collectives, key=lambda each: each.total_seconds)
    assert longest.value in found["rows"][0]
    assert longest.place in found["rows"][0]
    (source,) = longest.sources
    assert f"[step {source.step}]" in found["rows"][0]
    assert found["title"].split()[0] == source.value.split()[0]
    assert found["number"].startswith(f"step {source.step} of ")


def test_a_module_without_a_cost_says_why(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(emu.sdy.explain(MLP).html(cost="it cannot be partitioned"))
    found = run_page(path, COMMON + "return texts('#cost p');", at="view=cost")
    assert found == ["it cannot be partitioned"]
    path.write_text(emu.sdy.explain(MLP).html())
    assert run_page(path, "return byId('tab-cost').hidden;") is True


@pytest.mark.parametrize("size", [(1280, 900), (390, 844)], ids=["desktop", "phone"])
@pytest.mark.parametrize("view", ["values", "cost"])
def test_nothing_runs_over_the_edge(page: Path, size: tuple[int, int], view: str) -> None:
    found = run_page(
        page,
        COMMON
        + """
        const boxes = all('#why li, figure, .card, h2, header, #count, #filters, #cost .tall td')
          .map(each => each.getBoundingClientRect()).filter(box => box.width);
        return {width: innerWidth, page: document.documentElement.scrollWidth,
                right: Math.max(...boxes.map(box => box.right)), boxes: boxes.length,
                small: Math.min(...all('body *').filter(each => each.childElementCount === 0
                  && each.textContent.trim() && !each.closest('svg') && each.getClientRects().length)
                  .map(each => parseFloat(getComputedStyle(each).fontSize)))};""",
        at=f"value=%251&view={view}",
        size=size,
    )
    assert found["page"] <= found["width"]
    assert found["right"] <= found["width"]
    assert found["boxes"] > 5
    assert found["small"] >= 12


def test_thousands_of_values_are_not_all_in_the_page(tmp_path: Path) -> None:
    lines = "".join(f"  %t{i + 1} = stablehlo.tanh %t{i} : tensor<8x32xf32>\n" for i in range(3000))
    text = (
        MLP.replace("%t =", "%t0 =").replace("  %s =", f"{lines}  %s =").replace("%t,", "%t3000,")
    )
    path = tmp_path / "page.html"
    path.write_text(emu.sdy.explain(text).html())
    found = run_page(
        path,
        COMMON
        + """
        const chosen_row = texts('.row.chosen .name');
        list.scrollTop = 40 * 1500; list.onscroll();
        const middle = texts('.row .name');
        return {chosen_row, middle, elements: all('body *').length, height: list.scrollHeight};""",
        at="value=%25t2900",
    )
    assert found["chosen_row"] == ["%t2900"]
    assert "%t1500" in found["middle"]
    assert found["elements"] < 1500
    assert found["height"] > 3000 * 40


@pytest.mark.parametrize(
    ("sharding", "across", "down"),
    [
        ('[{"data"}, {"model"}]', ["model=0", "model=1"], ["data=0", "data=1"]),
        ('[{"model", "data"}, {}]', [], ["model=1 data=3"]),
        ('[{}, {"data":(2)2}]', ['data:(2)2=0', 'data:(2)2=1'], []),
    ],
)  # fmt: skip
def test_figures_name_the_axes_across_and_down(
    tmp_path: Path, sharding: str, across: list[str], down: list[str]
) -> None:
    path = tmp_path / "page.html"
    path.write_text(emu.sdy.explain(MLP.replace('[{"data"}, {}]', sharding)).html())
    drawn = run_page(path, COMMON + "return texts('figure:first-child svg text');", at="value=%25x")
    assert set(across) | set(down) <= set(drawn)
