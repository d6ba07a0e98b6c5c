"""What an agent does with news of servers elsewhere: it stands in the mirror, and wakes whom it concerns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from emu.comm.hosts.words import (
    AMOUNT,
    AREA,
    ASKER,
    FAILURE,
    MEMBER,
    OFFSET,
    RECORD_WORD,
    TURN_WORD,
    WAY,
    WORD,
    empty_words,
)
from emu.comm.layout import Layout
from emu.comm.memory.heap import register
from emu.comm.memory.segment import Segment
from emu.comm.server.news import News
from emu.comm.server.words import (
    AWAITED_VALUE,
    AWAITED_WORD,
    DECODED,
    FAILED,
    READY,
    RECORDS,
    WORDS_PER_MEMBER,
)

PLACE = 4096
"""Offset of the areas in the heaps."""


class Host:
    """The host of PE 0, with the mirrors of two others."""

    def __init__(self) -> None:
        self.segment = Segment.create(Layout(n_pes=3, heap_bytes=1 << 20))
        register(self.segment, 0, 0)
        blocks = {pe: register(self.segment, pe, 0) for pe in (1, 2)}
        self.news = News(self.segment, blocks)
        self.areas = [self._area(pe) for pe in range(3)]

    def _area(self, pe: int) -> np.ndarray:
        start = self.start(pe)
        return self.segment.bytes[start : start + 8 * (RECORDS + 64)].view(np.int64)

    def start(self, pe: int) -> int:
        layout = self.segment.layout
        return layout.heaps + pe * layout.stride + PLACE

    def hear(self, member: int, payload: np.ndarray | None = None, **words: int) -> None:
        record = empty_words()
        places = {"way": WAY, "word": WORD, "amount": AMOUNT, "offset": OFFSET}
        record[AREA], record[MEMBER], record[ASKER] = PLACE, member, member
        for name, value in words.items():
            record[places[name]] = value
        self.news(record, None if payload is None else payload.view(np.uint8))

    def sleeps(self, member: int, word: int, value: int) -> None:
        """Have the server here sleep until a word of a member has come to a value."""
        area = self.areas[0]
        area[AWAITED_WORD], area[AWAITED_VALUE] = member * WORDS_PER_MEMBER + word, value
        area[:1].view(np.int32)[1] = 1

    @property
    def bells(self) -> int:
        """How often the server here was woken."""
        return int(self.areas[0][:1].view(np.int32)[0])


@pytest.fixture
def host() -> Iterator[Host]:
    made = Host()
    yield made
    made.segment.close()


def test_a_word_stands_in_the_mirror_and_wakes_who_waits_for_its_value(host: Host) -> None:
    host.sleeps(2, READY, 2)
    host.hear(1, way=TURN_WORD, word=READY, amount=2)  # of another member
    host.hear(2, way=TURN_WORD, word=READY, amount=1)
    assert host.bells == 0
    host.hear(2, way=TURN_WORD, word=READY, amount=2)
    assert host.bells == 1
    assert [int(area[READY]) for area in host.areas] == [0, 2, 2]


def test_a_record_is_there_before_the_word_that_counts_it(host: Host) -> None:
    record = np.arange(40, dtype=np.int64)
    offset = host.start(1) + 8 * RECORDS
    host.hear(1, record, way=RECORD_WORD, word=DECODED, amount=1, offset=offset)
    assert host.areas[1][DECODED] == 1
    np.testing.assert_array_equal(host.areas[1][RECORDS : RECORDS + 40], record)


def test_the_first_failure_is_told_to_the_members_here_only(host: Host) -> None:
    host.hear(2, way=FAILURE, amount=3)
    host.hear(1, way=FAILURE, amount=2)
    assert [int(area[FAILED]) for area in host.areas] == [3, 0, 0]
