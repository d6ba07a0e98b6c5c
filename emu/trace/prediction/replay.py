"""Event-driven replay: the recorded order, with predicted durations.

Each lane goes through its steps. It has two clocks: its *host*, which issues what is done, and its *stream*, on which that is done. A kernel
begins when the stream is free and its launch has arrived, and the host goes on at once; whatever communicates holds up the host until it has ended. Kernels
of a PE share its device, messages share ports. The next step is always the one that is ready first; of several, that of the first lane. So a lane waits for others, a
straggler delays those who wait for it, and what overlaps overlaps.

All times are whole nanoseconds.

Internal: names may change in any release.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from emu.trace.events import Kind, Thread
from emu.trace.prediction.dependencies import Dependencies, Event, dependencies_of
from emu.trace.prediction.errors import PredictionError
from emu.trace.prediction.links import LONGEST_S, Message, Ports
from emu.trace.prediction.steps import Do, Lane, PeSteps, Step, steps_of
from emu.trace.reading import Trace

_LONGEST = round(LONGEST_S * 1e9)
_LAUNCHES = (Kind.LAUNCH, Kind.OP)
_MESSAGES = (Kind.PUT, Kind.GET, Kind.SIGNAL, Kind.ATOMIC)


class Costs(Protocol):
    """What events take."""

    launch_latency: int
    """From a launch's call until its first program runs."""
    launch_issue: int
    """How long a launch's call holds up the host."""

    def host(self, ns: int) -> int:
        """Return how long a recorded gap takes."""

    def compute(self, event: Event, recorded: int) -> int:
        """Return how long a kernel, an operation or a turn computes, which took so long here."""

    def launches(self, event: Event) -> int | None:
        """Return how many kernels the host launches for an event; None: it does it itself, or waits for it."""

    def message(self, nbytes: int) -> Message:
        """Return what a message occupies."""

    def copy(self, nbytes: int) -> int:
        """Return how long a copy within a device takes."""

    def meeting(self, event: Event, members: int) -> int:
        """Return how long a barrier, a collective or a turn takes once all members have come."""


@dataclass
class Replayed:
    """Predicted times.

    Attributes:
        begin: For each PE, when each of its events begins; nanoseconds from the start of the run.
        end: When each ends.
        waited: How long each waited for another PE or lane, for a port or for its device.
        pieces: For each PE, begin and end of what kernels that communicate compute.
        divided: For each PE, kernels that communicate: they contain others, and are predicted all the same.
        whole: For each PE, whether an event was predicted as a whole: it is neither part of another nor contains others.
        unmatched: Waits of which nothing is known that ended them: they take no time.
    """

    begin: list[npt.NDArray[np.int64]]
    end: list[npt.NDArray[np.int64]]
    waited: list[npt.NDArray[np.int64]]
    pieces: list[list[tuple[int, int]]]
    divided: list[frozenset[int]]
    whole: list[npt.NDArray[np.bool_]]
    unmatched: list[Event]

    @property
    def total(self) -> int:
        """When the last event ends."""
        return max((int(ends.max()) for ends in self.end if len(ends)), default=0)


def replay(trace: Trace, costs: Costs) -> Replayed:
    """Replay a trace.

    Raises:
        PredictionError: Its events wait for each other in a circle: it is no trace of a run.
    """
    steps = [steps_of(trace, pe) for pe in range(trace.n_pes)]
    return _Replay(trace, costs, steps, dependencies_of(trace, steps)).run()


@dataclass(slots=True)
class _LaneState:
    lane: Lane
    place: int = 0
    host: int = 0
    stream: int = 0
    begun: int = 0
    """When the event that is under way has begun; ``natural``: when it would end if it need not wait."""
    natural: int = -1
    waits_for: int = 0
    opened: list[int] = field(default_factory=list)


