"""Checks of programs on several PEs: races between them, and what they leave behind.

``emu.launch(fn, n, checks=emu.Checks(race=True))``, ``emu run --check race`` and ``EMU_CHECK=race`` turn them on; without
them nothing of this package is loaded. docs/checking.md shows each kind by a program and its report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.check.reports import Access, CheckError, Leak, Note, Race, Report
from emu.comm.check_options import Checks

if TYPE_CHECKING:
    from emu.comm.layout import Layout
    from emu.comm.memory.segment import Segment
    from emu.comm.world.listening import Collector, Listener

__all__ = ["Access", "CheckError", "Checks", "Leak", "Note", "Race", "Report"]


def area_bytes(layout: Layout, checks: Checks) -> int:
    """Return how large the listeners' area of a segment must be."""
    from emu.check.area import Area

    return Area.of(layout).nbytes if checks.watches_pes else 0


def listen(segment: Segment, me: int, pe: int, checks: Checks, between: int = 0) -> Listener:
    """Return the listener of a PE whose block is at ``me``.

    Args:
        segment: The world's.
        me: Address of the PE's block.
        pe: Its number.
        checks: What is looked for.
        between: Number of frames between a group's method that tells the listener and who calls it.
    """
    from emu.check.races.listener import RaceListener

    return RaceListener(segment, me, pe, checks, between)


def make_collector(segment: Segment) -> Collector:
    """Return what reads the findings of a world's PEs."""
    from emu.check.collect import Collector

    return Collector(segment)
