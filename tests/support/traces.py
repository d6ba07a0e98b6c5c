"""Traces that nothing has recorded: random ones, and those of a training loop, of any length."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies

from emu.trace.events import EVENT, Kind, Site, Thread
from emu.trace.format import TraceWriter
from emu.trace.reading import Trace

Row = tuple[int, int, int, int, int, int, int, int]
"""Start, duration, size, flow, site, kind, thread, peer."""


def trace_of(
    rows: Sequence[Sequence[Row]], sites: Sequence[Sequence[Site]], status: str | None = "ok"
) -> Trace:
    """Return the trace of such events of each PE, in the order that readers give."""
    return Trace(
        meta={"n_pes": len(rows), "command": ["emu", "run", "made.py"]},
        sites=tuple(tuple(table) for table in sites),
        events=tuple(in_order(np.array(list(each), EVENT)) for each in rows),
        status=status,
        lost=(0,) * len(rows),
    )


def in_order(events: Any) -> Any:
    """Return events by start, the longer one first."""
    return events[np.lexsort((-events["duration"], events["start"]))]


def write(path: Path, trace: Trace, chunk: int = 1000) -> None:
    """Write a trace as recorders do: each PE's events in the order in which they ended, PEs in turn."""
    with TraceWriter(path, trace.meta) as writer:
        ended = []
        for pe, (events, sites) in enumerate(zip(trace.events, trace.sites, strict=True)):
            writer.sites(pe, sites)
            ended.append(events[np.argsort(events["start"] + events["duration"], kind="stable")])
        for at in range(0, max(map(len, ended)), chunk):
            for pe, events in enumerate(ended):
                if at < len(events):
                    writer.events(pe, events[at : at + chunk])
        if trace.status is not None:
            writer.end(trace.status, 0, trace.lost)


