"""What ``comm`` finds here by name (:class:`emu.comm.world.recording.Room`); the launcher loads no compiled code by it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from emu.comm.errors import ArgumentError
from emu.comm.layout import Layout
from emu.comm.memory.segment import Segment
from emu.comm.world import recording
from emu.kernels.core import cache_files, environment
from emu.trace.area import LEAST_RECORDS, MOST_RECORDS, Area, default_records

if TYPE_CHECKING:
    from emu.comm.world.group import Group
    from emu.trace.draining import EventDrain

G = TypeVar("G", bound="Group")


def area_bytes(layout: Layout, files: Sequence[str]) -> int:
    """Return how large the area of the PEs' events must be, if the files can be written.

    Raises:
        ArgumentError: ``EMU_TRACE_RING`` breaks a rule.
        TraceError: A file needs a package that is not installed.
    """
    from emu.trace.converting import check_needs

    for file in files:
        check_needs(Path(file))
    return _area_of(layout).nbytes


def _area_of(layout: Layout) -> Area:
    try:
        given = environment.trace_records()
    except ValueError as error:
        raise ArgumentError(str(error)) from None
    if given is None:
        given = default_records(layout.n_pes)
    elif not LEAST_RECORDS <= given <= MOST_RECORDS:
        raise ArgumentError(
            f"EMU_TRACE_RING must be in [{LEAST_RECORDS}, {MOST_RECORDS}] events, but got {given}"
        )
    return Area(layout.n_pes, 1 << (given - 1).bit_length())


def open_drain(segment: Segment, files: Sequence[str]) -> EventDrain:
    """Make the files; return what fills them.

    Raises:
        TraceFileError: The first cannot be written.
    """
    from emu.trace.draining import EventDrain

    return EventDrain(segment, _area_of(segment.layout), [Path(file) for file in files])


def merge(
    parts: Sequence[bytes], offsets: Sequence[int], files: Sequence[str], pes_per_host: int
) -> None:
    """Write one trace of the parts that hosts have recorded (:func:`emu.trace.merging.merge`)."""
    from emu.trace import merging

    merging.merge(parts, offsets, [Path(file) for file in files], pes_per_host)


def start(segment: Segment, pe: int) -> None:
    """Record the events of this process, which is a PE, from now on."""
    from emu.trace.forks import leave_in_forks
    from emu.trace.recorder import EventRecorder

    memory = segment.map_trace()
    records = int(memory[:8].view(np.int64)[0])
    recorder = EventRecorder(memory, Area(segment.layout.n_pes, records), pe)
    leave_in_forks(segment, int(memory.ctypes.data), recorder)
    cache_files.listen(recorder.note_compilation)
    recording.active = recorder


def recorded(kind: type[G]) -> type[G]:
    """Return the class of groups that do what those of ``kind`` do, and record it."""
    from emu.trace import groups

    return groups.recorded(kind)
