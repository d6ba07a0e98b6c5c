"""``Arrivals``: large payloads that are received ahead, so that one is on its way while another is handled.

Records are done in their order. What goes straight to where it belongs may be there before its turn, so only such
payloads are received ahead together whose places do not overlap, with nothing in between that reads or
writes memory. What is handled first (ADD, strided tiles) waits in a room of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from emu.comm.arrays import Bytes, Words
from emu.comm.hosts.wire import Record, Wire
from emu.comm.hosts.words import BULK, MODE, NBYTES

_ROOMS = 4
"""Payloads that wait for being handled at one time."""

Arrival: TypeAlias = tuple[Bytes, Any]
"""Memory of a payload, and what is waited for."""


class Arrivals:
    """The large payloads of the batch that an agent handles.

    Args:
        wire: What they come from.
        place_of: Returns where the payload of a record goes as it is; None of one that must be handled.
    """

    def __init__(self, wire: Wire, place_of: Callable[[Words], Bytes | None]) -> None:
        self._wire = wire
        self._place_of = place_of
        self._rooms: list[Bytes] = [np.empty(0, np.uint8)] * _ROOMS

    def begin(self, records: list[Record], first: int) -> deque[Arrival]:
        """Begin to receive the payloads of a record and of those behind it that may be received together with it."""
        begun: deque[Arrival] = deque()
        taken: list[tuple[int, int]] = []
        rooms = 0
        for record in records[first:]:
            if record.words[MODE] != BULK:
                break
            nbytes = int(record.words[NBYTES])
            place = self._place_of(record.words)
            if place is None:
                if rooms == _ROOMS:
                    break
                place = self._room(rooms, nbytes)
                rooms += 1
            else:
                start = int(place.ctypes.data)
                if rooms or any(start < end and begin < start + nbytes for begin, end in taken):
                    break
                taken.append((start, start + nbytes))
            begun.append((place, self._wire.start_payload(record.host, place)))
        return begun

    def _room(self, index: int, nbytes: int) -> Bytes:
        if self._rooms[index].size < nbytes:
            self._rooms[index] = np.empty(nbytes, np.uint8)
        return self._rooms[index][:nbytes]
