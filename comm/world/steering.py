"""``Steering``: what decides when a PE may do an operation, where that is not left to chance.

Groups of a world that nobody steers are :class:`~emu.comm.world.group.Group`, and do not know this module. In one that is
steered they are of the classes of :mod:`emu.comm.world.steered`, whose methods ask first.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from emu.comm.arrays import Array
from emu.comm.fault_options import Faults
from emu.comm.schedule_options import Schedule
from emu.comm.world.faulting import Faulting

if TYPE_CHECKING:
    from emu.comm.layout import Layout
    from emu.comm.memory.segment import Segment
    from emu.comm.world.membership import Membership

_ROOM, _FAULT_ROOM = "emu.schedule.room", "emu.fault"
"""The modules that steer. They lie above this one, which must not know them: their names alone stand here."""


class Span(NamedTuple):
    """Bytes of a heap that an operation uses."""

    pe: int
    """World number of the PE whose heap it is."""
    first: int
    """Byte offset of the first in the heap."""
    behind: int
    """Byte offset behind the last."""
    writes: bool


class Steering(Faulting, Protocol):
    """What decides when this PE may do something, and what goes wrong in it."""

    late: bool
    """Whether stores go through :meth:`send`, and may arrive late."""

    seed: int
    """Seed for front ends whose operations nothing orders; 0: they run in program order."""

    def point(self, operation: str, spans: Sequence[Span], *, looks: bool = False) -> None:
        """Return when this PE may do an operation.

        Args:
            operation: What it does, as a trace shows it.
            spans: Memory that it uses.
            looks: Whether it only looks, perhaps in a loop until another PE has done something.
        """

    def wait(self, operation: str, spans: Sequence[Span], holds: Callable[[], bool]) -> None:
        """Return when a condition holds and this PE may go on.

        Args:
            operation: What it does.
            spans: Memory of one PE that the condition depends on.
            holds: Whether it holds; changes nothing.
        """

    def meet(self, operation: str, group: Membership) -> AbstractContextManager[None]:
        """Return what is entered when all members of a group have come to a barrier or a collective."""

    def send(
        self, operation: str, span: Span, store: Callable[[], None], *, joins: bool = False
    ) -> None:
        """Do a store now or later.

        Args:
            operation: What it does.
            span: What it writes.
            store: Does it.
            joins: Whether it arrives together with, and behind, the one before.
        """

    def fence(self) -> None:
        """Let no later store arrive at a PE before the earlier ones have."""

    def settle(self, pe: int) -> None:
        """Let those stores arrive at a PE that a fence separates from what is done to it now."""

    def quiet(self) -> None:
        """Let all stores of this PE arrive."""

    def reach(self, counter: int, value: int) -> None:
        """Note how far this PE's part of something common has come, for :meth:`wait_for_all`.

        Args:
            counter: Which counter of the PE's.
            value: It only grows.
        """

    def wait_for_all(self, operation: str, group: Membership, counter: int, value: int) -> None:
        """Return when the counters of all members have come to a value and this PE may go on."""

    def view(self, array: Array, span: Span, label: str) -> Array:
        """Return memory of a heap as an array that the program uses when it may.

        Args:
            array: The memory.
            span: Where it is.
            label: What a trace calls it.
        """

    def finish(self) -> None:
        """Note that the PE's function has returned."""


class Room(Protocol):
    """What the launcher and the PEs need of the package that steers."""

    def area_bytes(self, layout: Layout) -> int:
        """Return how large the area of PEs that take turns must be."""

    def steer(
        self, segment: Segment, me: int, pe: int, schedule: Schedule, *, late: bool
    ) -> Steering:
        """Return what steers a PE; ``late``: whether stores may arrive late."""

    def read_trace(self, segment: Segment) -> Any:
        """Return what the PEs have done, in order."""


class FaultRoom(Protocol):
    """What PEs need of the package that injects faults."""

    def inject(self, segment: Segment, pe: int, faults: Faults, inner: Steering | None) -> Steering:
        """Return what steers a PE, with faults; ``inner``: what else steers it."""


def load_room() -> Room:
    """Return the package whose PEs take turns."""
    return cast("Room", importlib.import_module(_ROOM))


def load_faults() -> FaultRoom:
    """Return the package that injects faults."""
    return cast("FaultRoom", importlib.import_module(_FAULT_ROOM))
