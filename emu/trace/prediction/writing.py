"""A prediction as a trace: views, exports and statistics read it like a recorded one.

Internal: names may change in any release.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from emu.trace.events import EVENT, Kind, Site
from emu.trace.format import TraceWriter
from emu.trace.prediction.prediction import Prediction


def write_prediction(path: Path, prediction: Prediction, *, beside: bool = False) -> None:
    """Write the predicted timeline as a trace.

    Args:
        path: The file; one that exists is replaced.
        prediction: The prediction.
        beside: Whether the recorded timeline stands before it, as PEs 0 to n - 1, so that both are seen at once; both begin at 0, and
            PE r's prediction is PE n + r. Default: no.

    Raises:
        TraceFileError: The file cannot be written.
    """
    trace, n_pes = prediction.trace, prediction.trace.n_pes
    meta = {
        **trace.meta,
        "n_pes": 2 * n_pes if beside else n_pes,
        "clock": 0,
        "predicted": {
            "device": prediction.device.name,
            "status": prediction.device.status,
            "beside": beside,
        },
    }
    first = min((int(e["start"].min()) for e in trace.events if len(e)), default=0)
    with TraceWriter(path, meta) as writer:
        if beside:
            for pe in range(n_pes):
                events = np.array(trace.events[pe])
                events["start"] -= first
                writer.sites(pe, trace.sites[pe])
                writer.events(
                    pe, events[np.argsort(events["start"] + events["duration"], kind="stable")]
                )
        for pe in range(n_pes):
            _write_pe(writer, prediction, pe, n_pes if beside else 0)
        writer.end(
            trace.status or "the recorded trace stops before the run ended",
            prediction.replayed.total,
            [0] * meta["n_pes"],
        )


def _write_pe(writer: TraceWriter, prediction: Prediction, pe: int, shift: int) -> None:
    trace, replayed = prediction.trace, prediction.replayed
    events = np.array(trace.events[pe], EVENT)
    events["start"] = replayed.begin[pe]
    events["duration"] = replayed.end[pe] - replayed.begin[pe]
    if shift:
        events["peer"][events["peer"] >= 0] += shift
        # The flows of the two timelines must differ.
        events["flow"][events["flow"] > 0] ^= np.uint64(1 << 62)
    launches = set(events["site"][events["kind"] == Kind.LAUNCH].tolist())
    bounds = {
        row.name: f"{row.bound} ({row.unit})"
        for row in reversed(prediction.rows)
        if row.kind == "LAUNCH"
    }
    sites = [
        Site(s.name, s.file, s.line, {**(s.details or {}), "bound": bounds.get(s.name, "")})
        if number in launches
        else s
        for number, s in enumerate(trace.sites[pe])
    ]
    writer.sites(pe + shift, sites)
    writer.events(pe + shift, events[np.argsort(replayed.end[pe], kind="stable")])
