"""What a page holds: boxes that are joined lose nothing but their edges, columns are read as they were written."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces import SITES, random_traces, repeated, trace_of, training_loop

from emu.trace.events import Kind, Site, Thread
from emu.trace.page.boxes import arrows_of, boxes_of
from emu.trace.page.data import column, data_of
from emu.trace.page.html import to_html
from emu.trace.reading import Trace
from emu.trace.statistics.summary import statistics_of


def read_column(text: str) -> list[int]:
    """Read a column slowly, as the page does."""
    found, value, shift = [], 0, 0
    for byte in base64.b64decode(text):
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            found.append(-((value + 1) >> 1) if value & 1 else value >> 1)
            value = shift = 0
    return found


@settings(deadline=None)
@given(st.lists(st.integers(-(2**62), 2**62), max_size=30))
def test_a_column_is_read_as_it_was_written(values: list[int]) -> None:
    assert read_column(column(np.array(values, np.int64))) == values


def test_a_long_column_is_whole() -> None:
    values = np.arange(200_000) ** 2 - 5
    assert read_column(column(values)) == values.tolist()


@settings(deadline=None)
@given(random_traces(), st.integers(1, 12))
def test_boxes_hold_every_event_once(trace: Trace, most: int) -> None:
    found = statistics_of(trace)
    boxes = boxes_of(found, most)
    columns = found.columns
    drawn = np.flatnonzero(columns.kind != Kind.COUNTER)
    assert boxes.count.sum() == len(drawn)
    assert boxes.first[-1] == len(boxes.start) if len(drawn) else len(boxes.start) == 0
    alone = boxes.event[boxes.count == 1]
    assert len(set(alone.tolist())) == len(alone)
    for i in range(len(boxes.start)):
        event = boxes.event[i]
        start, end = columns.start[event] - columns.origin, columns.end[event] - columns.origin
        if boxes.count[i] == 1:
            assert (boxes.start[i], boxes.end[i]) == (start, end)
        else:
            assert boxes.start[i] <= start
            assert end <= boxes.end[i]
            assert end - start < boxes.shorter
    if not boxes.shorter:
        assert sorted(boxes.event.tolist()) == drawn.tolist()


def test_boxes_of_a_lane_do_not_overlap() -> None:
    boxes = boxes_of(statistics_of(training_loop(3, 4)), 10_000)
    for low, high in zip(boxes.first, boxes.first[1:], strict=False):
        assert (boxes.end[low : high - 1] <= boxes.start[low + 1 : high]).all()


def test_what_is_too_much_for_a_page_is_joined_and_said() -> None:
    found = statistics_of(repeated(training_loop(4, 10), 40))
    boxes = boxes_of(found, 2000)
    assert len(boxes.start) <= 2000
    assert boxes.shorter > 0
    data = data_of(found, "t", 2000)
    assert data["shorter"] == boxes.shorter
    assert data["events"] == len(found.columns.start)


def test_arrows_go_from_who_was_waited_for() -> None:
    found = statistics_of(training_loop(3, 1))
    arrows = arrows_of(found, 100)
    kinds = found.columns.kind
    pairs = {
        (Kind(int(kinds[a])), Kind(int(kinds[b])))
        for a, b in zip(arrows.source, arrows.target, strict=True)
    }
    assert (Kind.SIGNAL, Kind.WAIT) in pairs
    assert (Kind.COLLECTIVE, Kind.COLLECTIVE) in pairs
    assert (arrows.start <= arrows.end).all()
    few = arrows_of(found, 2)
    assert (len(few.start), few.left_out) == (2, len(arrows.start) - 2)


def test_a_name_cannot_end_the_script_of_the_page() -> None:
    sites = [[Site("</script><script>alert(1)</script>", "<b>.py", 1)]]
    rows = [[(0, 5, 0, 0, 0, int(Kind.OP), int(Thread.PROGRAM), -1)]]
    page = to_html(statistics_of(trace_of(rows, sites)), "<i>title</i>")
    assert page.count("</script>") == 1
    assert "<i>title" not in page
    assert "(TITLE)" not in page
    assert "/*" not in re.sub(r"(?s)<style>.*?</style>|/\*.*?\*/", "", page)


def test_a_page_asks_for_nothing_from_a_network() -> None:
    page = to_html(statistics_of(training_loop(2, 1)), "t")
    assert not re.findall(r"(?:src|href)\s*=|@import|url\(|fetch\(|https?://", page)


def test_the_data_of_a_page_is_json_without_surprises() -> None:
    data = data_of(statistics_of(training_loop(2, 1)), "t")
    assert json.loads(json.dumps(data, allow_nan=False))["n_pes"] == 2
    assert read_column(data["boxes"]["count"]) == [1] * len(read_column(data["boxes"]["kind"]))


@pytest.mark.parametrize("rows", [[[]], [[], []]])
def test_a_trace_without_events_has_a_page(rows: list[list[object]]) -> None:
    assert "<canvas" in to_html(statistics_of(trace_of(rows, [SITES] * len(rows))), "t")  # type: ignore[arg-type]


def test_the_page_is_made_of_parts_of_bearable_size() -> None:
    for part in (Path(__file__).parents[3] / "emu/trace/page").iterdir():
        if part.suffix in (".js", ".css", ".html"):
            assert len(part.read_text().splitlines()) < 600
