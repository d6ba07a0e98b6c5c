"""A trace's prediction: the timeline, a row for each kernel and for each kind of communication, and what bounds the run.

Internal: names may change in any release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from emu.trace.events import Kind
from emu.trace.prediction.devices.device import Device
from emu.trace.prediction.pricing import COMPUTES, COUNTED, Options, Pricer, is_launch_alone
from emu.trace.prediction.replay import Replayed, replay
from emu.trace.prediction.steps import COMMUNICATION
from emu.trace.reading import Trace

WAIT, LINK, HOST = "wait", "link", "host"
_COMPUTING = ("LAUNCH", "OP", "TURN")
_WAITS = (Kind.WAIT, Kind.LOCK, Kind.COMPLETE, Kind.BARRIER)


@dataclass(frozen=True)
class Row:
    """What is done at one site, on all PEs together; times in seconds.

    Attributes:
        name: Kernel, operation or kind of communication.
        kind: Name of the events' kind.
        count: Number of events.
        recorded: Time on this machine.
        predicted: Time on the device.
        waited: Part of it that waits for others, for ports or for the device.
        bound: ``compute``, ``memory``, ``launch``, ``wait`` or ``link``.
        unit: What of it: ``dot f16``, ``hbm``, ``ring``, …
        flops: FLOPs of products, of all launches.
        nbytes: Bytes that were moved.
        waves: Waves of programs of a launch; 0: none.
        tail: Part of the multiprocessors' time that had programs; 0: unknown.
        counted: Whether there are counts; else its recorded time was scaled.
    """

    name: str
    kind: str
    count: int
    recorded: float
    predicted: float
    waited: float
    bound: str
    unit: str
    flops: float = 0.0
    nbytes: float = 0.0
    waves: int = 0
    tail: float = 0.0
    counted: bool = True


@dataclass(frozen=True)
class PeTime:
    """Where the predicted time of a PE goes; seconds.

    Attributes:
        total: Until its last event ends.
        compute: Kernels and operations run.
        link: Messages and collectives are under way.
        both: Both at once: communication that is hidden.
        wait: It waits, and does neither.
        idle: It does nothing: launches, the host, and the end of others.
    """

    total: float
    compute: float
    link: float
    both: float
    wait: float
    idle: float

    @property
    def overlap(self) -> float:
        """Part of the communication that is hidden by computation; 0 without communication."""
        return self.both / self.link if self.link else 0.0


@dataclass(frozen=True)
class Prediction:
    """A prediction.

    Attributes:
        trace: The trace.
        device: The device of each PE.
        replayed: Predicted times of all events.
        rows: What takes how long, the longest first.
        pes: Where each PE's time goes.
        recorded: Length of the recorded run, in seconds.
        notes: What could not be known, in words.
    """

    trace: Trace
    device: Device
    replayed: Replayed
    rows: tuple[Row, ...]
    pes: tuple[PeTime, ...]
    recorded: float
    notes: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """Predicted length of the run."""
        return self.replayed.total * 1e-9

    @property
    def bound(self) -> str:
        """What takes the most time of the PE that ends last: compute, memory, launch, wait or link."""
        last = max(self.pes, key=lambda pe: pe.total)
        shares: dict[str, float] = {
            LINK: last.link - last.both,
            WAIT: last.wait,
            "launch": last.idle,
        }
        computes = [row for row in self.rows if row.kind in _COMPUTING and row.bound != LINK]
        computing = sum(row.predicted for row in computes)
        for row in computes:
            if computing:
                shares[row.bound] = (
                    shares.get(row.bound, 0.0) + last.compute * row.predicted / computing
                )
        return max(shares, key=lambda name: shares[name])

    def to_data(self) -> dict[str, Any]:
        """Return all but the timeline as dicts and lists, as ``--json`` writes them."""
        return {
            "device": self.device.name,
            "status": self.device.status,
            "changes": list(self.device.changes),
            "seconds": self.seconds,
            "recorded_seconds": self.recorded,
            "bound": self.bound,
            "rows": [asdict(row) for row in self.rows],
            "pes": [{**asdict(pe), "overlap": pe.overlap} for pe in self.pes],
            "notes": list(self.notes),
        }


def predict(trace: Trace, device: Device, options: Options | None = None) -> Prediction:
    """Predict what a recorded run takes on a device.

    Args:
        trace: The trace.
        device: The device of each PE.
        options: How. Default: the host's time between events is left out.

    Raises:
        PredictionError: An option is wrong, or the trace is none of a run.
    """
    pricer = Pricer(trace, device, options or Options())
    replayed = replay(trace, pricer)
    rows = _rows(trace, pricer, replayed)
    starts = [int(e["start"].min()) for e in trace.events if len(e)]
    ends = [int((e["start"] + e["duration"]).max()) for e in trace.events if len(e)]
    recorded = (max(ends) - min(starts)) * 1e-9 if starts else 0.0
    pes = tuple(_pe_time(trace, replayed, pe) for pe in range(trace.n_pes))
    return Prediction(
        trace, device, replayed, rows, pes, recorded, tuple(_notes(trace, pricer, replayed, rows))
    )


def _rows(trace: Trace, pricer: Pricer, replayed: Replayed) -> tuple[Row, ...]:
    groups: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    kinds = {*COMPUTES, Kind.TURN, *COMMUNICATION}
    for pe, events in enumerate(trace.events):
        chosen = [*np.flatnonzero(replayed.whole[pe]).tolist(), *replayed.divided[pe]]
        for index in chosen:
            kind = Kind(int(events["kind"][index]))
            if kind in kinds:
                site = int(events["site"][index])
                if is_launch_alone(trace.sites[pe][site]):
                    continue
                work = pricer.work(pe, site) if kind in COUNTED else None
                key = (kind, trace.sites[pe][site].name, None if work is None else work.programs)
                groups.setdefault(key, []).append((pe, index))
    rows = [_row(trace, pricer, replayed, key[0], key[1], events) for key, events in groups.items()]
    return tuple(sorted(rows, key=lambda row: (-row.predicted, row.name)))


def _row(
    trace: Trace,
    pricer: Pricer,
    replayed: Replayed,
    kind: Kind,
    name: str,
    events: Sequence[tuple[int, int]],
) -> Row:
    recorded = sum(int(trace.events[pe]["duration"][i]) for pe, i in events) * 1e-9
    predicted = sum(int(replayed.end[pe][i] - replayed.begin[pe][i]) for pe, i in events) * 1e-9
    waited = sum(int(replayed.waited[pe][i]) for pe, i in events) * 1e-9
    sizes = float(sum(max(0, int(trace.events[pe]["size"][i])) for pe, i in events))
    basic = Row(
        name,
        kind.name,
        len(events),
        recorded,
        predicted,
        waited,
        LINK,
        kind.name.lower(),
        nbytes=sizes,
    )
    pe, index = max(
        events, key=lambda e: int(replayed.end[e[0]][e[1]] - replayed.begin[e[0]][e[1]])
    )
    if kind in COMPUTES or any(pricer.work(*_site(trace, e)) for e in events if kind in COUNTED):
        return _kernel_row(trace, pricer, basic, events)
    if kind is Kind.TURN:
        is_link = bool(trace.events[pe]["flow"][index] > 0 or sizes > 0)
        return Row(**{**asdict(basic), "bound": LINK if is_link else "compute", "counted": is_link})
    if kind in _WAITS or waited > predicted / 2:
        return Row(**{**asdict(basic), "bound": WAIT})
    if kind is Kind.COLLECTIVE:
        members = trace.sites[pe][int(trace.events[pe]["site"][index])].details or {}
        many = members.get("members")
        count = len(many) if isinstance(many, list) else trace.n_pes
        how = pricer.collective((pe, index), count)
        return Row(**{**asdict(basic), "unit": f"{how.algorithm} {how.protocol}".strip()})
    return basic


def _kernel_row(trace: Trace, pricer: Pricer, basic: Row, events: Sequence[tuple[int, int]]) -> Row:
    times = [(pricer.kernel(*_site(trace, event)), *event) for event in events]
    known = [(time, pe, i) for time, pe, i in times if time is not None]
    if not known:
        return Row(**{**asdict(basic), "bound": "compute", "unit": "scaled", "counted": False})
    longest, *where = max(known, key=lambda each: each[0].seconds)
    if not pricer.launches((where[0], where[1])):  # nobody waits for a launch
        longest = replace(longest, latency=0.0)
    works = [pricer.work(*_site(trace, (pe, i))) for _, pe, i in known]
    return Row(
        **{
            **asdict(basic),
            "bound": longest.bound,
            "unit": longest.unit,
            "flops": sum(sum(work.dot.values()) for work in works if work is not None),
            "nbytes": sum(time.moved for time, _, _ in known),
            "waves": longest.waves,
            "tail": longest.tail,
            "counted": len(known) == len(times),
        }
    )


def _site(trace: Trace, event: tuple[int, int]) -> tuple[int, int]:
    """Return the PE of an event, and its site."""
    return event[0], int(trace.events[event[0]]["site"][event[1]])


# Where time goes


def _pe_time(trace: Trace, replayed: Replayed, pe: int) -> PeTime:
    events, begin, end = trace.events[pe], replayed.begin[pe], replayed.end[pe]
    leaf = replayed.whole[pe]
    kind, waited = events["kind"], replayed.waited[pe]
    is_turn = (kind == Kind.TURN) & ((events["size"] > 0) | (events["flow"] > 0))
    computes = leaf & (np.isin(kind, COMPUTES) | ((kind == Kind.TURN) & ~is_turn))
    links = leaf & (
        np.isin(kind, (Kind.PUT, Kind.GET, Kind.SIGNAL, Kind.ATOMIC, Kind.COLLECTIVE)) | is_turn
    )
    total = int(end.max()) if len(end) else 0
    compute = _union([(begin[computes], end[computes]), *_kernel_pieces(replayed, pe)])
    link = _union([(begin[links] + waited[links], end[links])])
    waits = leaf & np.isin(kind, _WAITS)
    wait = _union([(begin[waits], end[waits]), (begin[links], begin[links] + waited[links])])
    both = _length(compute) + _length(link) - _length(_joined(compute, link))
    busy = _joined(compute, link)
    waiting = _length(_joined(busy, wait)) - _length(busy)
    idle = total - _length(busy) - waiting
    return PeTime(
        *(each * 1e-9 for each in (total, _length(compute), _length(link), both, waiting, idle))
    )


def _kernel_pieces(
    replayed: Replayed, pe: int
) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    pieces = replayed.pieces[pe]
    if not pieces:
        return []
    both = np.array(pieces, np.int64)
    return [(both[:, 0], both[:, 1])]


_Spans = list[tuple[int, int]]


def _union(parts: Sequence[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]) -> _Spans:
    """Return spans of time as those that do not touch, in order."""
    spans = sorted(
        (int(a), int(b))
        for begins, ends in parts
        for a, b in zip(begins, ends, strict=True)
        if b > a
    )
    found: _Spans = []
    for begin, end in spans:
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def _joined(first: _Spans, second: _Spans) -> _Spans:
    arrays = [np.array(spans, np.int64).reshape(-1, 2) for spans in (first, second)]
    return _union([(spans[:, 0], spans[:, 1]) for spans in arrays])


def _length(spans: _Spans) -> int:
    return sum(end - begin for begin, end in spans)


def _notes(trace: Trace, pricer: Pricer, replayed: Replayed, rows: Sequence[Row]) -> list[str]:
    notes = [f"the numbers of {pricer.device.name} are {pricer.device.status}"]
    scaled = sum(row.count for row in rows if not row.counted)
    if scaled:
        notes.append(
            f"{scaled} events have no counts: their recorded time times {pricer.factor:.3g} ({pricer.factor_source})"
        )
    if replayed.unmatched:
        notes.append(
            f"of {len(replayed.unmatched)} waits it is not known what ended them: they take no time"
        )
    without = sum(
        int(((e["kind"] == Kind.TURN) & (e["flow"] > 0) & (e["size"] <= 0)).sum())
        for e in trace.events
    )
    if without:
        notes.append(
            f"of {without} turns of servers the bytes are not known: they take latency only"
        )
    if any(trace.lost):
        notes.append(f"{sum(trace.lost)} events are missing in the trace")
    if trace.status is None:
        notes.append("the trace stops before the run ended")
    elif trace.status != "ok":
        notes.append(f"the run did not end well: {trace.status}")
    return notes
