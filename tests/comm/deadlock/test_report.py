"""Reports of deadlocks as text, DOT and SVG."""

from __future__ import annotations

import dataclasses
from xml.etree import ElementTree

import pytest

from emu.comm.deadlock.report import Cause, Deadlock, EndedPE, Kind, WaitingPE, numbers

SVG = "{http://www.w3.org/2000/svg}"


def report(**changes: object) -> Deadlock:
    fields: dict[str, object] = {
        "is_proved": True,
        "timeout": 60.0,
        "waiting": (
            WaitingPE(0, 'barrier of group "<a>"', "a.py:1", (1,), needs_all=True),
            WaitingPE(1, "wait_until flags[0] EQ 1", "", (0, 2), needs_all=False),
        ),
        "ended": (EndedPE(2, "a.py:7 in f"),),
        "cycle": (0, 1),
        "missing": (),
        "causes": (Cause(Kind.BARRIER_AND_SIGNAL, (0, 1), "it crosses", "do not"),),
        "states": "  PE 0 waits\n  PE 1 waits\n  PE 2 has finished",
    }
    return Deadlock(**{**fields, **changes})  # type: ignore[arg-type] # of the fields' types


def test_the_text_has_cause_advice_cycle_and_states() -> None:
    assert report().text.splitlines() == [
        "deadlock: nobody can release PEs 0 and 1 any more",
        "  cause: it crosses",
        "    advice: do not",
        '  cycle: PE 0 (barrier of group "<a>") waits for PE 1 (wait_until flags[0] EQ 1) waits for PE 0',
        "  PE 0 waits",
        "  PE 1 waits",
        "  PE 2 has finished",
    ]
    late = report(is_proved=False, causes=(), cycle=())
    assert late.text.splitlines()[:2] == [
        "no progress for 60 s: every PE that could move another waits",
        "  PE 0 waits",
    ]


def test_a_report_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        report().timeout = 1.0  # type: ignore[misc] # that is what is tested


def test_dot_has_a_node_a_pe_and_an_arrow_a_wait() -> None:
    lines = report().to_dot().splitlines()
    assert lines[0] == "digraph deadlock {"
    assert lines[-1] == "}"
    assert r'  pe0 [label="PE 0\nbarrier of group \"<a>\""];' in lines
    assert r'  pe2 [label="PE 2\nended at a.py:7 in f", color=gray, fontcolor=gray];' in lines
    assert "  pe0 -> pe1 [color=red, penwidth=2];" in lines
    assert "  pe1 -> pe0 [style=dashed, color=red, penwidth=2];" in lines
    assert "  pe1 -> pe2 [style=dashed];" in lines


@pytest.mark.parametrize("n_pes", [1, 2, 3, 64])
def test_svg_is_well_formed_and_nodes_lie_inside_and_apart(n_pes: int) -> None:
    waiting = tuple(
        WaitingPE(pe, "barrier <&>", "", ((pe + 1) % n_pes,), needs_all=pe % 2 == 0)
        for pe in range(n_pes)
    )
    root = ElementTree.fromstring(
        report(waiting=waiting, ended=(), cycle=tuple(range(n_pes))).to_svg()
    )
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    circles = root.findall(f".//{SVG}circle")
    places = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in circles]
    radius = float(circles[0].attrib["r"])
    assert len(places) == n_pes
    assert all(radius <= x <= width - radius and radius <= y <= height - radius for x, y in places)
    for index, (x, y) in enumerate(places):
        for u, v in places[:index]:
            assert (x - u) ** 2 + (y - v) ** 2 > (2 * radius) ** 2
    arrows = [p for p in root.findall(f"{SVG}path") if "marker-end" in p.attrib]
    assert len(arrows) == n_pes
    titles = [t.text for t in root.findall(f".//{SVG}g/{SVG}title")]
    assert "PE 0: barrier <&>" in titles


def test_many_pes_are_named_by_the_first() -> None:
    assert numbers([3]) == "PE 3"
    assert numbers([0, 1]) == "PEs 0 and 1"
    assert numbers(list(range(12))) == "PEs 0, 1, 2, 3, 4, 5, 6, 7 and 4 more"


def test_of_many_any_of_which_would_do_few_arrows_are_drawn() -> None:
    waiting = tuple(
        WaitingPE(pe, "w", "", tuple(other for other in range(64) if other != pe), needs_all=False)
        for pe in range(64)
    )
    drawn = report(waiting=waiting, ended=(), cycle=(0, 63)).to_dot()
    assert drawn.count("->") <= 64 * 9
    assert "pe0 -> pe63 [style=dashed, color=red, penwidth=2];" in drawn
