"""The page of a trace in a real browser. Where none is installed, these tests are skipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browser import find_browser, run_page
from traces import repeated, training_loop

from emu.trace.page.html import to_html
from emu.trace.statistics.summary import statistics_of


@pytest.fixture(scope="module", autouse=True)
def browser() -> str:
    return find_browser()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(to_html(statistics_of(training_loop(4, 6)), "ring.emutrace"))
    return path


COMMON = """
const all = selector => [...document.querySelectorAll(selector)];
const texts = selector => all(selector).map(each => each.textContent);
const press = key => dispatchEvent(new KeyboardEvent('keydown', {key}));
const ink = target => { const copy = document.createElement('canvas'), seen = new Set(); copy.width = target.width; copy.height = target.height;
  const reader = copy.getContext('2d', {willReadFrequently: true}); reader.drawImage(target, 0, 0);
  const at = reader.getImageData(0, 0, copy.width, copy.height).data;
  for (let i = 0; i < at.length; i += 4) if (at[i + 3]) seen.add((at[i] << 16) + (at[i + 1] << 8) + at[i + 2]); return seen.size; };
"""


def test_figures_and_tables_are_those_of_the_trace(page: Path) -> None:
    found = run_page(
        page,
        COMMON
        + "return {cards: texts('.card b'), names: texts('.card span'), tabs: texts('#tabs button'), open: texts('#panels > div:not([hidden]) td'),"
        "warned: texts('#warnings p'), title: texts('h1'), keys: texts('.key'), ink: ink(canvas), map: ink(map), boxes: boxes.start.length};",
    )
    statistics = statistics_of(training_loop(4, 6))
    assert found["title"] == ["ring.emutrace"]
    assert found["names"] == [
        "whole time",
        "PEs",
        "busy",
        "only waiting",
        "communication hidden",
        "imbalance",
    ]
    assert found["cards"][1] == "4"
    assert found["cards"][5] == f"{statistics.imbalance:.2f}"
    assert found["tabs"][0] == "Critical path"
    assert statistics.path_rows[0].name in found["open"]
    assert found["warned"] == []
    assert "kernel" in found["keys"]
    assert found["ink"] > 20
    assert found["map"] > 5
    counters = 4 * 6
    assert found["boxes"] == len(statistics.columns.start) - counters


def test_time_is_zoomed_and_moved_by_keys_and_wheel(page: Path) -> None:
    found = run_page(
        page,
        COMMON
        + """
        const at = [], note = () => at.push([view.start, view.length]);
        note(); press('+'); note(); press('ArrowRight'); note(); canvas.focus(); press('ArrowRight'); note(); press('f'); note();
        canvas.dispatchEvent(new WheelEvent('wheel', {deltaY: -100, clientX: 600, clientY: 200, cancelable: true})); note();
        for (let i = 0; i < 200; i++) zoom(0.5); note();
        for (let i = 0; i < 200; i++) zoom(2); note();
        return {at, whole};""",
    )
    whole = found["whole"]
    begin, zoomed, ignored, moved, fitted, wheeled, nearest, farthest = found["at"]
    assert begin[1] == pytest.approx(1.02 * whole)
    assert zoomed[1] == pytest.approx(0.6 * begin[1])
    assert ignored == zoomed  # arrows are the page's until the timeline has the focus
    assert moved[0] > zoomed[0]
    assert fitted == begin
    assert wheeled[1] < fitted[1]
    assert nearest[1] == 20
    assert farthest[1] <= 1.05 * whole


def test_events_are_found_under_the_mouse_chosen_and_described(page: Path) -> None:
    found = run_page(
        page,
        COMMON
        + """
        const i = boxes.kind.findIndex(kind => KINDS[kind] === 'SIGNAL'), lane = lane_of(i), width = canvas.clientWidth;
        show(boxes.start[i] - 3000, 10000); draw();
        const x = to_x(boxes.start[i] + boxes.length[i] / 2, width), y = lane_top[lane] + 4 - view.top;
        const hit_box = box_at(x, y);
        const rect = canvas.getBoundingClientRect();
        for (const type of ['pointerdown', 'pointerup']) canvas.dispatchEvent(new PointerEvent(type, {clientX: rect.left + x, clientY: rect.top + y, pointerId: 1}));
        const chosen_text = byId('chosen').textContent;
        point_at(i, {clientX: 100, clientY: 100});
        const tip = byId('tip').textContent, outside = box_at(2, 2);
        press('.'); const after = chosen;
        return {i, hit_box, chosen_text, tip, outside, after};""",
    )
    assert found["hit_box"] == found["i"]
    assert found["outside"] == -1
    assert "put_signal" in found["chosen_text"]
    assert "to PE 1" in found["chosen_text"]
    assert "exchange.py:21" in found["tip"]
    assert found["after"] == found["i"] + 1


def test_a_search_counts_fades_and_goes_to_what_it_found(page: Path) -> None:
    found = run_page(
        page,
        COMMON
        + """
        search('softmax'); const count = byId('found').textContent; const many_inks = ink(canvas);
        next_hit(1); const first = data.sites[boxes.site[chosen]][0], seen = view.start <= boxes.start[chosen] && boxes.end[chosen] <= view.start + view.length;
        next_hit(1); const second = chosen; next_hit(-1);
        const back = chosen; search('exchange.py barrier'); const none = byId('found').textContent; search('wait pe'); search('');
        return {count, first, seen, moved: second !== back, none, empty: byId('found').textContent};""",
    )
    assert found == {
        "count": "24 events",
        "first": "softmax",
        "seen": True,
        "moved": True,
        "none": "0 events",
        "empty": "",
    }


def test_the_critical_path_leads_from_its_table_to_its_place(page: Path) -> None:
    found = run_page(
        page,
        COMMON
        + """
        const rows = all('#panel-path tbody tr'); rows[0].onclick(); draw();
        const name = data.sites[boxes.site[chosen]][0], seen = boxes.start[chosen] >= view.start && boxes.end[chosen] <= view.start + view.length;
        const with_path = ink(canvas); byId('show-path').checked = false; draw();
        return {name, seen, cell: rows[0].cells[4].textContent, sum: path.length.reduce((a, b) => a + b, 0), whole, rows: rows.length, with_path, without: ink(canvas)};""",
    )
    assert found["name"] == found["cell"]
    assert found["seen"]
    assert found["sum"] == found["whole"]
    assert found["rows"] > 3
    assert found["with_path"] > found["without"]


def test_the_matrix_shows_what_moved(page: Path) -> None:
    found = run_page(
        page,
        COMMON
        + """
        byId('tab-matrix').onclick();
        const heat = byId('heat'), box = heat.getBoundingClientRect();
        heat.onpointermove({offsetX: 34 + 54 * 1.5, offsetY: 34 + 54 * 0.5});
        return {say: all('#panel-matrix .mono')[0].textContent, rows: texts('#panel-matrix tbody td').slice(0, 3), ink: ink(heat), height: box.height};""",
    )
    assert found["say"].startswith("PE 0 → PE 1: 3 MiB in 12 calls")
    assert found["rows"][0] == "PE 0 → PE 1"
    assert found["ink"] > 3


def test_pes_fold_and_threads_have_names(page: Path) -> None:
    found = run_page(
        page,
        COMMON
        + "const before = total_height; fold(1); const folded_height = total_height; fold(1);"
        "press('e'); const all_folded = total_height; press('e'); return {before, folded_height, all_folded, after: total_height, threads: rows[0].threads.map(each => data.threads[each[0]])};",
    )
    assert found["folded_height"] < found["before"]
    assert found["all_folded"] < found["folded_height"]
    assert found["after"] == found["before"]
    assert found["threads"] == ["program", "server", "tasks", "backward"]


def test_dark_and_light_have_other_colours(page: Path) -> None:
    found = run_page(
        page,
        COMMON
        + "const of = () => getComputedStyle(document.body).backgroundColor; set_theme(false); const light = of(), a = colours[1]; set_theme(true);"
        "return {light, dark: of(), a, b: colours[1]};",
    )
    assert found["light"] == "rgb(255, 255, 255)"
    assert found["dark"] != found["light"]
    assert found["a"] != found["b"]


@pytest.mark.parametrize("size", [(1280, 900), (390, 844)], ids=["desktop", "phone"])
def test_nothing_runs_over_the_edge(page: Path, size: tuple[int, int]) -> None:
    found = run_page(
        page,
        COMMON
        + """
        const boxes_ = all('.card, h1, header, #tools, #search, canvas, #tabs button, #panels > div:not([hidden]) p, #chosen')
          .map(each => each.getBoundingClientRect()).filter(box => box.width);
        return {width: innerWidth, page: document.documentElement.scrollWidth, right: Math.max(...boxes_.map(box => box.right))};""",
        size=size,
    )
    assert found["page"] <= found["width"]
    assert found["right"] <= found["width"]


def test_a_hundred_thousand_events_are_drawn_fast_and_joined_below_a_pixel(tmp_path: Path) -> None:
    trace = repeated(training_loop(8, 20), 60)
    path = tmp_path / "page.html"
    path.write_text(to_html(statistics_of(trace), "big.emutrace"))
    found: Any = run_page(
        path,
        COMMON
        + """
        const took = [];
        for (let i = 0; i < 8; i++) { const begun = performance.now(); draw_lines(); took.push(performance.now() - begun); }
        const many_boxes = boxes.start.length, far = drawn; zoom(0.0005); draw_lines();
        return {took: took.sort((a, b) => a - b)[4], many_boxes, far, near: drawn, warned: texts('#warnings p')};""",
    )
    assert found["many_boxes"] > 100_000
    assert found["far"] < 60_000
    assert 10 < found["near"] < 20_000
    assert found["took"] < 400  # without a GPU, on a machine that does other things
    assert found["warned"] == []


def test_a_page_says_what_is_missing(tmp_path: Path) -> None:
    trace = repeated(training_loop(2, 10), 20)
    cut = type(trace)(trace.meta, trace.sites, trace.events, None, (0, 3))
    path = tmp_path / "page.html"
    path.write_text(to_html(statistics_of(cut), "cut.emutrace", 500))
    stops, lost, joined = run_page(path, COMMON + "return texts('#warnings p');")
    assert "stops before the run had ended" in stops
    assert lost.startswith("3 events were lost")
    assert "are joined" in joined
