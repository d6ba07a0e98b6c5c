"""Who wants to know what launches do.

Importing this loads nothing: every launch path may look at it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from emu.tile.counting.counts import Counts

Sink = Callable[["Counts"], None]


class _Last(threading.local):
    """What was counted last on a thread."""

    counts: Counts | None = None


class Counting:
    """What this process counts.

    Attributes:
        sink: Gets the counts of each launch that is counted; None: nobody wants them, and none is.
        operators: Whether operators of torch, PyPTO and MC2 are counted, too.
        missed: Launches that could not be counted, by the reason.
        last: What was counted last on this thread, until somebody takes it.
        operator_switches: The same, of those that count operators of torch; called only where operators are wanted.
        moved: Gets, of each transfer between PEs that no method of a World makes, from which PE to which one, and the bytes; None: nobody
            wants that.
        switches: Functions that front ends have registered: called with whether launches are counted from now on; one may raise
            a ValueError when that begins.
    """

    sink: Sink | None = None
    moved: Callable[[int, int, int], None] | None = None
    last: ClassVar[_Last] = _Last()
    missed: ClassVar[dict[str, int]] = {}
    switches: ClassVar[list[Callable[[bool], None]]] = []
    operator_switches: ClassVar[list[Callable[[bool], None]]] = []
    operators: bool = False


def begin(sink: Sink, operators: bool = False) -> None:
    """Give the counts of launches, and perhaps of operators of libraries, to a function from now on.

    Raises:
        ValueError: A front end cannot count now.
    """
    for switch in Counting.switches:
        switch(True)
    Counting.sink = sink
    _count_operators(operators)


def _count_operators(wanted: bool) -> None:
    Counting.operators = wanted
    for switch in Counting.operator_switches:
        switch(wanted)


@contextlib.contextmanager
def counting(sink: Sink, operators: bool = False) -> Iterator[None]:
    """Give the counts of launches inside the block, and perhaps of operators of libraries, to a function.

    Raises:
        ValueError: A front end cannot count now.
    """
    before = Counting.sink, Counting.operators
    begin(sink, operators)
    try:
        yield
    finally:
        Counting.sink, _ = before
        _count_operators(before[1])
        if before[0] is None:
            for switch in Counting.switches:
                switch(False)


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Count no launch inside the block: those of a measurement, for example."""
    before, Counting.sink = Counting.sink, None
    try:
        yield
    finally:
        Counting.sink = before


def note_missed(reason: str) -> None:
    """Note that a launch was not counted."""
    if Counting.sink is not None:
        Counting.missed[reason] = Counting.missed.get(reason, 0) + 1


def wants_operators() -> bool:
    """Return whether operators of libraries are counted now."""
    return Counting.operators and Counting.sink is not None


def take_last() -> Counts | None:
    """Return what the last launch of this thread did, if it was counted and nobody has taken it."""
    counts, Counting.last.counts = Counting.last.counts, None
    return counts
