"""Traces in Perfetto's format, by the classes of the ``perfetto`` package: for ui.perfetto.dev.

Each lane (:mod:`emu.trace.lanes`) is a track and a *sequence* of packets of its own. What recurs on a sequence is said once: its track and its
clock are defaults, names and lines of source are interned, and a time is the distance from the packet before. That makes a
tenth of the bytes.

Internal: names may change in any release.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

from emu.trace.errors import TraceError
from emu.trace.events import Kind
from emu.trace.lanes import (
    FIRST_LINK,
    IN_FLIGHT,
    Counter,
    Lane,
    arrows_of,
    counters_of,
    lanes_of,
)
from emu.trace.reading import Trace

_CLOCK, _MONOTONIC = 64, 3
"""A clock of one sequence, whose times are distances; and the system's."""
_CLEARED = 1  # SEQ_INCREMENTAL_STATE_CLEARED
_PES, _LANES = 1 << 32, 1 << 48
"""First numbers of tracks of PEs, and of lanes."""
_DESCRIPTIONS = 1
"""The sequence of the descriptions of tracks."""
_PID = 1
"""Process of PE 0: number 0 is the system's idle process."""


def load_messages() -> Any:
    """Return the module with Perfetto's messages.

    Raises:
        TraceError: The package is not installed.
    """
    try:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2
    except ImportError:
        raise TraceError(
            "a .pftrace needs the package perfetto: pip install 'tile-emu[trace]'; a .json does not"
        ) from None
    return perfetto_trace_pb2


def write_pftrace(trace: Trace, path: Path) -> None:
    """Write a trace.

    Args:
        trace: The trace.
        path: The file.

    Raises:
        TraceError: The package perfetto is not installed.
        OSError: The file cannot be written.
    """
    messages = load_messages()
    with path.open("wb") as file:
        _Writer(messages, trace, file).write()


class _Writer:
    def __init__(self, messages: Any, trace: Trace, file: BinaryIO) -> None:
        self._messages = messages
        self._trace = trace
        self._file = file
        self._sequences = _DESCRIPTIONS
        self._begins: dict[tuple[int, int], list[int]] = {}
        self._ends: dict[tuple[int, int], list[int]] = {}

    def write(self) -> None:
        """Write all packets."""
        for number, arrow in enumerate(arrows_of(self._trace), 1):
            self._begins.setdefault(arrow.source, []).append(number)
            self._ends.setdefault(arrow.target, []).append(number)
        for pe in range(self._trace.n_pes):
            self._describe_pe(pe)
            counters = counters_of(self._trace, pe)
            tracks = [self._describe_counter(pe, n, each) for n, each in enumerate(counters)]
            moving = _Moving(counters, tracks)
            for lane, indices in lanes_of(self._trace, pe).items():
                _Lane(self, pe, lane, moving).write(indices.tolist())
            for track, counter in zip(tracks, counters, strict=True):
                said = moving.said if counter.name == IN_FLIGHT else set()
                self._write_counter(track, counter, said)

    def packet(self, sequence: int, time: int) -> Any:
        """Return a new packet."""
        packet = self._messages.TracePacket()
        packet.trusted_packet_sequence_id = sequence
        packet.timestamp = time
        return packet

    def emit(self, packet: Any) -> None:
        """Write a packet: field 1 of a trace."""
        data = packet.SerializeToString()
        self._file.write(b"\x0a" + _varint(len(data)) + data)

    def _describe_pe(self, pe: int) -> None:
        packet = self.packet(_DESCRIPTIONS, self._zero)
        descriptor = packet.track_descriptor
        descriptor.uuid = _PES + pe
        descriptor.process.pid = _PID + pe
        descriptor.process.process_name = f"PE {pe}"
        descriptor.process.process_labels.append(str(self._trace.meta.get("host", "")))
        self.emit(packet)

    @property
    def _zero(self) -> int:
        return int(self._trace.meta.get("clock", 0))

    def begin_sequence(self, uuid: int, start: int, counter: int | None = None) -> int:
        """Write what holds for the packets of a sequence: its clock, which begins at ``start``, its track, and a counter of it."""
        self._sequences += 1
        number = self._sequences
        packet = self._messages.TracePacket()
        packet.trusted_packet_sequence_id = number
        packet.sequence_flags = _CLEARED
        packet.trace_packet_defaults.timestamp_clock_id = _CLOCK
        packet.trace_packet_defaults.track_event_defaults.track_uuid = uuid
        if counter is not None:
            packet.trace_packet_defaults.track_event_defaults.extra_counter_track_uuids.append(
                counter
            )
        snapshot = packet.clock_snapshot
        snapshot.primary_trace_clock = _MONOTONIC
        for clock in (_MONOTONIC, _CLOCK):
            snapshot.clocks.add(clock_id=clock, timestamp=start)
        snapshot.clocks[1].is_incremental = True
        self.emit(packet)
        return number

    def _describe_counter(self, pe: int, number: int, counter: Counter) -> int:
        """Write what a counter is; return the number of its track."""
        uuid = _LANES + (pe << 24) + (1 << 23) + number
        packet = self.packet(_DESCRIPTIONS, self._zero)
        descriptor = packet.track_descriptor
        descriptor.uuid, descriptor.parent_uuid = uuid, _PES + pe
        descriptor.name = counter.name
        descriptor.counter.SetInParent()
        self.emit(packet)
        return uuid

    def _write_counter(self, uuid: int, counter: Counter, said: set[int]) -> None:
        """Write the values of a counter, but for the times at which events have said them."""
        points = zip(counter.times.tolist(), counter.values.tolist(), strict=True)
        left = [point for point in points if point[0] not in said]
        if not left:
            return
        before = left[0][0]
        sequence = self.begin_sequence(uuid, before)
        for time, value in left:
            packet = self.packet(sequence, time - before)
            packet.track_event.type = self._messages.TrackEvent.TYPE_COUNTER
            packet.track_event.counter_value = value
            self.emit(packet)
            before = time