class _Replay:
    def __init__(
        self, trace: Trace, costs: Costs, steps: Sequence[PeSteps], edges: Dependencies
    ) -> None:
        self._trace, self._costs, self._steps, self._edges = trace, costs, steps, edges
        self._kind: list[list[int]] = [events["kind"].tolist() for events in trace.events]
        self._size: list[list[int]] = [events["size"].tolist() for events in trace.events]
        self._duration: list[list[int]] = [events["duration"].tolist() for events in trace.events]
        self._peer: list[list[int]] = [events["peer"].tolist() for events in trace.events]
        sizes = [len(events) for events in trace.events]
        self._begin = [np.zeros(n, np.int64) for n in sizes]
        self._end = [np.zeros(n, np.int64) for n in sizes]
        self._waited = [np.zeros(n, np.int64) for n in sizes]
        self._pieces: list[list[tuple[int, int]]] = [[] for _ in sizes]
        self._whole = [np.zeros(n, np.bool_) for n in sizes]
        self._lanes = [_LaneState(lane) for of_pe in steps for lane in of_pe.lanes]
        self._heap: list[tuple[int, int]] = []
        self._ports = Ports()
        self._device = [0] * trace.n_pes
        self._outstanding = [0] * trace.n_pes
        self._effect: dict[Event, int] = {}
        self._has_begun: dict[Event, int] = {}
        self._ready: dict[Event, int] = {}
        self._arrived: dict[tuple[Event, ...], int] = {}
        self._sleeping: dict[tuple[str, object], list[int]] = {}

    def run(self) -> Replayed:
        for number in range(len(self._lanes)):
            self._push(number)
        while self._heap:
            now, number = heapq.heappop(self._heap)
            self._step(self._lanes[number], number, now)
        for state in self._lanes:
            if state.place < len(state.lane.steps):
                self._complain(state)
        for pe in range(self._trace.n_pes):
            self._place_parts(pe)
        divided = [frozenset(of_pe.compute) for of_pe in self._steps]
        return Replayed(
            self._begin,
            self._end,
            self._waited,
            self._pieces,
            divided,
            self._whole,
            self._edges.unmatched,
        )

    # ---- steps

    def _push(self, number: int) -> None:
        """Put a lane's next step where its turn is."""
        state = self._lanes[number]
        if state.place == len(state.lane.steps):
            return
        step = state.lane.steps[state.place]
        ready = max(state.stream, state.host)
        if self._is_launch(state, step):
            ready = max(
                state.stream, state.host + max(self._costs.launch_latency, self._costs.launch_issue)
            )
        if step.do in (Do.EVENT, Do.OPEN):
            whole = self._edges.begins_when.get((state.lane.pe, step.event))
            if whole is not None:
                if whole not in self._effect:
                    self._sleeping.setdefault(("effect", whole), []).append(number)
                    return
                ready = max(ready, self._effect[whole])
            cause = self._edges.begins_after.get((state.lane.pe, step.event))
            if cause is not None:
                if cause not in self._has_begun:
                    self._sleeping.setdefault(("begin", cause), []).append(number)
                    return
                ready = max(ready, self._has_begun[cause])
        heapq.heappush(self._heap, (ready, number))

    def _is_launch(self, state: _LaneState, step: Step) -> bool:
        pe = state.lane.pe
        if step.do is Do.OPEN:
            return self._kind[pe][step.event] == Kind.LAUNCH
        return step.do is Do.EVENT and (self._costs.launches((pe, step.event)) or 0) > 0

    def _step(self, state: _LaneState, number: int, now: int) -> None:
        self._check_time(state.lane.pe, now)
        step, pe = state.lane.steps[state.place], state.lane.pe
        if step.do is Do.EVENT:
            self._event(state, number, now, (pe, step.event))
            return
        if step.do is Do.GAP:
            state.host += self._costs.host(step.ns)
        elif step.do is Do.COMPUTE:
            recorded = self._steps[pe].compute[step.event]
            share = round(self._costs.compute((pe, step.event), recorded) * step.ns / recorded)
            state.host = state.stream = now + share
            self._pieces[pe].append((now, now + share))
        elif step.do is Do.MARK:
            self._begin[pe][step.event] = self._end[pe][step.event] = now
        elif step.do is Do.OPEN:
            self._open(state, now, (pe, step.event))
        else:
            self._begin[pe][step.event] = state.opened.pop()
            self._finish((pe, step.event), int(self._begin[pe][step.event]), now, now)
        state.place += 1
        self._push(number)

    def _open(self, state: _LaneState, now: int, event: Event) -> None:
        state.opened.append(now)
        self._start(event, now)
        if self._kind[event[0]][event[1]] == Kind.LAUNCH:  # its parts are done on the stream
            state.host = state.stream = now

    # ---- events

    def _event(self, state: _LaneState, number: int, now: int, event: Event) -> None:
        """Begin an event, or look again whether it can end."""
        meeting = self._edges.meetings.get(event)
        if state.natural < 0:
            state.begun = now
            self._start(event, now)
            state.natural = self._natural_end(event, now)
            if event in self._effect:  # a message is under way, whatever its call waits for
                self._wake("effect", event)
            if meeting is not None:
                self._meet(event, meeting, now)
        causes = self._edges.ends_after.get(event, ())
        for cause in causes:
            if cause not in self._effect:
                self._sleeping.setdefault(("effect", cause), []).append(number)
                return
        if meeting is not None and self._arrived[meeting] < len(meeting):
            self._sleeping.setdefault(("met", meeting), []).append(number)
            return
        end = max([state.natural, *(self._effect[cause] for cause in causes)])
        if meeting is not None:
            end = self._met(event, meeting)
        self._end_event(state, event, end)
        state.place += 1
        self._push(number)

    def _natural_end(self, event: Event, now: int) -> int:
        pe, index = event
        kind = self._kind[pe][index]
        if event in self._edges.meetings:
            return now
        if kind in _MESSAGES:
            return self._send(event, now)
        if kind == Kind.TURN and self._size[pe][index] > 0:
            return self._turn(event, now)
        if kind in _LAUNCHES or kind == Kind.TURN:
            start = max(now, self._device[pe])
            self._device[pe] = start + self._compute(event)
            return self._device[pe]
        if kind == Kind.COMPLETE:
            return max(now, self._outstanding[pe])
        return now

    def _compute(self, event: Event) -> int:
        return self._costs.compute(event, self._duration[event[0]][event[1]])

    def _send(self, event: Event, now: int) -> int:
        """Let a message pass; return when the call that sends it returns."""
        pe, index = event
        peer, size, kind = self._peer[pe][index], self._size[pe][index], self._kind[pe][index]
        if not 0 <= peer < self._trace.n_pes or peer == pe:
            end = now + self._costs.copy(size)
            self._effect[event] = end
            return end
        what = self._costs.message(size)
        if kind == Kind.GET:  # asked for, then sent
            _, arrived = self._ports.pass_message(now + what.latency, peer, pe, what)
            return arrived
        sent, arrived = self._ports.pass_message(now, pe, peer, what)
        self._outstanding[pe] = max(self._outstanding[pe], arrived)
        if kind == Kind.ATOMIC:  # its old value comes back
            self._effect[event] = arrived
            return arrived + what.latency
        self._effect[event] = arrived
        return sent

    def _turn(self, event: Event, now: int) -> int:
        """Let the bytes of a server's turn come from all other devices; return when the last has arrived."""
        pe, index = event
        others = [p for p in range(self._trace.n_pes) if p != pe]
        peer = self._peer[pe][index]
        if 0 <= peer < self._trace.n_pes and peer != pe:
            others = [peer]
        if not others:
            return now + self._costs.copy(self._size[pe][index])
        what = self._costs.message(-(-self._size[pe][index] // len(others)))
        return max(self._ports.pass_message(now, other, pe, what)[1] for other in others)

    def _meet(self, event: Event, meeting: tuple[Event, ...], now: int) -> None:
        self._arrived[meeting] = self._arrived.get(meeting, 0) + 1
        if self._kind[event[0]][event[1]] == Kind.BARRIER:
            now = max(now, self._outstanding[event[0]])
        self._ready[event] = now
        if self._arrived[meeting] == len(meeting):
            self._wake("met", meeting)

    def _met(self, event: Event, meeting: tuple[Event, ...]) -> int:
        return max(self._ready[each] for each in meeting) + self._costs.meeting(event, len(meeting))

    def _end_event(self, state: _LaneState, event: Event, end: int) -> None:
        kind = self._kind[event[0]][event[1]]
        busy = 0 if kind in (Kind.WAIT, Kind.LOCK, Kind.COMPLETE) else state.natural - state.begun
        if event in self._edges.meetings:
            busy = self._costs.meeting(event, len(self._edges.meetings[event]))
        elif kind in _LAUNCHES:
            busy = self._compute(event)
        self._waited[event[0]][event[1]] = max(0, end - state.begun - busy)
        # A kernel is shown from when its device is free.
        self._whole[event[0]][event[1]] = True
        self._finish(event, end - busy if kind in _LAUNCHES else state.begun, end, end)
        launches = self._costs.launches(event)
        if launches is not None:
            state.host += launches * self._costs.launch_issue
        else:
            state.host = end
        state.stream = end
        state.natural = -1

    def _start(self, event: Event, now: int) -> None:
        self._begin[event[0]][event[1]] = now
        self._has_begun[event] = now
        self._wake("begin", event)

    def _check_time(self, pe: int, now: int) -> None:
        if now > _LONGEST:
            raise PredictionError(
                f"the predicted time of a run must be at most {LONGEST_S:g} s, but PE {pe} takes longer: a number of the device is too small, or host "
                "or uncounted too large"
            )

    def _finish(self, event: Event, begin: int, end: int, effect: int) -> None:
        self._check_time(event[0], end)
        self._begin[event[0]][event[1]], self._end[event[0]][event[1]] = begin, end
        self._effect.setdefault(event, effect)
        self._wake("effect", event)

    def _wake(self, what: str, key: object) -> None:
        for number in self._sleeping.pop((what, key), ()):
            state = self._lanes[number]
            if state.natural < 0:  # what it is about to do has not begun
                self._push(number)
            else:
                heapq.heappush(self._heap, (state.begun, number))

    # ---- the rest

    def _place_parts(self, pe: int) -> None:
        """Give what lies within an event that was predicted as a whole its place there."""
        within = self._steps[pe].within
        parts = np.flatnonzero(within >= 0)
        outer = within[parts]
        events = self._trace.events[pe]
        length = np.maximum(events["duration"][outer], 1).astype(np.float64)
        new = (self._end[pe][outer] - self._begin[pe][outer]).astype(np.float64)
        offset = (events["start"][parts] - events["start"][outer]) * (new / length)
        span = events["duration"][parts] * (new / length)
        self._begin[pe][parts] = self._begin[pe][outer] + np.floor(offset).astype(np.int64)
        ends = self._begin[pe][outer] + np.floor(offset + span).astype(np.int64)
        self._end[pe][parts] = np.minimum(ends, self._end[pe][outer])

    def _complain(self, state: _LaneState) -> None:
        step = state.lane.steps[state.place]
        pe = state.lane.pe
        kind = Kind(self._kind[pe][step.event]).name
        raise PredictionError(
            f"the trace cannot be replayed: event {step.event} of PE {pe} ({kind}, thread {Thread(state.lane.thread).name}) waits for "
            "events that wait for it"
        )
