"""Tasks: work of a PE that comes only after what it depends on, whatever the PE did before.

A front end whose program is a graph makes a task for each operation, with the tasks that it depends on. The clock of a task
is what those knew at their ends, what the program knew when it made the task, and what the task's own waits acquire. While a
task runs, its clock stands in the place of the program's.

*Chains.* An access has a time on a line, so each task needs one. A PE has some chains of tasks for that: a task takes a chain
whose last task is over and comes before it: the chain of one that it depends on, or one that the program has waited for. So few
chains are enough, and those of a graph that has ended are used again. Where all are in use by others, a task
joins the chain that was used the longest time ago, and counts as one that comes after it: that can hide a race, and makes none up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType

import numpy as np

from emu.check.area import (
    STATE_WORDS,
    T_FIRST,
    T_LAST,
    T_LINE,
    T_SERIAL,
    T_SITE,
    TASK_WORDS,
    TASKS,
    Area,
)
from emu.check.races import clocks as c
from emu.check.races import operations as do
from emu.check.races.sites import Site, Sites
from emu.comm.arrays import Bytes, Words
from emu.comm.world.listening import Progress


class Task:
    """An operation of a graph, or a point that several of them lead to.

    Attributes:
        after: The tasks that it depends on, until its clock has all that they knew.
        clock: What it knows.
        site: The line of the program; None: it does nothing itself.
        serial: Its number among the PE's.
        chain: Number of its chain; -1: it has none yet.
        first: Its first time there.
        progress: What says whether it is over; None: it is not known yet.
    """

    __slots__ = ("after", "chain", "clock", "first", "progress", "serial", "site")

    def __init__(
        self, after: tuple[Task, ...], clock: Words | None, site: Site | None, serial: int
    ) -> None:
        self.after = after
        self.clock = clock
        self.site = site
        self.serial = serial
        self.chain = -1
        self.first = 0
        self.progress: Progress | None = None

    @property
    def is_over(self) -> bool:
        """Whether it knows all that it ever will."""
        if self.site is None:
            return not self.after
        return self.progress is not None and self.progress.done

    def ends_with(self, progress: Progress) -> None:
        """Say what its end can be seen by."""
        self.progress = progress


class Tasks:
    """The tasks of one PE.

    Args:
        area: Layout of the listeners' area.
        memory: That area.
        pe: The PE.
        sites: Its lines of the program.
    """

    def __init__(self, area: Area, memory: Bytes, pe: int, sites: Sites) -> None:
        self._sites = sites
        self._pe = pe
        start = area.states + pe * area.state_bytes
        self._state = int(memory.ctypes.data) + start
        self._words: Words = memory[start : start + 8 * STATE_WORDS].view(np.int64)
        first = start + 8 * STATE_WORDS
        self._known: Words = memory[first : first + 8 * area.lines].view(np.int64)
        self._lines = slice(area.base_lines + pe, area.lines, area.n_pes)
        first = area.tasks + pe * area.tasks_bytes
        self._log: Words = (
            memory[first : first + area.tasks_bytes].view(np.int64).reshape(TASKS, -1)
        )
        self._made = 0
        self._owners: list[Task] = []
        """The last task of each chain that is in use."""
        self._times = np.zeros(area.chains, np.int64)
        self._uses = np.zeros(area.chains, np.int64)
        self._entered = 0
        self._before: Words | None = None
        """The clock of the program, while a task runs."""
        self.is_silent = False
        """Whether waits are not told: they are for what a task waits for."""

    def make(
        self, operation: str, origin: tuple[CodeType, int] | None, after: Iterable[Task]
    ) -> Task:
        """Return a new task.

        Args:
            operation: What it does.
            origin: The program's code that makes it, and the instruction; None: they are not known.
            after: What it depends on.
        """
        self._made += 1
        clock = self._known.copy()
        self._known[self._pe] += 1  # what the program does from now on is not before the task
        site = Site(0, is_own=True) if origin is None else self._sites.at(operation, *origin)
        return Task(tuple(dict.fromkeys(after)), clock, site, self._made)

    def gather(self, after: Iterable[Task]) -> Task | None:
        """Return what comes after some tasks and does nothing itself; None: there are none."""
        found: dict[Task, None] = {}
        for task in after:
            if task.site is None and task.after:
                found.update(dict.fromkeys(task.after))
            else:
                found[task] = None
        tasks = tuple(found)
        if len(tasks) < 2:
            return tasks[0] if tasks else None
        gathered = Task(tasks, None, None, 0)
        self._clock_of(gathered)
        return gathered

    def join(self, task: Task) -> None:
        """Let the program come after a task that is over."""
        clock = self._clock_of(task)
        if clock is not None:
            np.maximum(self._known, clock, out=self._known)

    def _clock_of(self, task: Task) -> Words | None:
        """Return what a task knows by now; what tasks lead to knows it for good once they are over."""
        if task.site is not None or not task.after:
            return task.clock
        clocks = [each for each in map(self._clock_of, task.after) if each is not None]
        clock: Words = np.maximum.reduce(clocks)
        if all(each.is_over for each in task.after):
            task.clock, task.after = clock, ()
        return clock

    @contextmanager
    def running(self, task: Task) -> Iterator[None]:
        """Let what this PE does be done by a task."""
        self._enter(task)
        try:
            yield
        finally:
            self._leave(task)

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Let no wait be told: the tasks look again what has come."""
        self.is_silent = True
        try:
            yield
        finally:
            self.is_silent = False

    def _enter(self, task: Task) -> None:
        assert task.site is not None
        assert self._before is None
        assert task.clock is not None
        after = task.after
        clock = task.clock
        for each in after:
            knows = self._clock_of(each)
            if knows is not None:
                clock = np.maximum(clock, knows)
        if all(each.is_over for each in after):
            task.after = ()
        if task.chain < 0:
            self._choose_chain(task, clock, after)
        self._before = self._known.copy()
        self._known[:] = clock
        line = self._line(task.chain)
        self._times[task.chain] += 1
        self._known[line] = self._times[task.chain]
        task.first = task.first or int(self._times[task.chain])
        self._entered += 1
        self._uses[task.chain] = self._entered
        self._words[c.S_LINE] = line
        self._sites.task = task.site

    def _leave(self, task: Task) -> None:
        assert self._before is not None
        task.clock = self._known.copy()
        self._times[task.chain] = task.clock[self._line(task.chain)]
        self._known[:] = self._before
        self._before = None
        self._words[c.S_LINE] = self._pe
        self._sites.task = None
        self._note(task)

    def _line(self, chain: int) -> int:
        return int(self._lines.start + chain * self._lines.step)

    def _choose_chain(self, task: Task, clock: Words, after: tuple[Task, ...]) -> None:
        """Give a task a chain whose last task is over and before it, a new one, or that of the longest rest."""
        owners = self._owners
        for each in after:
            if each.chain >= 0 and owners[each.chain] is each and each.is_over:
                task.chain = each.chain
                owners[each.chain] = task
                return
        used = len(owners)
        over = clock[self._lines][:used] >= self._times[:used]
        for chain in np.flatnonzero(over).tolist():
            if owners[chain].is_over:
                task.chain = chain
                owners[chain] = task
                return
        if used < self._times.size:
            owners.append(task)
            do.do_use_chains(self._state, used + 1)
            task.chain = used
            return
        resting = [chain for chain in range(used) if owners[chain].is_over] or range(used)
        task.chain = min(resting, key=lambda chain: int(self._uses[chain]))
        owners[task.chain] = task

    def _note(self, task: Task) -> None:
        """Write what reports need to know of a task."""
        assert task.site is not None
        assert task.clock is not None
        row = self._log[task.serial % TASKS]
        row[T_SERIAL] = task.serial
        row[T_SITE] = task.site.number
        row[T_LINE] = line = self._line(task.chain)
        row[T_FIRST], row[T_LAST] = task.first, task.clock[line]
        row[TASK_WORDS:] = task.clock