class _Moving:
    """The counter of the bytes in flight of a PE: events on links say its values, which takes a fifth of the bytes.

    Attributes:
        track: Its track; None: nothing moves.
        said: Times whose values were said.
    """

    def __init__(self, counters: list[Counter], tracks: list[int]) -> None:
        self.track: int | None = None
        self.said: set[int] = set()
        self._values: dict[int, int] = {}
        for counter, track in zip(counters, tracks, strict=True):
            if counter.name == IN_FLIGHT:
                self.track = track
                points = zip(counter.times.tolist(), counter.values.tolist(), strict=True)
                self._values = dict(points)

    def value(self, time: int) -> int | None:
        """Return the value from a time on, to be said there; None: nothing changes then."""
        found = self._values.get(time)
        if found is not None:
            self.said.add(time)
        return found


class _Lane:
    """The packets of one lane."""

    def __init__(self, writer: _Writer, pe: int, lane: Lane, moving: _Moving) -> None:
        self._writer = writer
        self._pe = pe
        self._lane = lane
        self._moving = moving if lane.number >= FIRST_LINK and moving.track is not None else None
        self._types = writer._messages.TrackEvent
        self._names: dict[str, int] = {}
        self._places: dict[tuple[str, int], int] = {}
        self._words: dict[str, int] = {}
        self._texts: dict[str | bytes, int] = {}
        self._sequence = self._before = 0

    def write(self, indices: list[int]) -> None:
        """Write the lane, and its events, which are given by start."""
        events = self._writer._trace.events[self._pe]
        self._before = int(events["start"][indices[0]])
        self._describe()
        open_ends: list[int] = []
        for index in indices:
            record = events[index]
            start, duration = int(record["start"]), int(record["duration"])
            while open_ends and open_ends[-1] <= start:
                self._end(open_ends.pop())
            is_instant = record["kind"] == Kind.INSTANT
            self._begin(index, record, start, is_instant=is_instant)
            if not is_instant:
                open_ends.append(start + duration)
        while open_ends:
            self._end(open_ends.pop())

    def _describe(self) -> None:
        writer, lane = self._writer, self._lane
        uuid = _LANES + (self._pe << 24) + (lane.number << 8) + lane.again
        packet = writer.packet(_DESCRIPTIONS, self._before)
        packet.track_descriptor.uuid = uuid
        packet.track_descriptor.parent_uuid = _PES + self._pe
        packet.track_descriptor.name = lane.name
        packet.track_descriptor.sibling_order_rank = (lane.number << 8) + lane.again
        writer.emit(packet)
        counter = None if self._moving is None else self._moving.track
        self._sequence = writer.begin_sequence(uuid, self._before, counter)

    def _packet(self, time: int) -> Any:
        packet = self._writer.packet(self._sequence, time - self._before)
        self._before = time
        if self._moving is not None:
            value = self._moving.value(time)
            if value is not None:
                packet.track_event.extra_counter_values.append(value)
        return packet

    def _end(self, time: int) -> None:
        packet = self._packet(time)
        packet.track_event.type = self._types.TYPE_SLICE_END
        self._writer.emit(packet)

    def _begin(self, index: int, record: Any, start: int, *, is_instant: bool) -> None:
        writer, packet = self._writer, self._packet(start)
        event = packet.track_event
        event.type = self._types.TYPE_INSTANT if is_instant else self._types.TYPE_SLICE_BEGIN
        site = writer._trace.sites[self._pe][int(record["site"])]
        interned = packet.interned_data
        event.name_iid = _interned(self._names, site.name, interned.event_names, "name")
        if site.file:
            place = (site.file, site.line)
            number = self._places.get(place)
            if number is None:
                number = self._places[place] = len(self._places) + 1
                interned.source_locations.add(
                    iid=number, file_name=site.file, line_number=site.line
                )
            event.source_location_iid = number
        event.flow_ids.extend(writer._begins.get((self._pe, index), ()))
        event.terminating_flow_ids.extend(writer._ends.get((self._pe, index), ()))
        if record["size"]:
            word = _interned(self._words, "bytes", interned.debug_annotation_names, "name")
            event.debug_annotations.add(name_iid=word, int_value=int(record["size"]))
        text = _text_of(site.details)
        if text:
            word = _interned(self._words, "details", interned.debug_annotation_names, "name")
            value = _interned(self._texts, text, interned.debug_annotation_string_values, "str")
            event.debug_annotations.add(name_iid=word, string_value_iid=value)
        writer.emit(packet)


def _text_of(details: dict[str, Any] | None) -> bytes:
    """Return in one line what is known of a site; it is said once a lane."""
    given = details or {}
    return ", ".join(f"{name} {given[name]}" for name in _SHOWN if name in given).encode()


_SHOWN = ("grid", "dtype", "shape", "group", "turn", "text")
"""Details that are shown, in this order."""


def _interned(known: dict[Any, int], text: str | bytes, into: Any, field: str) -> int:
    """Return the number of a text on its sequence; a new one is said in this packet."""
    number = known.get(text)
    if number is None:
        number = known[text] = len(known) + 1
        into.add(iid=number, **{field: text})
    return number


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
