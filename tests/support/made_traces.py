"""Traces that tests make by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from emu.trace.events import EVENT, MEETING_BIT, Kind, Site, Thread
from emu.trace.format import TraceWriter

SITES = {
    0: [
        Site("step", "a.py", 3),
        Site("put", "a.py", 4),
        Site("signal_op", "a.py", 5),
        Site("barrier", "a.py", 6, {"members": [0, 1], "group": "world"}),
        Site("alloc x", "a.py", 1, {"dtype": "float32", "shape": [16]}),
        Site("add_kernel", "k.py", 9, {"grid": [4, 1, 1]}),
        Site("tokens", details={"unit": "pieces"}),
        Site("all_gather", details={"turn": 0}),
    ],
    1: [
        Site("wait_until", "a.py", 8),
        Site("barrier", "a.py", 6, {"members": [0, 1], "group": "world"}),
        Site("all_reduce", "a.py", 9, {"members": [0, 1], "dtype": "int32", "shape": [4]}),
        Site("race", "a.py", 4, {"text": "two lines"}),
        Site("relu", "b.py", 2),
    ],
}
FLOW = 1 << 44 | 2
ROWS = {
    # start, duration, size, flow, site, kind, thread, peer
    0: [
        (1000, 9000, 0, 0, 0, Kind.RANGE, Thread.PROGRAM, -1),
        (1000, 0, 64, 0, 4, Kind.ALLOCATE, Thread.PROGRAM, -1),
        (2000, 500, 64, 0, 1, Kind.PUT, Thread.PROGRAM, 1),
        (3000, 100, 0, FLOW, 2, Kind.SIGNAL, Thread.PROGRAM, 1),
        (4000, 3000, 0, MEETING_BIT | 1, 3, Kind.BARRIER, Thread.PROGRAM, -1),
        (7000, 1000, 0, 0, 5, Kind.LAUNCH, Thread.PROGRAM, -1),
        (8000, 0, 12, 0, 6, Kind.COUNTER, Thread.PROGRAM, -1),
        (7500, 1000, 32, 0, 7, Kind.TURN, Thread.SERVER, -1),
        (9000, 0, -64, 0, 4, Kind.ALLOCATE, Thread.PROGRAM, -1),
    ],
    1: [
        (1500, 1700, 0, FLOW, 0, Kind.WAIT, Thread.PROGRAM, 0),
        (4500, 2400, 0, MEETING_BIT | 1, 1, Kind.BARRIER, Thread.PROGRAM, -1),
        (7000, 200, 16, MEETING_BIT | 2, 2, Kind.COLLECTIVE, Thread.PROGRAM, -1),
        (7300, 0, 0, 0, 3, Kind.INSTANT, Thread.PROGRAM, -1),
        (7400, 300, 0, 0, 4, Kind.OP, Thread.TASKS, -1),
        (7500, 300, 0, 0, 4, Kind.OP, Thread.TASKS, -1),  # overlaps the one before
    ],
}


def write(path: Path) -> Path:
    """Write a trace of two PEs."""
    meta = {"n_pes": 2, "command": ["x"], "started": 1.5, "clock": 500, "host": "h"}
    with TraceWriter(path, meta) as writer:
        for pe, rows in ROWS.items():
            writer.sites(pe, SITES[pe])
            writer.events(pe, np.array(rows, EVENT))
        writer.end("ok", 20_000, [0, 0])
    return path
