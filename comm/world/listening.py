"""``Listener``: what is told of each operation of a PE, where something is checked.

Groups of a world without a listener are :class:`~emu.comm.world.group.Group`, and do not know this module. With one
they are of the classes of :mod:`emu.comm.world.listened`, whose methods do the same and tell it.

The listener lives in each PE and shares memory with those of the other PEs: the *listeners' area* at the end of
the segment's file, as large as :class:`~emu.comm.layout.Layout` says.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from emu.comm.arrays import Array
from emu.comm.check_options import Checks

if TYPE_CHECKING:
    from emu.comm.layout import Layout
    from emu.comm.memory.segment import Segment
    from emu.comm.world.membership import Membership

_ROOM = "emu.check"
"""The package that listens. It lies above this one, which must not know it: its name alone stands here."""


class Tile(NamedTuple):
    """Memory of one heap that an operation uses."""

    pe: int
    """World number of the PE whose heap it is."""
    offset: int
    """Byte offset of the first element in the heap."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    kind: str
    """Kind of the elements, as ``dtype.kind`` has it: operations of one width and kind are atomic to each other."""


class Word(NamedTuple):
    """An integer of a heap."""

    pe: int
    offset: int
    size: int


class Progress(Protocol):
    """What the end of a task can be seen by."""

    @property
    def done(self) -> bool:
        """Whether it is over."""


class Task(Protocol):
    """An operation of a front end whose program is a graph: it comes only after what it depends on."""

    def ends_with(self, progress: Progress) -> None:
        """Say what its end can be seen by."""


class Tasks(Protocol):
    """What a checker does for such a front end."""

    def make(
        self, operation: str, origin: tuple[CodeType, int] | None, after: Iterable[Any]
    ) -> Task:
        """Return a new task, made by an instruction of the program's code, which depends on others."""

    def gather(self, after: Iterable[Any]) -> Task | None:
        """Return what comes after some tasks and does nothing itself; None: there are none."""

    def join(self, task: Any) -> None:
        """Let the program come after a task that is over."""

    def running(self, task: Any) -> AbstractContextManager[None]:
        """Let what this PE does be done by a task."""

    def silence(self) -> AbstractContextManager[None]:
        """Let no wait be told: the tasks look again what has come."""


