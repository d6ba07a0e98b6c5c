"""Traces as JSON in the dialect of Kineto, PyTorch's profiler: for TensorBoard, HTA, Chakra and chrome://tracing.

A PE is a process, a lane (:mod:`emu.trace.lanes`) a thread. Times are microseconds since the run began; ``baseTimeNanoseconds`` says when
that was, since 1970. Names of categories are Kineto's, so that its readers know kernels, copies and operators.

Internal: names may change in any release.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from emu.trace.events import Kind, Site
from emu.trace.lanes import Lane, arrows_of, counters_of, lanes_of
from emu.trace.reading import Trace

CATEGORIES = {
    Kind.LAUNCH: "kernel",
    Kind.COMPILE: "cpu_op",
    Kind.TUNE: "cpu_op",
    Kind.OP: "cpu_op",
    Kind.PUT: "gpu_memcpy",
    Kind.GET: "gpu_memcpy",
    Kind.SIGNAL: "gpu_memcpy",
    Kind.ATOMIC: "cpu_op",
    Kind.WAIT: "cpu_op",
    Kind.COMPLETE: "cpu_op",
    Kind.BARRIER: "cpu_op",
    Kind.COLLECTIVE: "cpu_op",
    Kind.TURN: "kernel",
    Kind.LOCK: "cpu_op",
    Kind.ALLOCATE: "cpu_instant_event",
    Kind.RANGE: "user_annotation",
    Kind.COUNTER: "counter",
    Kind.INSTANT: "user_annotation",
}
_FLOW = "ac2g"
"""Kineto's category, and name, of arrows."""
_THREADS_A_LANE = 64


def write_json(trace: Trace, path: Path, pe: int | None = None) -> None:
    """Write a trace.

    Args:
        trace: The trace.
        path: The file.
        pe: The PE whose events it gets, as HTA wants one file a rank. Default: all.

    Raises:
        OSError: The file cannot be written.
    """
    writer = _Writer(trace, pe)
    with path.open("w", encoding="utf-8") as file:
        writer.write(file)


class _Writer:
    def __init__(self, trace: Trace, pe: int | None) -> None:
        self._trace = trace
        self._pes = range(trace.n_pes) if pe is None else range(pe, pe + 1)
        starts = [int(events["start"][0]) for events in trace.events if len(events)]
        self._zero = min([int(trace.meta.get("clock", 0)) or min(starts, default=0), *starts])
        self._lanes: dict[tuple[int, int], Lane] = {}
        self._rank = pe

    def write(self, file: TextIO) -> None:
        """Write the document, event by event."""
        meta = self._trace.meta
        since_begin = self._zero - int(meta.get("clock", self._zero))
        head: dict[str, Any] = {
            "schemaVersion": 1,
            "displayTimeUnit": "ns",
            "deviceProperties": [
                {"id": pe, "name": "emulated device", "totalGlobalMem": 0} for pe in self._pes
            ],
            "baseTimeNanoseconds": int(float(meta.get("started", 0.0)) * 1e9) + since_begin,
            "emu": {**meta, "status": self._trace.status, "lost": list(self._trace.lost)},
        }
        if self._rank is not None:
            head["distributedInfo"] = {
                "backend": "emu",
                "rank": self._rank,
                "world_size": self._trace.n_pes,
            }
        file.write(_json(head)[:-1])
        file.write(', "traceEvents": [\n')
        separator = ""
        for event in self._events():
            file.write(f"{separator}{_json(event)}")
            separator = ",\n"
        file.write("\n]}\n")

    def _us(self, ns: int) -> float:
        return (ns - self._zero) / 1000

    def _events(self) -> Iterator[dict[str, Any]]:
        for pe in self._pes:
            yield from self._names(pe)
        for pe in self._pes:
            for lane, indices in lanes_of(self._trace, pe).items():
                thread = _thread(lane)
                yield _metadata("thread_name", pe, thread, name=lane.name)
                yield _metadata("thread_sort_index", pe, thread, sort_index=thread)
                for index in indices.tolist():
                    self._lanes[pe, index] = lane
                    yield self._slice(pe, thread, index)
            for counter in counters_of(self._trace, pe):
                for time, value in zip(
                    counter.times.tolist(), counter.values.tolist(), strict=True
                ):
                    args = {counter.name: value}
                    yield {
                        "ph": "C",
                        "name": counter.name,
                        "pid": pe,
                        "ts": self._us(time),
                        "args": args,
                    }
        yield from self._arrows()

    def _names(self, pe: int) -> Iterator[dict[str, Any]]:
        yield _metadata("process_name", pe, 0, name=f"PE {pe}")
        yield _metadata("process_labels", pe, 0, labels=str(self._trace.meta.get("host", "")))
        yield _metadata("process_sort_index", pe, 0, sort_index=pe)

    def _slice(self, pe: int, thread: int, index: int) -> dict[str, Any]:
        record = self._trace.events[pe][index]
        site, kind = self._trace.sites[pe][int(record["site"])], Kind(int(record["kind"]))
        event: dict[str, Any] = {
            "ph": "X",
            "cat": CATEGORIES[kind],
            "name": site.name,
            "pid": pe,
            "tid": thread,
            "ts": self._us(int(record["start"])),
            "dur": int(record["duration"]) / 1000,
            "args": _arguments(record, site, kind, pe, thread, index),
        }
        if kind is Kind.INSTANT:
            del event["dur"]
            event |= {"ph": "i", "s": "p"}
        return event

    def _arrows(self) -> Iterator[dict[str, Any]]:
        for arrow in arrows_of(self._trace):
            if arrow.source[0] not in self._pes or arrow.target[0] not in self._pes:
                continue
            for phase, (pe, index) in (("s", arrow.source), ("f", arrow.target)):
                record = self._trace.events[pe][index]
                at = int(record["start"])
                if phase == "f":  # what ends a wait comes at its end
                    at += int(record["duration"])
                event = {
                    "ph": phase,
                    "id": arrow.flow,
                    "cat": _FLOW,
                    "name": _FLOW,
                    "pid": pe,
                    "tid": _thread(self._lanes[pe, index]),
                    "ts": self._us(at),
                }
                yield event | ({"bp": "e"} if phase == "f" else {})


def _json(value: Any) -> str:
    """Return a value as JSON; numbers that are not finite, as a link's bandwidth may be, become texts: JSON has none."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(json.loads(json.dumps(value), parse_constant=str))


def _thread(lane: Lane) -> int:
    return lane.number * _THREADS_A_LANE + min(lane.again, _THREADS_A_LANE - 1)


def _metadata(kind: str, pe: int, thread: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pe, "tid": thread, "ts": 0, "args": args}


def _arguments(
    record: Any, site: Site, kind: Kind, pe: int, thread: int, index: int
) -> dict[str, Any]:
    """Return what a viewer shows of an event, by the names that readers of Kineto's traces know."""
    details = site.details or {}
    args: dict[str, Any] = {}
    if CATEGORIES[kind] in ("kernel", "gpu_memcpy"):
        args |= {"device": pe, "stream": thread, "correlation": index + 1}
    if kind is Kind.COLLECTIVE:
        members = details.get("members")
        size = len(members) if isinstance(members, (list, tuple)) else 0
        args |= {"Collective name": site.name, "Group size": size}
    size, flow, peer = int(record["size"]), int(record["flow"]), int(record["peer"])
    if size:
        args["bytes"] = size
    if peer >= 0:
        args["peer"] = peer
    if flow:
        args["flow"] = flow
    if site.file:
        args["source"] = f"{site.file}:{site.line}"
    return {**args, **details}
