"""Arrivals at barriers that span hosts: who is counted elsewhere when, and what waits for its generation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from emu.comm.arrays import Words
from emu.comm.hosts import fields, meeting
from emu.comm.hosts.meeting import MEETING_WORDS
from emu.comm.hosts.state import (
    BATCH_BYTES,
    EARLY,
    NOTHING_TO_DO,
    REQUEST,
    ROOM,
    SLACK,
    WORKED,
)
from emu.comm.hosts.words import (
    COUNT,
    GENERATION,
    GROUP,
    INLINE,
    KIND,
    MEET,
    MEMBERS,
    MIRROR,
    MODE,
    NBYTES,
    OFFSET,
    ROWS,
    SHORT_BYTES,
    TAG,
    WORDS,
    empty_words,
)
from emu.kernels.core.jit import entry_when_called

meet: Callable[..., int] = entry_when_called(meeting.meet, 3)
arrive: Callable[..., bool] = entry_when_called(meeting.arrive, 2)
look_again: Callable[..., int] = entry_when_called(meeting.look_again, 1)

HERE, GROUP_BYTES = 2, 64


class Agent:
    """The words of an agent of host 0 of three, with two members of group 1 here."""

    def __init__(self) -> None:
        self._kept: list[Words] = []
        self.state = np.zeros(fields.WORDS, np.int64)
        self.at = int(self.state.ctypes.data)
        self.members = self._array(fields.MEMBERS_HERE, 4)
        self.members[1] = HERE
        self._array(fields.MEETINGS, 2 * MEETING_WORDS * 4)
        self._array(fields.REPLY_RECORD, WORDS)
        self._array(fields.EARLY, EARLY * SHORT_BYTES // 8)
        self.open = self._array(fields.OPEN, 3)
        self.used = self._array(fields.USED, 3)
        self._array(fields.SENT, 3)
        self._array(fields.BLOCKS, 8)
        self.groups = self._array(fields.GROUPS, 4 * GROUP_BYTES // 8).view(np.int32)
        self.state[fields.GROUP_BYTES] = GROUP_BYTES
        self.segment = self._array(fields.SEGMENT, 16)
        self.segment[:] = range(16)
        self.state[fields.SENDING_MASK] = 1023
        batches = [np.zeros(BATCH_BYTES // 8, np.int64) for _ in range(2 * SLACK)]
        self._kept += batches
        self._array(fields.FREE, len(batches))[:] = [int(b.ctypes.data) for b in batches]
        self._batches = {int(b.ctypes.data): b for b in batches}
        self.state[fields.N_FREE] = len(batches)

    def _array(self, place: int, count: int) -> Words:
        made: Words = np.zeros(count, np.int64)
        self._kept.append(made)
        self.state[place] = made.ctypes.data
        return made

    def request(
        self, tag: int, generation: int = 0, rows: tuple[tuple[int, int, int], ...] = ()
    ) -> tuple[Words, Words]:
        """Return a request and its data: hosts 1 and 2, and rows."""
        words = empty_words()
        words[KIND], words[GROUP], words[MEMBERS], words[TAG] = MEET, 1, 6, tag
        words[GENERATION], words[ROWS] = generation, len(rows)
        return words, np.array([2, 1, 2, *(w for row in rows for w in row)], np.int64)

    def meet(self, words: Words, data: Words) -> int:
        """Do what a request asks for."""
        return meet(self.at, int(words.ctypes.data), int(data.ctypes.data))

    def sent(self, host: int) -> list[tuple[int, ...]]:
        """Return kind, tag and count of each record for a host; of a mirror its offset and payload."""
        if not self.open[host]:
            return []
        words = self._batches[int(self.open[host])][: self.used[host] // 8]
        found: list[tuple[int, ...]] = []
        first = 0
        while first < words.size:
            record = words[first : first + SHORT_BYTES // 8]
            first += SHORT_BYTES // 8
            if record[KIND] == MIRROR:
                assert record[MODE] == INLINE
                payload = words[first : first + record[NBYTES] // 8]
                found.append((MIRROR, int(record[OFFSET]), *payload.tolist()))
                first += payload.size
            else:
                found.append((int(record[KIND]), int(record[TAG]), int(record[COUNT])))
        return found


def test_members_of_a_host_are_counted_together_when_the_last_has_come() -> None:
    agent = Agent()
    assert agent.meet(*agent.request(5)) == WORKED
    assert agent.sent(1) == []
    assert agent.meet(*agent.request(5)) == WORKED
    assert agent.sent(1) == agent.sent(2) == [(MEET, 5, 2)]


def test_one_that_calls_something_else_goes_alone() -> None:
    agent = Agent()
    assert agent.meet(*agent.request(5)) == WORKED
    assert agent.meet(*agent.request(7)) == WORKED
    assert agent.sent(1) == [(MEET, 7, 1), (MEET, 5, 1)]


def test_members_may_be_a_generation_apart() -> None:
    agent = Agent()
    for generation, tag in ((3, 5), (4, 6), (3, 5), (4, 6), (5, 7), (5, 7)):
        assert agent.meet(*agent.request(tag, generation)) == WORKED
    assert agent.sent(2) == [(MEET, 5, 2), (MEET, 6, 2), (MEET, 7, 2)]


def test_what_was_staged_goes_before_to_those_who_read_it() -> None:
    agent = Agent()
    rows = ((8, 16, -1), (64, 8, 2))
    assert agent.meet(*agent.request(5, rows=rows)) == WORKED
    assert agent.sent(1) == [(MIRROR, 8, 1, 2)]
    assert agent.sent(2) == [(MIRROR, 8, 1, 2), (MIRROR, 64, 8)]
    assert agent.meet(*agent.request(5)) == WORKED
    assert agent.sent(1)[-1] == agent.sent(2)[-1] == (MEET, 5, 2)


def test_python_says_how_many_members_are_here() -> None:
    agent = Agent()
    agent.members[1] = 0
    request = agent.request(5)
    assert agent.meet(*request) == REQUEST
    agent.members[1] = 1
    assert agent.meet(*request) == WORKED
    assert agent.sent(1) == [(MEET, 5, 1)]


def test_where_there_is_no_room_it_goes_on_later_and_does_nothing_twice() -> None:
    agent = Agent()
    assert agent.meet(*agent.request(5)) == WORKED
    request = agent.request(5, rows=((0, 8, -1), (8, 8, -1)))
    agent.state[fields.N_FREE] = SLACK  # one batch less, and there is none
    assert agent.meet(*request) == ROOM
    assert agent.meet(*request) == ROOM
    assert agent.sent(1) == [(MIRROR, 0, 0)]
    assert agent.sent(2) == []
    agent.state[fields.N_FREE] = 2 * SLACK - 1
    assert agent.meet(*request) == WORKED
    assert agent.sent(1) == agent.sent(2) == [(MIRROR, 0, 0), (MIRROR, 8, 1), (MEET, 5, 2)]


def test_arrivals_of_the_next_generation_wait_for_it() -> None:
    agent = Agent()
    words, _ = agent.request(5, generation=1)
    words[COUNT] = 2
    barrier = agent.groups[GROUP_BYTES // 4 :]  # arrived, generation, …
    assert arrive(agent.at, int(words.ctypes.data))
    words[:] = 0  # it was copied
    assert barrier[0] == 0
    assert look_again(agent.at) == NOTHING_TO_DO
    barrier[1] = 1
    assert look_again(agent.at) == WORKED
    assert barrier[0] == 2
    assert agent.state[fields.N_EARLY] == 0
    assert look_again(agent.at) == NOTHING_TO_DO
    assert barrier[0] == 2


def test_more_arrivals_than_there_is_room_for_are_left_to_python() -> None:
    agent = Agent()
    words, _ = agent.request(5, generation=1)
    words[COUNT] = 1
    for _ in range(EARLY):
        assert arrive(agent.at, int(words.ctypes.data))
    assert not arrive(agent.at, int(words.ctypes.data))
    words[GENERATION] = 0
    assert arrive(agent.at, int(words.ctypes.data))