class Listener(Protocol):
    """What a checker does when a PE does something; all world numbers."""

    @property
    def tasks(self) -> Tasks | None:
        """What is done for front ends whose programs are graphs; None: nothing."""

    def stored(
        self, operation: str, target: Tile, source: Array, *, adds: bool, nonblocking: bool
    ) -> None:
        """Note a put that was done; its completion may be later."""

    def put_dense(
        self,
        world_pe: int,
        offset: int,
        source: Array,
        dtype: tuple[int, int, str] | None,
        nbytes: int,
    ) -> bool:
        """Do a put of dense memory; return whether a dead PE's lock was recovered.

        Args:
            world_pe: To whom.
            offset: Where in its heap.
            source: A dense array of the target's dtype.
            dtype: For an ADD: arithmetic kind, bytes and NumPy's kind of the elements. None: a SET.
            nbytes: Bytes of it; more than a word has.
        """

    def get_dense(self, world_pe: int, offset: int, target: Array, nbytes: int) -> None:
        """Do a get of dense memory into a new array."""

    def fetched(self, operation: str, source: Tile, target: Array, *, nonblocking: bool) -> None:
        """Note a get."""

    def stored_word(
        self, operation: str, word: Word, value: int, source: Array, *, nonblocking: bool
    ) -> None:
        """Do a put of one integer, which others may wait for; ``value`` has its bits."""

    def put_signal(
        self,
        operation: str,
        target: Tile,
        source: Array,
        signal: tuple[Word, int, int],
        *,
        adds: bool,
        nonblocking: bool,
    ) -> None:
        """Note the put of a put_signal that was done, and do its signal: (word, operation, value)."""

    def atomic(
        self, operation: str, word: Word, code: int, value: int, expected: int, *, fetches: bool
    ) -> int:
        """Do an atomic operation (:mod:`emu.comm.sync.signals`), and return the old value."""

    def start_atomic(self, operation: str, word: Word, code: int, value: int, expected: int) -> int:
        """Do a non-blocking atomic operation, whose result the program may use after ``quiet``; return the old value."""

    def got(self, operation: str, target: Array) -> None:
        """Note that the result of a non-blocking operation was stored."""

    def signal(self, world_pe: int, offset: int, size: int, adds: bool, value: int) -> None:
        """Do a SET or an ADD of a word of ``size`` bytes."""

    def waited(self, operation: str, words: list[tuple[Word, int, int]]) -> None:
        """Note that conditions on this PE's words, (word, comparison, value), were seen to hold."""

    def fence(self) -> None:
        """Note a fence."""

    def quiet(self) -> None:
        """Note that this PE's stores are complete."""

    def enter(
        self, operation: str, group: Membership, inputs: list[Array], *, completes: bool = False
    ) -> int:
        """Note that this PE comes to a barrier or a collective; return a number for :meth:`leave`.

        Args:
            operation: Its name.
            group: Whose it is.
            inputs: What it reads.
            completes: Whether all stores of this PE are complete then.
        """

    def leave(
        self,
        operation: str,
        group: Membership,
        entered: int,
        members: Sequence[int],
        outputs: list[Array],
    ) -> None:
        """Note that this PE leaves it, after what ``members`` had done when they came."""

    def locked(self, word: Word) -> None:
        """Note that this PE got the lock at a word."""

    def unlocks(self, word: Word) -> None:
        """Note that this PE is about to release the lock."""

    def allocated(self) -> None:
        """Note that this PE got memory, which others may have freed."""

    def frees(self, offset: int, nbytes: int) -> None:
        """Note that this PE frees memory of the heaps."""

    def view(self, array: Array) -> Array:
        """Return the memory of a heap as an array whose uses by the program are noted."""

    def used(self, operation: str, array: Array, *, writes: bool) -> None:
        """Note that the program reads, or writes, an array itself, if that is in a heap."""

    @property
    def finds_races(self) -> bool:
        """Whether races are looked for; else the program's own uses of memory need not be told."""

    def used_spans(
        self,
        operation: str,
        spans: Array,
        *,
        writes: bool,
        atomic: tuple[str, int] | None = None,
    ) -> None:
        """Note that code which the program has emu run for it reads, or writes, memory of heaps.

        Args:
            operation: What does so.
            spans: Rows of addresses: the first byte and the one behind, ascending and apart.
            writes: Whether it writes.
            atomic: Of atomic operations, the kind and the bytes of the elements.
        """

    def begins_unseen_order(self) -> None:
        """Note that such code may find an order with other PEs from now on, or give them one, which nobody can see."""

    def ends_unseen_order(self) -> None:
        """Note that it is over, and may have waited for all that others have done."""

    def open_scope(self, tile: Tile, *, writes: bool) -> int:
        """Note that the program reads, or writes, memory unseen from now on; return a number for :meth:`close_scope`."""

    def close_scope(self, scope: int, tile: Tile, *, writes: bool) -> None:
        """Note that it does so no more."""

    def finish(self) -> None:
        """Note that the PE's function has returned."""


class Findings(Exception):
    """The error that has what was found; the room has a class of its own."""

    reports: tuple[Any, ...]
    results: list[Any]


class Collector(Protocol):
    """What reads, in the launcher, what the PEs' listeners find."""

    def read_new(self, *, leaks: bool) -> Findings | None:
        """Return the error that has what was found since the last call; None: nothing."""


class Room(Protocol):
    """What the launcher and the PEs need of the package that listens."""

    def area_bytes(self, layout: Layout, checks: Checks) -> int:
        """Return how large the listeners' area must be."""

    def listen(
        self, segment: Segment, me: int, pe: int, checks: Checks, between: int = 0
    ) -> Listener:
        """Return the listener of a PE; ``between``: frames between what tells it and who calls that."""

    def make_collector(self, segment: Segment) -> Collector:
        """Return what reads the findings of a world's PEs."""


def load_room() -> Room:
    """Return the package that listens."""
    return cast("Room", importlib.import_module(_ROOM))
