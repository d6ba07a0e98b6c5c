"""Whole rows that front ends move between members, recorded by the compiled call that does it (:mod:`emu.trace.fused`)."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from emu.comm.arrays import Array
from emu.comm.world.group import Group
from emu.trace import fused, lines
from emu.trace.events import Kind

if TYPE_CHECKING:
    from emu.trace.recorder import EventRecorder

    class PlainGroup(Group):
        """What these functions know of their group."""

        _recorder: EventRecorder
        _spots: Any
else:
    PlainGroup = Group

# Names that are looked up on every call; the entries of compiled code are put in the place of the last two.
_frame, _now = sys._getframe, time.monotonic_ns
_put, _get = fused.put, fused.get


def store_rows(self: PlainGroup, offset: int, values: Array, pe: int) -> None:
    """Store rows as :meth:`Group._store_rows` does, and record it."""
    peer, nbytes = self.members[pe], values.nbytes
    if _put(self._spots.put, peer, offset, id(values), nbytes):
        return
    recorder = self._recorder
    flow = lines.begin(recorder.told, peer * self.segment.layout.stride + offset, 1)
    Group._store_rows(self, offset, values, pe)
    recorder.missed(_frame(1), recorder.number(Kind.PUT, "put"), 0, nbytes, flow, peer)


def load_rows(self: PlainGroup, offset: int, target: Array, pe: int) -> None:
    """Fill an array as :meth:`Group._load_rows` does, and record it."""
    peer, nbytes = self.members[pe], target.nbytes
    if _get(self._spots.get, peer, offset, id(target), nbytes):
        return
    recorder, begun = self._recorder, _now()
    Group._load_rows(self, offset, target, pe)
    number, place = recorder.number(Kind.GET, "get"), peer * self.segment.layout.stride + offset
    recorder.missed_get(_frame(1), number, begun, nbytes, place, peer)