def bytes_of(trace: Trace) -> bytes:
    """Return the file of a trace."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.emutrace")
        write(path, trace)
        return path.read_bytes()


SITES = (
    Site("matmul", "model.py", 12, {"grid": [4, 1, 1]}),
    Site("softmax", "model.py", 20),
    Site("put_signal", "comm.py", 7),
    Site("wait_until", "comm.py", 9),
    Site("step"),
)


@strategies.composite
def random_traces(draw: strategies.DrawFn, most: int = 14) -> Trace:
    """Draw traces with no sense: any kinds on any threads, overlapping, of no length, with flows as they come."""
    n_pes = draw(strategies.integers(1, 3))
    small = strategies.integers(0, 12)
    row = strategies.tuples(
        small,
        small,
        strategies.integers(-5, 100),
        strategies.integers(0, 4),
        strategies.integers(0, len(SITES) - 1),
        strategies.sampled_from([int(kind) for kind in Kind]),
        strategies.sampled_from([int(thread) for thread in Thread]),
        strategies.integers(-1, n_pes),
    )
    rows = [draw(strategies.lists(row, max_size=most)) for _ in range(n_pes)]
    return trace_of(rows, [SITES] * n_pes)


@strategies.composite
def busy_traces(draw: strategies.DrawFn) -> Trace:
    """Draw traces in which PEs wait for each other: few kinds and threads, many flows that are shared."""
    n_pes = draw(strategies.integers(2, 3))
    row = strategies.tuples(
        strategies.integers(0, 30),
        strategies.integers(1, 8),
        strategies.just(8),
        strategies.integers(1, 5),
        strategies.integers(0, len(SITES) - 1),
        strategies.sampled_from(
            [
                int(k)
                for k in (
                    Kind.WAIT,
                    Kind.SIGNAL,
                    Kind.BARRIER,
                    Kind.COLLECTIVE,
                    Kind.OP,
                    Kind.RANGE,
                )
            ]
        ),
        strategies.sampled_from([0, 0, 0, *map(int, Thread)]),
        strategies.just(0),
    )
    rows = [draw(strategies.lists(row, min_size=4, max_size=16)) for _ in range(n_pes)]
    return trace_of(rows, [SITES] * n_pes)


# --- a training loop -------------------------------------------------------------------------

MATMUL, SOFTMAX, PUT, SIGNAL, WAIT, QUIET, BARRIER, REDUCE, STEP, BACKWARD, HEAP = range(11)
LOOP_SITES = (
    Site("matmul", "/home/me/ring/train.py", 31, {"grid": [64, 8, 1]}),
    Site("softmax", "/home/me/ring/train.py", 36, {"grid": [512, 1, 1]}),
    Site("put", "/home/me/ring/exchange.py", 18, {"dtype": "float32", "shape": [256, 512]}),
    Site("put_signal", "/home/me/ring/exchange.py", 21),
    Site("wait_until", "/home/me/ring/exchange.py", 24),
    Site("quiet", "/home/me/ring/exchange.py", 27),
    Site("barrier", "/home/me/ring/train.py", 52),
    Site("all_reduce", "/home/me/ring/train.py", 47, {"dtype": "float32", "shape": [512, 512]}),
    Site("training step"),
    Site("backward"),
    Site("symmetric heap", details={"unit": "bytes"}),
)


@dataclass
class _Loop:
    """The clock of each PE, and what it has done."""

    n_pes: int
    slow: int
    random: np.random.Generator
    rows: list[list[Row]] = field(default_factory=list)
    flow: int = 0

    def new_flow(self) -> int:
        self.flow += 1
        return self.flow

    def add(self, pe: int, start: float, end: float, site: int, kind: Kind, **more: int) -> float:
        self.rows[pe].append(
            (
                *(int(start), max(0, int(end) - int(start)), more.get("size", 0)),
                *(more.get("flow", 0), site, int(kind)),
                *(more.get("thread", 0), more.get("peer", -1)),
            )
        )
        return end

    def takes(self, pe: int, us: float) -> float:
        slower = 1.35 if pe == self.slow else 1.0
        return 1000 * us * slower * float(self.random.uniform(0.9, 1.15))


def training_loop(n_pes: int = 4, steps: int = 6, *, slow: int = 1, seed: int = 0) -> Trace:
    """Return the trace of a ring exchange under products, with a slow PE, then a sum over all and a barrier.

    Args:
        n_pes: Number of PEs, at least 2.
        steps: How often the loop goes round.
        slow: The PE whose kernels take longer.
        seed: Of the small differences in time.
    """
    loop = _Loop(n_pes, slow, np.random.default_rng(seed), [[] for _ in range(n_pes)])
    clock = [float(50_000 + 3000 * pe) for pe in range(n_pes)]
    for _ in range(steps):
        clock = _step(loop, clock)
    return trace_of(loop.rows, [LOOP_SITES] * n_pes)


def _step(loop: _Loop, clock: list[float]) -> list[float]:
    n, begun, size = loop.n_pes, list(clock), 512 << 10
    signals, sent = [loop.new_flow() for _ in range(n)], [0.0] * n
    for pe in range(n):
        right, t = (pe + 1) % n, clock[pe] + 2000
        t = loop.add(pe, t, t + loop.takes(pe, 90), MATMUL, Kind.LAUNCH)
        flow = loop.new_flow()
        put = loop.add(
            *(pe, t, t + loop.takes(pe, 60), PUT, Kind.PUT),
            size=size, peer=right, thread=Thread.TASKS, flow=flow,
        )  # fmt: skip
        t = loop.add(pe, t + 1500, t + 1500 + loop.takes(pe, 40), SOFTMAX, Kind.LAUNCH)
        t = loop.add(pe, t, max(t + 1000, put + 800), QUIET, Kind.COMPLETE, flow=flow)
        sent[pe] = clock[pe] = loop.add(
            pe, t, t + 1200, SIGNAL, Kind.SIGNAL, size=8, peer=right, flow=signals[right]
        )
    reduce = loop.new_flow()
    arrived = []
    for pe in range(n):
        t = clock[pe] + 900
        t = loop.add(
            *(pe, t, max(t + 700, sent[pe - 1] + 2500), WAIT, Kind.WAIT),
            flow=signals[pe], peer=(pe - 1) % n,
        )  # fmt: skip
        back = t
        t = loop.add(
            pe, t + 800, t + 800 + loop.takes(pe, 70), MATMUL, Kind.LAUNCH, thread=Thread.BACKWARD
        )
        loop.add(pe, back, t + 500, BACKWARD, Kind.RANGE)
        arrived.append(t + 2000)
    together = max(arrived)
    barrier = loop.new_flow()
    done = []
    for pe in range(n):
        end = together + loop.takes(pe, 35)
        loop.add(pe, arrived[pe], end, REDUCE, Kind.COLLECTIVE, size=1 << 20, flow=reduce)
        turn = together + 3000
        loop.add(pe, turn, turn + 20_000, REDUCE, Kind.TURN, size=1 << 18, thread=Thread.SERVER)
        done.append(end + 3000)
    for pe in range(n):
        end = loop.add(pe, done[pe], max(done) + 1500, BARRIER, Kind.BARRIER, flow=barrier)
        loop.add(pe, begun[pe] + 500, end, STEP, Kind.RANGE)
        loop.add(pe, end, end, HEAP, Kind.COUNTER, size=size)
        clock[pe] = end + 1000
    return clock


def repeated(trace: Trace, times: int) -> Trace:
    """Return a trace that does the same again and again, with flows of its own each time."""
    length = max(int((e["start"] + e["duration"]).max()) for e in trace.events)
    flows = max(int(e["flow"].max()) for e in trace.events)
    longer = []
    for events in trace.events:
        tiled = np.tile(events, times)
        turn = np.repeat(np.arange(times), len(events))
        tiled["start"] += turn * length
        tiled["flow"] += (turn * flows).astype(np.uint64) * (tiled["flow"] != 0)
        longer.append(tiled)
    return Trace(trace.meta, trace.sites, tuple(longer), trace.status, trace.lost)
