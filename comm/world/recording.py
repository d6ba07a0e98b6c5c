"""``Recorder``: what writes down what a PE does and when, where that is asked for.

Without it :data:`active` is None, which is all that code on a hot path looks at. Groups of a world that nobody records do not
know this module: with a recorder they are of classes that the room makes of theirs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

if TYPE_CHECKING:
    from emu.comm.layout import Layout
    from emu.comm.memory.segment import Segment
    from emu.comm.world.group import Group

G = TypeVar("G", bound="Group")

Details: TypeAlias = Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None
"""What is known of a site beside its name and line."""

_ROOM = "emu.trace.room"
"""The module that records. It lies above this one, which must not know it: its name alone stands here."""


class Recorder(Protocol):
    """What records the events of this process. Kinds and threads are numbers of :mod:`emu.trace.events`."""

    def here(
        self,
        kind: int,
        name: str,
        details: Details = None,
        *,
        key: object = None,
        thread: int | None = None,
    ) -> int:
        """Return the number of a site: what is done, at the line of the program that runs now.

        Args:
            kind: What an event of it is.
            name: Its name.
            details: What else is known of it, as JSON has it, or what returns that: it is called for a new site. Default: nothing.
            key: Tells sites of one name apart; it must, where details differ. Default: None.
            thread: The lane of its events. Default: that of the calling thread.
        """

    def end(self, kind: int, name: str, begun: int) -> None:
        """Record an event that ends now, at the line of the program that runs: faster than :meth:`here` and :meth:`write`.

        Args:
            kind: As for :meth:`here`.
            name: The same.
            begun: As for :meth:`write`.
        """

    def hold_line(self) -> bool:
        """Let sites of the main thread be at the line of the program that runs now, which is found once; return what undoes it."""

    def release_line(self, holds: bool) -> None:
        """Undo :meth:`hold_line`, which has returned ``holds``."""

    def site(
        self,
        kind: int,
        name: str,
        place: tuple[str, int] = ("", 0),
        details: Details = None,
        *,
        key: object = None,
        thread: int | None = None,
    ) -> int:
        """Return the number of a site at a file and a line; else as :meth:`here`."""

    def write(self, site: int, begun: int, size: int = 0, flow: int = 0, peer: int = -1) -> None:
        """Record an event that ends now.

        Args:
            site: Number of the site.
            begun: When it began: ``time.monotonic_ns()``.
            size: Bytes that it moved or allocated.
            flow: What it belongs to; 0: nothing.
            peer: World number of the other PE; -1: none.
        """

    def write_span(
        self, site: int, begun: int, ended: int, size: int = 0, flow: int = 0, peer: int = -1
    ) -> None:
        """Record an event that has ended; else as :meth:`write`."""

    def next_flow(self) -> int:
        """Return a number that no other event has."""


class Drain(Protocol):
    """What takes the events from the PEs' memory to files, in the launcher."""

    every_s: float
    """Seconds after which to call :meth:`drain` again."""

    def drain(self) -> None:
        """Take what there is."""

    def report(self, findings: Sequence[Any]) -> None:
        """Add what checks have found."""

    def finish(self, status: str) -> None:
        """Take the rest, and complete the files: ``"ok"``, or what ended the run."""


class Room(Protocol):
    """What the launcher and the PEs need of the package that records."""

    def area_bytes(self, layout: Layout, files: Sequence[str]) -> int:
        """Return how large the area of the PEs' events must be, if the files can be written; else raise an error."""

    def open_drain(self, segment: Segment, files: Sequence[str]) -> Drain:
        """Make the files; return what fills them."""

    def merge(
        self,
        parts: Sequence[bytes],
        offsets: Sequence[int],
        files: Sequence[str],
        pes_per_host: int,
    ) -> None:
        """Write one trace of the parts that hosts have recorded, whose clocks are before the first's by nanoseconds."""

    def start(self, segment: Segment, pe: int) -> None:
        """Record the events of this process, which is a PE, from now on."""

    def recorded(self, kind: type[G]) -> type[G]:
        """Return the class of groups that do what those of ``kind`` do, and record it."""


def load_room() -> Room:
    """Return the package that records."""
    return cast("Room", importlib.import_module(_ROOM))


def class_of(kind: type[G], is_recorded: bool) -> type[G]:
    """Return ``kind``, or the class of groups that do the same and record it."""
    return load_room().recorded(kind) if is_recorded else kind


active: Recorder | None = None
"""What records the events of this process; None: nothing does."""
