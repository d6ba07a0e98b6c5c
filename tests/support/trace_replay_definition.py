"""What a replay means: one nanosecond after the other, every lane does what it can.

Slow and plain. It shares with :mod:`emu.trace.prediction.replay` what the steps of a lane are, and which events depend on which.
"""

from __future__ import annotations

from typing import Any

from emu.trace.events import Kind
from emu.trace.prediction.dependencies import dependencies_of
from emu.trace.prediction.replay import Costs
from emu.trace.prediction.steps import Do, steps_of
from emu.trace.reading import Trace

LONGEST = 200_000


class Definition:
    """A run, tick by tick."""

    def __init__(self, trace: Trace, costs: Costs) -> None:
        self.trace, self.costs = trace, costs
        self.steps = [steps_of(trace, pe) for pe in range(trace.n_pes)]
        self.edges = dependencies_of(trace, self.steps)
        self.lanes = [
            {
                "pe": lane.pe,
                "steps": list(lane.steps),
                "host": 0,
                "stream": 0,
                "doing": None,
                "open": [],
            }
            for of_pe in self.steps
            for lane in of_pe.lanes
        ]
        self.began: dict[Any, int] = {}
        self.effect: dict[Any, int] = {}
        self.times: dict[Any, tuple[int, int]] = {}
        self.messages: list[tuple[int, int, int, int, int]] = []
        """Sender, receiver, when both ports are free again, when the path is, arrival; in the order in which they passed."""
        self.device_busy = [0] * trace.n_pes
        self.arrivals: list[list[int]] = [[] for _ in range(trace.n_pes)]
        self.met: dict[Any, dict[Any, int]] = {}

    def run(self) -> dict[Any, tuple[int, int]]:
        """Return begin and end of each event that is a step."""
        for now in range(LONGEST):
            while any(self.act(lane, now) for lane in self.lanes):
                pass
            if not any(lane["steps"] for lane in self.lanes):
                return self.times
        raise AssertionError("the run does not end")

    def row(self, event: Any) -> Any:
        return self.trace.events[event[0]][event[1]]

    def act(self, lane: dict[str, Any], now: int) -> bool:
        """Do the next thing of a lane if it can be done now; any() begins again at the first lane."""
        if lane["doing"] is not None:
            return self.end(lane, now)
        if not lane["steps"]:
            return False
        step, pe = lane["steps"][0], lane["pe"]
        event = (pe, step.event)
        is_event = step.do in (Do.EVENT, Do.OPEN)
        launches = step.do is Do.EVENT and (self.costs.launches(event) or 0) > 0
        launches |= step.do is Do.OPEN and self.row(event)["kind"] == Kind.LAUNCH
        ready = max(lane["host"], lane["stream"])
        if launches:
            ready = max(
                lane["stream"],
                lane["host"] + max(self.costs.launch_latency, self.costs.launch_issue),
            )
        come = self.effect.get(self.edges.begins_when.get(event), LONGEST)
        if is_event and event in self.edges.begins_when and come > now:
            return False
        if is_event and event in self.edges.begins_after:
            cause = self.edges.begins_after[event]
            if cause not in self.began:
                return False
            ready = max(ready, self.began[cause])
        if now < ready:
            return False
        getattr(self, step.do.name.lower())(lane, step, event, now)
        return True

    def gap(self, lane: dict[str, Any], step: Any, event: Any, now: int) -> None:
        lane["host"] += self.costs.host(step.ns)
        lane["steps"].pop(0)

    def mark(self, lane: dict[str, Any], step: Any, event: Any, now: int) -> None:
        self.times[event] = (now, now)
        lane["steps"].pop(0)

    def compute(self, lane: dict[str, Any], step: Any, event: Any, now: int) -> None:
        recorded = self.steps[event[0]].compute[event[1]]
        share = round(self.costs.compute(event, recorded) * step.ns / recorded)
        lane["host"] = lane["stream"] = now + share
        lane["steps"].pop(0)

    def open(self, lane: dict[str, Any], step: Any, event: Any, now: int) -> None:
        self.began[event] = now
        lane["open"].append(now)
        if self.row(event)["kind"] == Kind.LAUNCH:
            lane["host"] = lane["stream"] = now
        lane["steps"].pop(0)

    def close(self, lane: dict[str, Any], step: Any, event: Any, now: int) -> None:
        self.times[event] = (lane["open"].pop(), now)
        self.effect[event] = now
        lane["steps"].pop(0)

    def event(self, lane: dict[str, Any], step: Any, event: Any, now: int) -> None:
        """Begin an event; it ends by itself at ``until``."""
        row, pe = self.row(event), event[0]
        kind, size, peer = int(row["kind"]), int(row["size"]), int(row["peer"])
        self.began[event] = now
        until, busy = now, 0
        remote = 0 <= peer < self.trace.n_pes and peer != pe
        if event in self.edges.meetings:
            pass  # it ends when all have come
        elif kind in (Kind.PUT, Kind.SIGNAL, Kind.ATOMIC, Kind.GET) and not remote:
            until = self.effect[event] = now + self.costs.copy(size)
        elif kind == Kind.GET:
            latency = self.costs.message(size).latency
            until = self.passes(peer, pe, now + latency, size)[1]
        elif kind in (Kind.PUT, Kind.SIGNAL, Kind.ATOMIC):
            sent, arrived = self.passes(pe, peer, now, size)
            self.effect[event] = arrived
            self.arrivals[pe].append(arrived)
            until = arrived + self.costs.message(size).latency if kind == Kind.ATOMIC else sent
        elif kind == Kind.TURN and size > 0:
            others = [peer] if remote else [p for p in range(self.trace.n_pes) if p != pe]
            share = -(-size // len(others)) if others else 0
            until = max(
                (self.passes(p, pe, now, share)[1] for p in others),
                default=now + self.costs.copy(size),
            )
        elif kind in (Kind.LAUNCH, Kind.OP, Kind.TURN):
            busy = self.costs.compute(event, int(row["duration"]))
            until = self.device_busy[pe] = max(now, self.device_busy[pe]) + busy
        elif kind == Kind.COMPLETE:
            until = max([now, *self.arrivals[pe]])
        if event in self.edges.meetings:
            ready = max([now, *self.arrivals[pe]]) if kind == Kind.BARRIER else now
            self.met.setdefault(self.edges.meetings[event], {})[event] = ready
        lane["doing"] = (event, now, until, busy)

    def passes(self, sender: int, receiver: int, now: int, size: int) -> tuple[int, int]:
        what = self.costs.message(size)
        begin = now
        for earlier in self.messages:
            if earlier[0] == sender or earlier[1] == receiver:
                begin = max(begin, earlier[2])
            if earlier[:2] == (sender, receiver):
                begin = max(begin, earlier[3])
        sent = begin + max(what.port, what.path)
        self.messages.append(
            (sender, receiver, begin + what.port, begin + what.path, sent + what.latency)
        )
        return sent, sent + what.latency

    def end(self, lane: dict[str, Any], now: int) -> bool:
        event, begun, until, busy = lane["doing"]
        kind = int(self.row(event)["kind"])
        if now < until and event not in self.edges.meetings:
            return False
        if any(
            self.effect.get(cause, LONGEST) > now for cause in self.edges.ends_after.get(event, ())
        ):
            return False
        if event in self.edges.meetings:
            members = self.edges.meetings[event]
            ready = self.met[members]
            if len(ready) < len(members):
                return False
            if now < max(ready.values()) + self.costs.meeting(event, len(members)):
                return False
        computes = kind in (Kind.LAUNCH, Kind.OP)
        self.times[event] = (now - busy if computes else begun, now)
        self.effect.setdefault(event, now)
        launches = self.costs.launches(event)
        lane["host"] = (
            now if launches is None else lane["host"] + launches * self.costs.launch_issue
        )
        lane["stream"] = now
        lane["doing"] = None
        lane["steps"].pop(0)
        return True
