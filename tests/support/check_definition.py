"""What a race between PEs is, by sets: slow, and nothing is left out.

Each access is an event with a number. What a PE *knows* is the set of all accesses that are over for it. A put is on its way
until ``quiet``; ``fence`` puts it before what is sent to the same PE later. A signal carries what its sender knows, what that
has fenced for the target, and the sender's atomic operations so far; a put_signal carries its own put, too. What a scope uses
is over when it is closed.

A *task* knows what the program knew when it made the task, what the tasks knew that it depends on, and what it has
learnt itself; all that it does is over at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Event:
    """An access of bytes ``low`` to before ``high`` of a heap."""

    number: int
    pe: int
    heap: int
    low: int
    high: int
    writes: bool
    atomic: int
    """Class of what it is atomic with; 0: it is not."""

    def conflicts(self, other: Event) -> bool:
        """Return whether two accesses of the same bytes conflict."""
        if self.heap != other.heap or self.low >= other.high or other.low >= self.high:
            return False
        return (self.writes or other.writes) and not (self.atomic and self.atomic == other.atomic)


@dataclass
class Version:
    """A value of a signal word, and what whoever sees it knows."""

    value: int
    carried: frozenset[int]
    is_put: bool = False
    """Whether a put stored it, which is not atomic."""
    published: int = -1
    """Number of the event that it was published."""


@dataclass(eq=False)
class Task:
    """An operation of a graph; one that gathers only stands for what it comes after."""

    after: Sequence[Task]
    own: set[int]
    gathers: bool = False

    @property
    def known(self) -> set[int]:
        """What it knows."""
        return set().union(*(task.known for task in self.after)) if self.gathers else self.own


@dataclass
class Program:
    """The accesses of some PEs so far, and what each of them knows."""

    n_pes: int
    events: list[Event] = field(default_factory=list)
    races: list[tuple[Event, Event]] = field(default_factory=list)

    def __post_init__(self) -> None:
        n = range(self.n_pes)
        self.known: list[set[int]] = [set() for _ in n]
        self.ordered: list[dict[int, set[int]]] = [defaultdict(set) for _ in n]
        self.sent: list[dict[int, set[int]]] = [defaultdict(set) for _ in n]
        self.reading: list[set[int]] = [set() for _ in n]
        self.atomics: list[set[int]] = [set() for _ in n]
        self.versions: dict[tuple[int, int], list[Version]] = defaultdict(list)
        self.seen: dict[tuple[int, int, int], int] = defaultdict(int)
        self.lock_clock: set[int] = set()
        self.inside: list[set[int]] = [set() for _ in n]
        self.in_task: set[int] = set()
        """PEs of which a task runs."""

    def _access(
        self,
        pe: int,
        span: tuple[int, int, int],
        *,
        writes: bool,
        atomic: int = 0,
        target: int | None = None,
    ) -> int:
        """Add an access, and the races that it has with earlier ones; ``target``: it is sent there."""
        event = Event(len(self.events), pe, *span, writes, atomic)
        over = self.known[pe] | self.inside[pe]
        if target is not None:
            over = over | self.ordered[pe][target]
        self.races += [
            (e, event) for e in self.events if e.conflicts(event) and e.number not in over
        ]
        self.events.append(event)
        return event.number

    def local(self, pe: int, span: tuple[int, int, int], *, writes: bool) -> None:
        """Load or store, or an operation that is over when it returns."""
        self.known[pe].add(self._access(pe, span, writes=writes))

    def open_scope(self, pe: int, span: tuple[int, int, int], *, writes: bool) -> int:
        """Use memory all the time until :meth:`close_scope`: only this PE's own accesses until then have an order."""
        number = self._access(pe, span, writes=writes)
        self.inside[pe].add(number)
        return number

    def close_scope(self, pe: int, number: int) -> None:
        """Use it no more."""
        self.inside[pe].remove(number)
        self.known[pe].add(number)

    def put(self, pe: int, span: tuple[int, int, int], *, atomic: int = 0) -> int:
        """Send; ``atomic``: an ADD."""
        number = self._access(pe, span, writes=True, atomic=atomic, target=span[0])
        self.sent[pe][span[0]].add(number)
        return number

    def read_later(self, pe: int, span: tuple[int, int, int], *, writes: bool = False) -> None:
        """Read the source of a non-blocking put, or do a part of a non-blocking get."""
        self.reading[pe].add(self._access(pe, span, writes=writes))

    def fence(self, pe: int) -> None:
        """Order what was sent before what is sent to the same PE later."""
        for target in range(self.n_pes):
            self.ordered[pe][target] |= self.sent[pe][target] | self.atomics[pe]

    def quiet(self, pe: int) -> None:
        """Complete what was sent."""
        for target in range(self.n_pes):
            self.known[pe] |= self.sent[pe][target]
        self.known[pe] |= self.atomics[pe] | self.reading[pe]

    def barrier(self) -> None:
        """Let all PEs know what each knows, all that they have sent included."""
        for pe in range(self.n_pes):
            self.quiet(pe)
        self.sync()

    def sync(self) -> None:
        """Let all PEs know what each knows."""
        everything = set().union(*self.known)
        for pe in range(self.n_pes):
            self.known[pe] |= everything

    def _publish(
        self,
        pe: int,
        word: tuple[int, int],
        value: int,
        *,
        adds: bool,
        put: int,
        is_put: bool = False,
    ) -> None:
        carried = self.known[pe] | self.ordered[pe][word[0]] | self.atomics[pe]
        if put >= 0:
            carried |= {put}
        versions = self.versions[word]
        if adds and versions and not versions[-1].is_put:
            carried |= versions[-1].carried
        published = Event(len(self.events), pe, -1, 0, 0, False, 0)
        self.events.append(published)
        self.known[pe].add(published.number)
        carried |= {published.number}
        versions.append(Version(value, frozenset(carried), is_put, published.number))

    def signal(
        self, pe: int, word: tuple[int, int], value: int, size: int, *, adds: bool, put: int = -1
    ) -> None:
        """Set or add to a word (heap, offset), which then has a value."""
        heap, offset = word
        span = (heap, offset, offset + size)
        number = self._access(pe, span, writes=True, atomic=size, target=heap)
        self.atomics[pe].add(number)
        self._publish(pe, word, value, adds=adds, put=put)

    def update(
        self, pe: int, word: tuple[int, int], value: int, size: int, *, writes: bool, adds: bool
    ) -> None:
        """Fetch a word, and perhaps change it; it then has a value."""
        heap, offset = word
        versions = self.versions[word]
        if versions and not versions[-1].is_put:
            self.known[pe] |= versions[-1].carried
            if pe not in self.in_task:
                self.seen[pe, heap, offset] = len(versions)
        number = self._access(pe, (heap, offset, offset + size), writes=writes, atomic=size)
        self.known[pe].add(number)
        if writes:
            self._publish(pe, word, value, adds=adds, put=-1)

    def put_word(self, pe: int, word: tuple[int, int], value: int, size: int) -> None:
        """Put one integer, which others may wait for."""
        heap, offset = word
        number = self.put(pe, (heap, offset, offset + size))
        self._publish(pe, word, value, adds=False, put=number, is_put=True)

    def wait(
        self, pe: int, offset: int, holds: Callable[[int], bool], size: int, most: int
    ) -> None:
        """Wait for a word of the PE's own; only the ``most`` last values are remembered."""
        versions = self.versions[pe, offset]
        seen = self.seen[pe, pe, offset]
        if pe in self.in_task:
            # Of those that are remembered: what is known to have been there, or later.
            seen = 0
            for number in range(max(0, len(versions) - most), len(versions)):
                if versions[number].published in self.known[pe]:
                    seen = number
        oldest = max(seen, len(versions) - most)
        for number in range(oldest, len(versions)):
            if holds(versions[number].value):
                self._join(pe, offset, number)
                break
        else:
            if oldest > seen:
                self._join(pe, offset, len(versions) - 1)
        span = (pe, offset, offset + size)
        self.known[pe].add(self._access(pe, span, writes=False, atomic=size))

    def _join(self, pe: int, offset: int, number: int) -> None:
        self.known[pe] |= self.versions[pe, offset][number].carried
        if pe not in self.in_task:
            self.seen[pe, pe, offset] = number + 1

    # --- tasks

    def make_task(self, pe: int, after: Sequence[Task]) -> Task:
        """Return a new task that comes after others."""
        return Task(after, set(self.known[pe]))

    @contextmanager
    def running(self, pe: int, task: Task) -> Iterator[None]:
        """Let a task do what a PE does: what it does is over at once."""
        before = self.known[pe]
        self.known[pe] = task.own.union(*(each.known for each in task.after))
        self.in_task.add(pe)
        yield
        task.own, self.known[pe] = self.known[pe], before
        self.in_task.remove(pe)

    def join(self, pe: int, task: Task) -> None:
        """Let the program come after a task."""
        self.known[pe] |= task.known

    def store(self, pe: int, span: tuple[int, int, int], *, atomic: int = 0) -> None:
        """Put, ADD or signal in a task."""
        self.known[pe].add(self._access(pe, span, writes=True, atomic=atomic))

    def task_signal(
        self, pe: int, word: tuple[int, int], value: int, size: int, *, adds: bool
    ) -> None:
        """Signal in a task."""
        self.store(pe, (word[0], word[1], word[1] + size), atomic=size)
        self._publish(pe, word, value, adds=adds, put=-1)
