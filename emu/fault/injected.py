"""``Injected``: what steers a PE to which faults happen.

It asks what else steers the PE, a schedule or nothing, and lets go wrong what the plan says. What it counts is what the PE
does itself, in the order of its program: a fault happens at the same place in each run, unless the program itself goes
another way, as one does that tests in a loop.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import FrameType

import numpy as np

from emu.comm.arrays import Array
from emu.comm.fault_options import (
    ALLOC_FAIL,
    ANY,
    CORRUPT,
    DROP_SIGNAL,
    DUPLICATE_SIGNAL,
    ENOSPC,
    KILL,
    KINDS,
    LATE,
    SLOW,
    Fault,
    Faults,
)
from emu.comm.memory.segment import Segment
from emu.comm.world import details
from emu.comm.world.membership import Membership
from emu.comm.world.steering import Span, Steering
from emu.fault.late import LateStores
from emu.fault.lost_memory import take_away
from emu.kernels.core.own_files import OWN_FOLDERS

_logger = logging.getLogger("emu")
_NAMES = {"release": "free", "post a task": "post_task", "release turns": "release_turns"}
_WAITS = ("wait_until", "wait_until_all", "wait_until_some")
_NO_OPERATIONS = ("store", "load")
_BETWEEN = tuple(
    os.path.join(folder, *room, "")
    for folder in OWN_FOLDERS
    for room in (("fault",), ("schedule",), ("check",), ("comm", "world"), ("world",))
)
_LOOKS = 512
"""Tests that may fail in a row while stores are on their way; a PE that tests more often waits for them, so that it does
not count as one that waits for others."""


class _Own(threading.local):
    """What a thread of the PE does."""

    begun = 0.0
    looks = 0
    meets = 0


class Injected:
    """Steers a PE to which faults happen.

    Args:
        segment: The world's.
        pe: The PE's number.
        faults: The plan.
        inner: What else steers it.
    """

    def __init__(self, segment: Segment, pe: int, faults: Faults, inner: Steering) -> None:
        self.repeats = False
        self._segment, self._pe, self._inner = segment, pe, inner
        self._plan = faults.of(pe, *KINDS)
        self._kill = next(iter(faults.of(pe, KILL)), None)
        self._slow = next(iter(faults.of(pe, SLOW)), None)
        self._late = {fault.to: fault for fault in faults.of(pe, LATE)}
        self._signals = {(f.to, f.nth): f for f in faults.of(pe, DROP_SIGNAL, DUPLICATE_SIGNAL)}
        self._stores = {(f.to, f.nth): f for f in faults.of(pe, CORRUPT)}
        self._memory = {f.nth: f for f in faults.of(pe, ALLOC_FAIL, ENOSPC)}
        self._counts: Counter[object] = Counter()
        self._lock = threading.Lock()
        self._told: set[Fault] = set()
        self._own = _Own()
        self._on_their_way = LateStores(segment)
        self.late, self.seed = inner.late or bool(self._late), inner.seed

    # --- operations ------------------------------------------------------------------------

    def point(self, operation: str, spans: Sequence[Span], *, looks: bool = False) -> None:
        """Return when this PE may do an operation."""
        name = operation.partition(" ")[0]
        if name in _NO_OPERATIONS:
            self._inner.point(operation, spans, looks=looks)
            return
        self._begin(_NAMES.get(operation, name), operation)
        self._own.looks = self._own.looks + 1 if looks else 0
        if self._own.looks > _LOOKS:
            self._on_their_way.quiet()
        self._inner.point(operation, spans, looks=looks)
        self._own.begun = time.monotonic()

    def done(self) -> None:
        """Take the time that the operation takes a slow PE."""
        if self._slow is not None and self._slow.factor > 1:
            took = time.monotonic() - self._own.begun
            time.sleep(took * (self._slow.factor - 1))

    def note(self, operation: str) -> None:
        """Note that the PE begins a fence or a quiet."""
        self._begin(operation, operation)

    def wait(self, operation: str, spans: Sequence[Span], holds: Callable[[], bool]) -> None:
        """Return when a condition may be waited for."""
        name = operation.partition(" ")[0]
        known = name if name in _WAITS or name == "set_lock" else "wait_for"
        self._begin(known, operation)
        self._on_their_way.wait(holds)
        self._inner.wait(operation, spans, holds)

    def meet(self, operation: str, group: Membership) -> AbstractContextManager[None]:
        """Return what is entered when all members have come; this PE comes when its stores have arrived."""
        self._begin(operation, operation)
        self._on_their_way.quiet()
        return self._meeting(self._inner.meet(operation, group))

    @contextlib.contextmanager
    def _meeting(self, inner: AbstractContextManager[None]) -> Iterator[None]:
        """Enter a meeting; what it does by itself, as taking memory at its first call, is no operation of the program."""
        with inner:
            self._own.meets += 1
            try:
                yield
            finally:
                self._own.meets -= 1

    def _begin(self, name: str, operation: str) -> None:
        """Count an operation; do what happens to it."""
        if self._own.meets:
            return
        with self._lock:
            self._counts[ANY] += 1
            self._counts[name] += 1
        fault = self._kill
        if (
            fault is not None
            and fault.operation in (ANY, name)
            and self._counts[fault.operation] == fault.nth
        ):
            self._report(fault, f"killed before {operation}")
            sys.stderr.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        if self._slow is not None:
            self._report_once(self._slow, f"slow from {operation} on")
            time.sleep(self._slow.ms / 1000)

    # --- stores and signals ----------------------------------------------------------------

    def carried(self, pe: int, data: Array) -> Array:
        """Return the data with which a store arrives at a PE."""
        nth = self._count("store", pe)
        fault = self._stores.get((pe, nth))
        if fault is None or not data.nbytes:
            return data
        bits = 8 * data.nbytes
        drawn = random.Random(f"{fault.seed} {self._pe} {pe} {nth}").randrange(bits)
        bit = drawn if fault.bit is None else fault.bit % bits
        wrong = np.array(data, order="C")
        wrong.reshape(-1).view(np.uint8)[bit // 8] ^= 1 << bit % 8
        self._report(fault, f"bit {bit} of {bits} flipped in store {nth} to PE {pe}")
        return wrong

    def signals(self, pe: int) -> int:
        """Return how often a signal arrives at a PE that is sent once."""
        nth = self._count("signal", pe)
        fault = self._signals.get((pe, nth))
        if fault is None:
            return 1
        lost = fault.kind == DROP_SIGNAL
        self._report(fault, f"signal {nth} to PE {pe} {'lost' if lost else 'arrives twice'}")
        return 0 if lost else 2

    def send(
        self, operation: str, span: Span, store: Callable[[], None], *, joins: bool = False
    ) -> None:
        """Do a store now or later."""
        fault = self._late.get(span.pe)
        if fault is None:
            self._inner.send(operation, span, store, joins=joins or self.repeats)
            return
        self._report_once(fault, f"stores to PE {span.pe} late from {operation} on")
        self._on_their_way.add(span.pe, fault.ms / 1000, store)
        if _is_of_a_front_end():
            # It keeps its own rules by what emu promises: a store has arrived when it returns.
            self._on_their_way.quiet()

    def fence(self) -> None:
        """Let no later store arrive at a PE before the earlier ones have."""
        self._on_their_way.fence()
        self._inner.fence()

    def settle(self, pe: int) -> None:
        """Let those stores arrive at a PE that a fence separates from what is done to it now."""
        self._on_their_way.settle(pe)
        self._inner.settle(pe)

    def quiet(self) -> None:
        """Let all stores of this PE arrive."""
        self._on_their_way.quiet()
        self._inner.quiet()

    def reach(self, counter: int, value: int) -> None:
        """Note how far this PE's part of something common has come."""
        self._inner.reach(counter, value)

    def wait_for_all(self, operation: str, group: Membership, counter: int, value: int) -> None:
        """Return when the counters of all members may be waited for."""
        self._begin("wait_for_task", operation)
        self._on_their_way.quiet()
        self._inner.wait_for_all(operation, group, counter, value)

    # --- memory ----------------------------------------------------------------------------

    def has_room(self) -> bool:
        """Return whether the heap has room for an array that this PE allocates now."""
        nth = 0 if self._own.meets else self._count("allocation", self._pe)
        fault = self._memory.get(nth)
        if fault is None or fault.kind != ALLOC_FAIL:
            return True
        self._report(fault, f"no room for allocation {nth}")
        return False

    def allocated(self, pe: int, first: int, behind: int) -> None:
        """Take the memory of a new array away if the plan says so."""
        nth = 0 if self._own.meets else self._counts["allocation", pe]
        fault = self._memory.get(nth)
        if fault is not None and fault.kind == ENOSPC and first < behind:
            take_away(self._segment, pe, first, behind)
            self._report(fault, f"no memory behind allocation {nth}: its first use gets SIGBUS")

    def view(self, array: Array, span: Span, label: str) -> Array:
        """Return memory of a heap as an array that the program uses when it may."""
        return self._inner.view(array, span, label)

    def finish(self) -> None:
        """Note that the PE's function has returned."""
        self._on_their_way.quiet()
        self._inner.finish()
        for fault in self._plan:
            if fault not in self._told:
                _logger.warning(
                    "PE %d has ended before its fault: %s (%s)",
                    self._pe,
                    fault,
                    self._so_far(fault),
                )

    # --- reports ---------------------------------------------------------------------------

    def _count(self, what: str, pe: int) -> int:
        with self._lock:
            self._counts[what, pe] += 1
            return self._counts[what, pe]

    def _so_far(self, fault: Fault) -> str:
        """Return how many there were of what a fault counts."""
        if fault.kind in (KILL, SLOW):
            return f"{fault.operation}: {self._counts[fault.operation]} so far"
        if fault.kind in (ALLOC_FAIL, ENOSPC):
            return f"allocations: {self._counts['allocation', fault.pe]} so far"
        what = "store" if fault.kind in (LATE, CORRUPT) else "signal"
        return f"{what}s to PE {fault.to}: {self._counts[what, fault.to]} so far"

    def _report_once(self, fault: Fault, what: str) -> None:
        if fault not in self._told:
            self._report(fault, what)

    def _report(self, fault: Fault, what: str) -> None:
        self._told.add(fault)
        place = details.call_site()
        number = self._counts[ANY]
        _logger.warning(
            "PE %d, operation %d at %s: %s (fault %s)", self._pe, number, place, what, fault
        )


def _is_of_a_front_end() -> bool:
    """Return whether emu itself does the operation that this thread does, for a front end."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_BETWEEN):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(OWN_FOLDERS)
