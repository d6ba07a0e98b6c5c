"""Events: what a record says, and how its 40 bytes lie.

An event belongs to a PE and to a *thread* of it (a lane of the timeline: what its program does, its server, ...). It lasts from
``start`` for ``duration`` nanoseconds of the machine's monotonic clock, which all PEs of a machine share. What recurs (a name
with its line of source and its details) stands in a table of the PE's *sites* once; a record has its index.

Events of different PEs belong together by their ``flow``, a number that is not 0:

* a put, put_signal, signal or atomic, and the wait that it ended, have the same flow: the wait ends after the other has *started*
  (what wakes a PE has, as a rule, not returned yet when that goes on);
* a put, and a get of another PE that begins where it did, have the same flow, and so have the release of a lock, which is a SIGNAL,
  and the LOCK that had to wait for it;
* the members' events of one barrier, collective or turn have the same flow: all end after all have started;
* any other events of the same flow: each ends after the one that started before it.

Internal: names may change in any release.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

EVENT = np.dtype(
    [
        ("start", "<i8"),  # ns, monotonic clock
        ("duration", "<i8"),  # ns; 0 for what has no length (INSTANT, COUNTER)
        ("size", "<i8"),  # bytes that were moved or allocated; a COUNTER's value; else 0
        ("flow", "<u8"),  # what belongs together; 0: nothing
        ("site", "<u4"),  # index into the PE's sites
        ("kind", "u1"),
        ("thread", "u1"),
        ("peer", "<i2"),  # world number of the other PE; -1: none, or all of a group
    ]
)
"""A record. 40 bytes."""


LATEST = 1 << 62
"""Starts and durations are less: their sums fit their fields, and those of other formats."""

MEETING_BIT, TURN_BIT = 1 << 62, 1 << 61
"""Bits that flows of barriers and collectives, and of turns, have, and no others: any number of events belong to one, at most one
a PE. Of another flow there may be one event alone: nobody has waited for that signal."""


MEETING_SHIFT = 40
"""Where in a flow of a meeting the number of its group stands."""


class Kind(IntEnum):
    """What an event is."""

    LAUNCH = 1
    """A kernel: its site has ``grid`` and, where it was counted, ``counts`` (see :class:`Site`)."""
    COMPILE = 2
    """A kernel was compiled."""
    OP = 3
    """An operation of a front end: of PyPTO, or of torch on an emulated device."""
    PUT = 4
    GET = 5
    SIGNAL = 6
    """A put_signal, or a signal alone (``size`` 0)."""
    ATOMIC = 7
    WAIT = 8
    """A wait for memory to change, or a test that held; ``peer`` is who ended it, where that is known."""
    COMPLETE = 9
    """A fence or quiet."""
    BARRIER = 10
    COLLECTIVE = 11
    TURN = 12
    """A turn of a communication server, or what a fused operator computes in one."""
    LOCK = 13
    """A set_lock, or a test_lock that got the lock: ``peer`` is who has released it, if this PE had to wait."""
    ALLOCATE = 14
    """Symmetric or device memory; ``size`` is negative where it was given back. What was not given back when the run ended
    has no such event."""
    RANGE = 15
    """A range that the program named, autograd's backward pass included."""
    COUNTER = 16
    """A value from ``start`` on."""
    INSTANT = 17
    """Something that was reported: a race, an error, what ended the run; or that the program has marked."""
    TUNE = 18
    """An autotuner has measured a kernel in one configuration: its site has what that of a launch has, ``configuration`` (names and values), and
    ``measured_s``. The launches themselves are no events."""


class Thread(IntEnum):
    """The lanes of a PE."""

    PROGRAM = 0
    """What its program does, one after the other; nested events lie within each other."""
    SERVER = 1
    """Its communication server."""
    TASKS = 2
    """Operations that end later than the call that began them: non-blocking ones, PyPTO's ops, streams."""
    BACKWARD = 3
    """Autograd's thread."""


class Site(NamedTuple):
    """What recurs: a name, where it stands in the program, and what else is known of it."""

    name: str
    file: str = ""
    """Path of the source; empty: not known."""
    line: int = 0
    details: dict[str, Any] | None = None
    """JSON values: ``grid`` [x, y, z] of a launch, ``counts`` (a dictionary as :meth:`Counts.to_json` gives it),
    ``members`` (world numbers) of a barrier or collective, ``dtype``, ``shape``, ``text`` of an INSTANT, ``unit`` of a COUNTER."""
