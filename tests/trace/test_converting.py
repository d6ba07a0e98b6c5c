"""Traces for other viewers: Kineto's JSON and Perfetto's packets."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from made_traces import FLOW, ROWS, write

from emu.trace.converting import convert
from emu.trace.errors import TraceError, TraceFileError

PHASES: dict[str, set[str]] = {
    "X": {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"},
    "M": {"ph", "name", "pid", "tid", "ts", "args"},
    "C": {"ph", "name", "pid", "ts", "args"},
    "i": {"ph", "name", "cat", "pid", "tid", "ts", "s", "args"},
    "s": {"ph", "name", "cat", "pid", "tid", "ts", "id"},
    "f": {"ph", "name", "cat", "pid", "tid", "ts", "id", "bp"},
}
"""The fields that an event of each phase has, in Chrome's format as Kineto writes it."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path / "a.emutrace")


@pytest.fixture
def document(source: Path, tmp_path: Path) -> dict[str, Any]:
    convert(source, tmp_path / "a.json")
    found: dict[str, Any] = json.loads((tmp_path / "a.json").read_text())
    return found


def test_every_event_has_the_fields_of_its_phase(document: dict[str, Any]) -> None:
    assert document["schemaVersion"] == 1
    for event in document["traceEvents"]:
        assert set(event) == PHASES[event["ph"]], event
        assert isinstance(event["ts"], (int, float))
        assert type(event["pid"]) is int
        assert event["ph"] != "X" or event["dur"] >= 0


def test_processes_and_threads_have_names(document: dict[str, Any]) -> None:
    names = {
        (event["name"], event["pid"], event["tid"]): event["args"].get("name")
        for event in document["traceEvents"]
        if event["ph"] == "M"
    }
    assert names["process_name", 0, 0] == "PE 0"
    assert names["process_name", 1, 0] == "PE 1"
    threads = {key[1:]: name for key, name in names.items() if key[0] == "thread_name"}
    assert set(threads.values()) == {
        *("program", "communication server", "link to PE 1", "tasks", "tasks (2)"),
    }
    drawn = {(e["pid"], e["tid"]) for e in document["traceEvents"] if e["ph"] in "Xisf"}
    assert drawn <= set(threads)


def test_no_event_is_missing_and_times_are_microseconds(document: dict[str, Any]) -> None:
    phases = Counter(event["ph"] for event in document["traceEvents"])
    assert phases["X"] == sum(map(len, ROWS.values())) - 2  # but for a counter and an instant
    assert (phases["i"], phases["s"], phases["f"]) == (1, 1, 1)
    (put,) = [e for e in document["traceEvents"] if e["name"] == "put"]
    assert (put["ts"], put["dur"], put["cat"]) == (1.5, 0.5, "gpu_memcpy")
    assert put["args"]["bytes"] == 64
    assert put["args"]["peer"] == 1
    assert put["args"]["source"] == "a.py:4"
    assert document["baseTimeNanoseconds"] == 1_500_000_000
    (kernel,) = [e for e in document["traceEvents"] if e["name"] == "add_kernel"]
    assert (kernel["cat"], kernel["args"]["grid"]) == ("kernel", [4, 1, 1])
    (reduction,) = [e for e in document["traceEvents"] if e["name"] == "all_reduce"]
    assert reduction["args"]["Collective name"] == "all_reduce"
    assert reduction["args"]["Group size"] == 2


def test_an_arrow_begins_and_ends_on_events(document: dict[str, Any]) -> None:
    ends = [event for event in document["traceEvents"] if event["ph"] in "sf"]
    assert [event["id"] for event in ends] == [FLOW, FLOW]
    for arrow, name in zip(ends, ("signal_op", "wait_until"), strict=True):
        (event,) = [e for e in document["traceEvents"] if e["name"] == name]
        assert (arrow["pid"], arrow["tid"]) == (event["pid"], event["tid"])
        assert event["ts"] <= arrow["ts"] <= event["ts"] + event["dur"]


def test_one_pe_has_a_file_of_its_own(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "b.json", 1)
    document = json.loads((tmp_path / "b.json").read_text())
    assert document["distributedInfo"] == {"backend": "emu", "rank": 1, "world_size": 2}
    assert {event["pid"] for event in document["traceEvents"]} == {1}


# --- Perfetto ---------------------------------------------------------------------------------


@pytest.fixture
def packets(source: Path, tmp_path: Path) -> list[Any]:
    messages = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    convert(source, tmp_path / "a.pftrace")
    trace = messages.Trace()
    trace.ParseFromString((tmp_path / "a.pftrace").read_bytes())
    return list(trace.packet)


