"""Collectives in ``--check streams``: each process group has a stream of its own.

It waits for the current stream when a collective is called, and ``work.wait()`` lets the current stream wait for
the collective. What collectives write is known to be written from the call on; what they read is not noted.
"""

from __future__ import annotations

import sys
from typing import Any

from emu.accelerator.device_tags import current_device, emulated_device
from emu.accelerator.distributed import works
from emu.accelerator.distributed.process_group import WorldProcessGroup
from emu.accelerator.patches import Ledger
from emu.accelerator.state import TYPES
from emu.accelerator.stream_errors import HOST, Line
from emu.accelerator.stream_tracker import Tracker, current_line, storage_of

_CLOCK = "_emu_clock"
_REASON = "streams are checked"


def watch(tracker: Tracker, ledger: Ledger) -> None:
    """Note collectives, and receives, and what waits for them."""
    add, wait, is_completed = works.Queue.add, works.Work.wait, works.Work.is_completed

    def add_(self: Any, run: works.Run, outputs: list[Any], source: int = -1) -> works.QueuedWork:
        work = add(self, run, outputs, source)
        _begin(tracker, work, Line("collectives", 0, id(self)), outputs)
        return work

    def wait_(self: Any, timeout: object = None) -> bool:
        found = wait(self, timeout)
        for kind in TYPES:
            _join(tracker, self, current_line(kind, current_device(kind)))
        return found

    def is_completed_(self: Any) -> bool:
        found = is_completed(self)
        _join(tracker, self, HOST)
        return found

    ledger.replace(works.Queue, "add", add_, _REASON)
    ledger.replace(works.Work, "wait", wait_, _REASON)
    ledger.replace(works.Work, "is_completed", is_completed_, _REASON)
    # A call that need not be deferred tells nobody of its tensors.
    ledger.replace(WorldProcessGroup, "is_idle", property(lambda self: False), _REASON)


def _begin(tracker: Tracker, work: Any, line: Line, outputs: list[Any]) -> None:
    with tracker.lock:
        for kind in TYPES:
            tracker.wait(line, current_line(kind, current_device(kind)))
        begun = tracker.submit(_name(), line)
        for tensor in outputs:
            storage = storage_of(tensor)
            if storage is not None and emulated_device(tensor) is not None:
                tracker.access(begun, tracker.memory_of(storage), tensor, True)
        setattr(work, _CLOCK, tracker.clocks.now(line))
        tracker.report()


def _name() -> str:
    """Return the name of the process group's method that was called."""
    frame = sys._getframe(3)
    while frame.f_back is not None and frame.f_code.co_name.startswith("_"):
        frame = frame.f_back
    return frame.f_code.co_name


def _join(tracker: Tracker, work: Any, line: Line) -> None:
    clock = getattr(work, _CLOCK, None)
    if clock is not None:
        tracker.wait_for_clock(line, clock)
    for other in getattr(work, "_works", ()):
        _join(tracker, other, line)
