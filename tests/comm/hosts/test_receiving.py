"""Which large payloads of a batch are received together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from emu.comm.hosts import fields
from emu.comm.hosts.receiving import choose_arrival
from emu.comm.hosts.state import ARRIVING, ROOMS
from emu.comm.hosts.words import (
    ADD,
    BULK,
    INLINE,
    KIND,
    MIRROR,
    MODE,
    NBYTES,
    OFFSET,
    PUT,
    RANK,
    SHORT_BYTES,
    TARGET,
    empty_words,
)
from emu.kernels.core.jit import entry_when_called

choose: Callable[..., bool] = entry_when_called(choose_arrival, 1)

Asked = tuple[int, ...]
"""Kind, offset and rank of a record, which announces 100 bytes."""


class Batch:
    """A batch of records with large payloads, in a state of its own."""

    def __init__(self, *asked: Asked, inline: int = -1) -> None:
        records = []
        for index, (kind, offset, rank) in enumerate(asked):
            words = empty_words()
            words[KIND], words[OFFSET], words[RANK] = kind, offset, rank
            words[NBYTES], words[MODE] = 100, INLINE if index == inline else BULK
            records.append(words if rank else words[: SHORT_BYTES // 8])
        self.starts = np.cumsum([0, *(words.nbytes for words in records)]).tolist()
        self._kept = [np.concatenate(records)]
        self.state = np.zeros(fields.WORDS, np.int64)
        self.state[fields.RECEIVED] = self._kept[0].ctypes.data
        self.state[fields.COUNT] = self._kept[0].nbytes
        self.state[fields.HEAPS] = 1 << 20
        self.state[fields.STRIDE] = 1 << 16
        self.state[fields.SEGMENT] = 1 << 12
        self.rooms = self._array(fields.ROOM, ROOMS)
        self.rooms[:] = 100 * np.arange(1, ROOMS + 1)
        self.arrivals = self._array(fields.ARRIVALS, 3 * ARRIVING).reshape(-1, 3)

    def _array(self, place: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        made = np.zeros(count, np.int64)
        self._kept.append(made)
        self.state[place] = made.ctypes.data
        return made

    def places(self, first: int = 0) -> list[int]:
        """Return where the payloads go that are received together with that of the record at ``first``."""
        self.state[fields.CHOSEN] = self.starts[first]
        self.state[[fields.FIRST_ARRIVAL, fields.N_ARRIVALS]] = 0
        self.state[[fields.ROOMS_TAKEN, fields.ROOMS_DONE]] = 0
        return self.more()

    def more(self) -> list[int]:
        """Return where those go that may be received besides."""
        places = []
        while choose(self.state.ctypes.data):
            index = int(self.state[fields.N_ARRIVALS]) - 1
            places.append(int(self.arrivals[index % ARRIVING][1]))
        return places


def puts(*offsets: int) -> list[Asked]:
    return [(PUT, offset, 0) for offset in offsets]


def test_puts_that_lie_apart_are_received_where_they_belong() -> None:
    assert Batch(*puts(0, 100, 200)).places() == [1 << 20, (1 << 20) + 100, (1 << 20) + 200]


def test_one_that_overlaps_waits_for_those_before_it() -> None:
    batch = Batch(*puts(0, 100, 150, 300))
    assert batch.places() == [1 << 20, (1 << 20) + 100]
    assert batch.places(2) == [(1 << 20) + 150, (1 << 20) + 300]


@pytest.mark.parametrize("asked", [(ADD, 0, 0), (PUT, 0, 2)])
def test_what_is_handled_first_goes_to_rooms(asked: Asked) -> None:
    batch = Batch(*[asked] * (ROOMS + 3))
    assert batch.places() == batch.rooms.tolist()
    assert batch.places(ROOMS) == batch.rooms.tolist()[:3]


def test_nothing_goes_where_it_belongs_ahead_of_what_waits_in_a_room() -> None:
    batch = Batch((ADD, 0, 0), (PUT, 5000, 0))
    assert batch.places() == batch.rooms.tolist()[:1]
    batch = Batch((PUT, 5000, 0), (ADD, 0, 0))
    assert len(batch.places()) == 2


def test_mirrors_lie_at_the_same_place_of_the_segment() -> None:
    assert Batch((MIRROR, 7, 0), (MIRROR, 107, 0)).places() == [(1 << 12) + 7, (1 << 12) + 107]


def test_what_reads_memory_in_between_ends_the_row() -> None:
    assert len(Batch(*puts(0, 100, 200), inline=1).places()) == 1


def test_no_more_are_received_together_than_there_is_room_for() -> None:
    batch = Batch(*puts(*range(0, 100 * (ARRIVING + 5), 100)))
    assert len(batch.places()) == ARRIVING
    assert len(batch.places(ARRIVING)) == 5


def test_heaps_of_two_pes_are_apart() -> None:
    batch = Batch(*puts(0, 0))
    batch._kept[0][SHORT_BYTES // 8 + TARGET] = 1
    assert batch.places() == [1 << 20, (1 << 20) + (1 << 16)]


def test_more_are_received_when_some_have_been_taken() -> None:
    batch = Batch(*puts(*range(0, 100 * (ARRIVING + 5), 100)))
    assert len(batch.places()) == ARRIVING
    assert batch.more() == []
    batch.state[fields.FIRST_ARRIVAL] += 2
    assert batch.more() == [(1 << 20) + 100 * (ARRIVING + i) for i in range(2)]
    batch = Batch(*puts(0, 100, 0, 200))
    assert len(batch.places()) == 2
    batch.state[fields.FIRST_ARRIVAL] += 1
    assert batch.more() == [1 << 20, (1 << 20) + 200]


def test_a_room_is_used_again_when_its_record_was_taken() -> None:
    batch = Batch(*[(ADD, 0, 0)] * (ROOMS + 1), (PUT, 5000, 0))
    assert batch.places() == batch.rooms.tolist()
    batch.state[fields.FIRST_ARRIVAL] += 1
    batch.state[fields.ROOMS_DONE] += 1
    assert batch.more() == batch.rooms.tolist()[:1]
    batch.state[fields.FIRST_ARRIVAL] += ROOMS
    batch.state[fields.ROOMS_DONE] += ROOMS
    assert batch.more() == [(1 << 20) + 5000]