class Reader:
    """Reads packets as a viewer does: with clocks, defaults and interned names of each sequence."""

    def __init__(self, packets: list[Any]) -> None:
        self.tracks: dict[int, Any] = {}
        self.slices: list[dict[str, Any]] = []
        self.counters: dict[str, list[tuple[int, int]]] = {}
        self.instants: list[tuple[str, int]] = []
        self._sequences: dict[int, dict[str, Any]] = {}
        self._open: dict[int, list[dict[str, Any]]] = {}
        for packet in packets:
            self._read(packet)

    def _read(self, packet: Any) -> None:
        state = self._sequences.setdefault(packet.trusted_packet_sequence_id, {})
        if packet.sequence_flags & 1:
            state.clear()
            state |= {"names": {}, "places": {}, "words": {}, "texts": {}}
        if packet.HasField("clock_snapshot"):
            clocks = {clock.clock_id: clock for clock in packet.clock_snapshot.clocks}
            assert clocks[64].is_incremental
            assert clocks[64].timestamp == clocks[3].timestamp
            state["now"] = clocks[64].timestamp
        if packet.HasField("trace_packet_defaults"):
            assert packet.trace_packet_defaults.timestamp_clock_id == 64
            defaults = packet.trace_packet_defaults.track_event_defaults
            state["track"], state["more"] = (
                defaults.track_uuid,
                defaults.extra_counter_track_uuids,
            )
        for kind, field in (
            ("names", packet.interned_data.event_names),
            ("words", packet.interned_data.debug_annotation_names),
        ):
            state.setdefault(kind, {}).update({each.iid: each.name for each in field})
        for each in packet.interned_data.debug_annotation_string_values:
            state["texts"][each.iid] = each.str.decode()
        for each in packet.interned_data.source_locations:
            state["places"][each.iid] = (each.file_name, each.line_number)
        if packet.HasField("track_descriptor"):
            self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        if packet.HasField("track_event"):
            state["now"] += packet.timestamp
            self._event(packet.track_event, state)

    def _event(self, event: Any, state: dict[str, Any]) -> None:
        track, now = state["track"], state["now"]
        for uuid, value in zip(state["more"], event.extra_counter_values, strict=False):
            self.counters.setdefault(self.tracks[uuid].name, []).append((now, value))
        kind = type(event).Type.Name(event.type)
        if kind == "TYPE_COUNTER":
            name = self.tracks[track].name
            self.counters.setdefault(name, []).append((now, event.counter_value))
        elif kind == "TYPE_SLICE_END":
            ended = self._open[track].pop()
            ended["end"] = now
        else:
            begun = {
                "name": state["names"][event.name_iid],
                "track": self.tracks[track].name,
                "start": now,
                "place": state["places"].get(event.source_location_iid),
                "flows": list(event.flow_ids),
                "ends": list(event.terminating_flow_ids),
                "words": {
                    state["words"][each.name_iid]: each.int_value
                    or state["texts"][each.string_value_iid]
                    for each in event.debug_annotations
                },
            }
            if kind == "TYPE_INSTANT":
                self.instants.append((begun["name"], now))
            else:
                assert kind == "TYPE_SLICE_BEGIN"
                self._open.setdefault(track, []).append(begun)
                self.slices.append(begun)


def test_perfetto_gets_every_event_with_its_times(packets: list[Any]) -> None:
    reader = Reader(packets)
    assert all("end" in each for each in reader.slices)
    rows = [row for rows in ROWS.values() for row in rows]
    spans = Counter((row[0], row[0] + row[1]) for row in rows)
    spans -= Counter([(8000, 8000), (7300, 7300)])  # a counter, an instant
    assert Counter((each["start"], each["end"]) for each in reader.slices) == spans
    assert reader.instants == [("race", 7300)]
    assert reader.counters == {
        "bytes in flight": [(2000, 64), (2500, 0)],
        "memory in use": [(1000, 64), (9000, 0)],
        "tokens": [(8000, 12)],
    }


def test_perfetto_knows_lines_bytes_tracks_and_arrows(packets: list[Any]) -> None:
    reader = Reader(packets)
    found = {each["name"]: each for each in reader.slices}
    assert found["put"]["track"] == "link to PE 1"
    assert found["put"]["place"] == ("a.py", 4)
    assert found["put"]["words"] == {"bytes": 64}
    assert found["add_kernel"]["words"] == {"details": "grid [4, 1, 1]"}
    assert found["signal_op"]["flows"] == found["wait_until"]["ends"] != []
    processes = [t.process.process_name for t in reader.tracks.values() if t.HasField("process")]
    assert processes == ["PE 0", "PE 1"]
    parents = {t.parent_uuid for t in reader.tracks.values() if not t.HasField("process")}
    assert parents <= set(reader.tracks)


# --- what cannot be converted -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.txt", "a.emutrace2", "json", "a.pftrace.gz"])
def test_another_format_is_refused(source: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(TraceError, match=r"whose name ends in \.pftrace or \.json"):
        convert(source, tmp_path / name)


def test_a_pe_that_is_not_there_is_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"pe must be in \[0, 2\), but got 2"):
        convert(source, tmp_path / "a.json", 2)
    with pytest.raises(TraceError, match="one PE's events"):
        convert(source, tmp_path / "a.pftrace", 1)


def test_what_is_no_trace_and_what_cannot_be_written_are_refused(
    source: Path, tmp_path: Path
) -> None:
    with pytest.raises(TraceFileError, match="cannot be read"):
        convert(tmp_path / "none", tmp_path / "a.json")
    with pytest.raises(TraceFileError, match="cannot be written"):
        convert(source, tmp_path / "no" / "a.json")
