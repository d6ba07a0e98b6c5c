"""Reports as files: deadlocks beside what checks have found."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import emu
from emu.check import Access, Race
from emu.check.deadlock import Deadlock, deadlock_of, deadlocks_of
from emu.check.report_files import write_reports
from emu.comm.errors import DeadlockError


def crossed_groups() -> None:
    world = emu.world()
    low, high = world.group("low", [0, 1]), world.group("high", [1, 0])
    (high if world.my_pe else low).barrier()


def one_returns() -> None:
    world = emu.world()
    if world.my_pe == 1:
        return
    world.barrier()


def waits_for_nobody() -> None:
    world = emu.world()
    flags = world.alloc(2, np.int32, name="flags <&>")
    if world.my_pe < 2:
        world.wait_until(flags, emu.Cmp.EQ, 1)


def deadlock_from(program: Callable[[], None], n_pes: int) -> Deadlock:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(program, n_pes)
    found = deadlock_of(caught.value)
    assert found is not None
    assert deadlocks_of(caught.value) == (found,)  # though several PEs have raised
    return found


def race() -> Race:
    side = Access(0, "put", "writes", __file__, 1)
    return Race(side, side, 0, "x", 0, 4, "element 0", "no order", "a barrier")


def test_json_has_the_graph_as_nodes_and_edges(tmp_path: Path) -> None:
    found = deadlock_from(crossed_groups, 2)
    write_reports(tmp_path / "found.json", (found, race()))
    data, other = json.loads((tmp_path / "found.json").read_text())["reports"]
    assert other["kind"] == "race"
    assert (data["kind"], data["is_proved"], data["cycle"]) == ("deadlock", True, [0, 1])
    assert [cause["kind"] for cause in data["causes"]] == ["CROSSED_GROUPS"]
    assert data["text"] == found.text
    assert [(node["pe"], node["state"]) for node in data["nodes"]] == [(0, "waits"), (1, "waits")]
    assert data["nodes"][0]["what"] == found.waiting[0].what
    edges = {(edge["from"], edge["to"], edge["needs"], edge["in_cycle"]) for edge in data["edges"]}
    assert edges == {(0, 1, "all", True), (1, 0, "all", True)}
    assert [each["at"] for each in data["waiting"]] == [each.at for each in found.waiting]


def test_a_missing_party_is_a_node_that_has_ended(tmp_path: Path) -> None:
    found = deadlock_from(one_returns, 3)
    write_reports(tmp_path / "found.json", (found,))
    (data,) = json.loads((tmp_path / "found.json").read_text())["reports"]
    assert data["missing"] == [1]
    states = {node["pe"]: node["state"] for node in data["nodes"]}
    assert states == {0: "waits", 1: "ended", 2: "waits"}
    assert {(edge["from"], edge["to"]) for edge in data["edges"]} >= {(0, 1), (2, 1)}


def test_any_of_several_could_release_a_wait(tmp_path: Path) -> None:
    found = deadlock_from(waits_for_nobody, 3)
    write_reports(tmp_path / "found.json", (found,))
    (data,) = json.loads((tmp_path / "found.json").read_text())["reports"]
    assert {edge["needs"] for edge in data["edges"]} == {"any"}


def test_a_page_has_the_picture_the_causes_and_the_lines(tmp_path: Path) -> None:
    found = deadlock_from(waits_for_nobody, 3)
    page = tmp_path / "found.html"
    write_reports(page, (found, race()))
    text = page.read_text()
    assert "2 problems found" in text
    (svg,) = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    picture = ElementTree.fromstring(svg)
    titles = [node.text for node in picture.iter() if node.text and node.text.startswith("PE ")]
    assert {title[:4] for title in titles} == {"PE 0", "PE 1", "PE 2"}
    assert not re.search(r"(src|href)\s*=|@import|url\((?!#)", text)  # it needs nothing else
    assert "flags &lt;&amp;&gt;" in text
    assert found.causes
    assert found.causes[0].kind.value in text
    (line,) = re.findall(
        r"<mark>(.*?)</mark>",
        text.split("<strong>PE 0 waits in")[1].split("<strong>")[0],
        re.DOTALL,
    )
    assert "world.wait_until(flags, emu.Cmp.EQ, 1)" in line


def test_the_same_deadlock_is_written_once(tmp_path: Path) -> None:
    one, other = (deadlock_from(crossed_groups, 2) for _ in range(2))
    error = ExceptionGroup("both", [_error(one), _error(other)])
    assert deadlocks_of(error) == (one,)
    write_reports(tmp_path / "found.json", (one, other, race(), race()))
    reports = json.loads((tmp_path / "found.json").read_text())["reports"]
    assert [report["kind"] for report in reports] == ["deadlock", "race"]


def _error(found: Deadlock) -> DeadlockError:
    error = DeadlockError(found.text)
    error.deadlock = found
    return error


SCRIPT = """
import numpy as np, emu
world = emu.world()
data = world.alloc(4, np.float32, name="data")
world.put(data, np.ones(4, np.float32), 0)
if world.my_pe == 0:
    world.barrier()
"""


@pytest.mark.parametrize("options", [(), ("--check", "race")])
def test_the_command_writes_deadlocks_and_ends_with_status_3(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    script, report = tmp_path / "stuck.py", tmp_path / "report.json"
    script.write_text(SCRIPT)
    ended = subprocess.run(
        [sys.executable, "-m", "emu", "run", "-n", "2", *options, "--report", report, script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 3, ended.stderr
    reports = json.loads(report.read_text())["reports"]
    assert [r["kind"] for r in reports] == ["deadlock", *["race"] * bool(options)]
    assert reports[0]["missing"] == [1]
