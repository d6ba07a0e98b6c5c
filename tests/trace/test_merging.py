"""One trace of the parts that hosts have recorded."""

from __future__ import annotations

from pathlib import Path

import made_traces
import numpy as np
import pytest

from emu.trace.errors import TraceFileError
from emu.trace.events import EVENT, Kind, Site, Thread
from emu.trace.format import TraceWriter
from emu.trace.merging import merge
from emu.trace.reading import read_trace

BEFORE = 5_000_000_000
"""By how much the second host's clock is before the first's."""


def part(path: Path, host: int, status: str = "ok") -> bytes:
    """Return what a host records that has one of the two PEs."""
    meta = {"n_pes": 2, "command": ["x"], "clock": 500, "host": f"h{host}", "pes_per_host": 2}
    rows = np.array(made_traces.ROWS[host], EVENT)
    rows["start"] += BEFORE * host
    with TraceWriter(path, meta) as writer:
        writer.sites(host, made_traces.SITES[host])
        writer.events(host, rows)
        if status != "ok":  # it is said at PE 0, of whatever host that is
            event = np.zeros(1, EVENT)
            event["start"], event["kind"] = 8_000 + BEFORE * host, Kind.INSTANT
            event["site"] = 0 if host else len(made_traces.SITES[0])
            writer.sites(0, [Site("end", details={"text": status})])
            writer.events(0, event)
        writer.end(status, 20_000, [3 * (host == 0), 4 * host])
    return path.read_bytes()


def test_events_of_all_hosts_are_on_the_clock_of_the_first(tmp_path: Path) -> None:
    parts = [part(tmp_path / f"{host}.emutrace", host) for host in (0, 1)]
    files = [tmp_path / "all.json", tmp_path / "all.emutrace"]
    merge(parts, [0, BEFORE], files, 1)
    found, expected = read_trace(files[1]), read_trace(made_traces.write(tmp_path / "x.emutrace"))
    assert found.sites == expected.sites
    for got, wanted in zip(found.events, expected.events, strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert (found.status, found.lost) == ("ok", (3, 4))
    assert found.meta["hosts"] == ["h0", "h1"]
    assert found.meta["pes_per_host"] == 1
    assert files[0].exists()


def test_the_file_between_is_not_kept_where_nobody_wants_it(tmp_path: Path) -> None:
    parts = [part(tmp_path / f"{host}.emutrace", host) for host in (0, 1)]
    merge(parts, [0, BEFORE], [tmp_path / "all.json"], 1)
    assert sorted(path.name for path in tmp_path.glob("all*")) == ["all.json"]


def test_what_ended_the_run_is_said_by_each_host(tmp_path: Path) -> None:
    parts = [
        part(tmp_path / f"{host}.emutrace", host, status)
        for host, status in enumerate(("stopped by host 1", "PE 1 raised ValueError"))
    ]
    merge(parts, [0, BEFORE], [tmp_path / "all.emutrace"], 1)
    found = read_trace(tmp_path / "all.emutrace")
    said = [
        (found.sites[0][event["site"]].details, int(event["start"]))
        for event in found.events[0]
        if event["kind"] == Kind.INSTANT and event["thread"] == Thread.PROGRAM
    ]
    assert said == [
        ({"text": "stopped by host 1"}, 8_000),
        ({"text": "PE 1 raised ValueError"}, 8_000),
    ]
    assert found.status == "stopped by host 1"


def test_a_part_that_is_none_is_named(tmp_path: Path) -> None:
    whole = part(tmp_path / "0.emutrace", 0)
    with pytest.raises(TraceFileError, match="of host 1 is no trace of emu"):
        merge([whole, b""], [0, 0], [tmp_path / "all.emutrace"], 1)
    assert not (tmp_path / "all.emutrace").exists()
