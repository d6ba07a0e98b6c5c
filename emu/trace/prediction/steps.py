"""A recorded lane as steps: what is done, what contains it, and the gaps between.

What a PE does on one thread lies within each other or one after the other. Of an event that *contains* others that are predicted by themselves (a range, an
operation, a kernel that communicates) begin and end follow from these. What lies within an event that is predicted as a whole (a collective) keeps its place
in it, in proportion.

Internal: names may change in any release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from emu.trace.events import Kind, Thread
from emu.trace.reading import Trace

MARKS = frozenset({Kind.INSTANT, Kind.COUNTER, Kind.ALLOCATE, Kind.COMPILE, Kind.TUNE})
"""What takes no time on a device, or not in a run that is warm."""

COMMUNICATION = frozenset(
    {
        Kind.PUT,
        Kind.GET,
        Kind.SIGNAL,
        Kind.ATOMIC,
        Kind.WAIT,
        Kind.COMPLETE,
        Kind.BARRIER,
        Kind.COLLECTIVE,
        Kind.LOCK,
    }
)
_CONTAINERS = frozenset({Kind.RANGE, Kind.TURN})
_PARTS = frozenset(Kind) - MARKS - {Kind.RANGE}


class Do(IntEnum):
    """What a step is."""

    GAP = 0
    """Nothing that was recorded happened, outside of kernels."""
    COMPUTE = 1
    """A kernel that communicates computed."""
    OPEN = 2
    CLOSE = 3
    MARK = 4
    EVENT = 5


@dataclass(slots=True)
class Step:
    """A step.

    Attributes:
        do: What it is.
        event: Index among the events of its PE; of a GAP at the outside -1.
        ns: Recorded length of a GAP or COMPUTE.
    """

    do: Do
    event: int
    ns: int = 0


@dataclass
class Lane:
    """What runs one after the other.

    Attributes:
        pe: Its PE.
        thread: Its thread.
        steps: Its steps.
    """

    pe: int
    thread: Thread
    steps: list[Step] = field(default_factory=list)


@dataclass
class PeSteps:
    """The steps of a PE.

    Attributes:
        lanes: Its lanes: that of its program first.
        within: For each event that is part of one that is predicted as a whole: which; else -1.
        compute: For each kernel that is divided, how long it computed between what it communicated.
    """

    lanes: list[Lane]
    within: npt.NDArray[np.int64]
    compute: dict[int, int]


def steps_of(trace: Trace, pe: int) -> PeSteps:
    """Divide the events of a PE into lanes and steps.

    Operations of the thread of tasks overlap: each is a lane of its own.
    """
    events = trace.events[pe]
    made = PeSteps([], np.full(len(events), -1, np.int64), {})
    table = _Table(events)
    for thread in Thread:
        chosen = np.flatnonzero(events["thread"] == thread).tolist()
        if thread is Thread.TASKS:
            for index in chosen:
                made.lanes.append(Lane(pe, thread, _one(table, index)))
        elif chosen or thread is Thread.PROGRAM:
            made.lanes.append(Lane(pe, thread, _Flattener(table, made).steps(chosen)))
    return made


class _Table:
    """Events as lists, which are faster to read one by one."""

    def __init__(self, events: npt.NDArray[Any]) -> None:
        self.start: list[int] = events["start"].tolist()
        self.end: list[int] = (events["start"] + events["duration"]).tolist()
        self.kind: list[int] = events["kind"].tolist()


def _one(table: _Table, index: int) -> list[Step]:
    return [Step(Do.MARK if table.kind[index] in MARKS else Do.EVENT, index)]


class _Flattener:
    def __init__(self, table: _Table, made: PeSteps) -> None:
        self._table, self._made = table, made
        self._children: dict[int, list[int]] = {}
        self._steps: list[Step] = []

    def steps(self, chosen: Sequence[int]) -> list[Step]:
        """Return the steps of events that lie within each other or apart, by start."""
        table = self._table
        tops: list[int] = []
        stack: list[int] = []
        for index in chosen:
            # What overlaps another in part comes after it.
            while stack and (
                table.end[stack[-1]] <= table.start[index]
                or table.end[index] > table.end[stack[-1]]
            ):
                stack.pop()
            (self._children.setdefault(stack[-1], []) if stack else tops).append(index)
            stack.append(index)
        if tops:
            self._emit(tops)
        return self._steps

    def _emit(self, tops: Sequence[int]) -> None:
        """Append steps without recursion: nested ranges may be deep."""
        table = self._table
        # Frames: what contains them (-1: the lane), what is left of its parts, and up to when steps were made.
        frames: list[tuple[int, list[int]]] = [(-1, list(reversed(tops)))]
        cursors = [table.start[tops[0]]]
        while frames:
            outer, left = frames[-1]
            if not left:
                frames.pop()
                cursor = cursors.pop()
                if outer >= 0:
                    self._gap(outer, table.end[outer] - cursor)
                    self._steps.append(Step(Do.CLOSE, outer))
                continue
            index = left.pop()
            self._gap(outer, table.start[index] - cursors[-1])
            cursors[-1] = max(cursors[-1], table.end[index])
            if table.kind[index] in MARKS:
                self._steps.append(Step(Do.MARK, index))
                self._hide(index)
            elif self._is_container(index):
                self._steps.append(Step(Do.OPEN, index))
                if table.kind[index] == Kind.LAUNCH:
                    self._made.compute[index] = 0
                frames.append((index, list(reversed(self._children.get(index, [])))))
                cursors.append(table.start[index])
            else:
                self._steps.append(Step(Do.EVENT, index))
                self._hide(index)

    def _gap(self, outer: int, ns: int) -> None:
        if ns <= 0:
            return
        if outer in self._made.compute:
            self._made.compute[outer] += ns
            self._steps.append(Step(Do.COMPUTE, outer, ns))
        else:
            self._steps.append(Step(Do.GAP, outer, ns))

    def _is_container(self, index: int) -> bool:
        kind = self._table.kind[index]
        if kind == Kind.RANGE:
            return True
        if kind == Kind.OP:  # what only has names inside of it, as a backward pass has, is one
            return self._has(index, _PARTS)
        if kind in _CONTAINERS:
            return self._has(index, None)
        return kind == Kind.LAUNCH and self._has(index, COMMUNICATION)

    def _has(self, index: int, kinds: frozenset[Kind] | None) -> bool:
        """Return whether an event has a part of some kinds; None: of any that is not a mark."""
        left = list(self._children.get(index, ()))
        while left:
            each = left.pop()
            kind = self._table.kind[each]
            if (kind not in MARKS) if kinds is None else (kind in kinds):
                return True
            left += self._children.get(each, ())
        return False

    def _hide(self, index: int) -> None:
        """Note that all parts of an event keep their place in it."""
        left = list(self._children.get(index, ()))
        while left:
            each = left.pop()
            self._made.within[each] = index
            left += self._children.get(each, ())
