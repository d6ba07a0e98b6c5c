"""The ring of a PE: many writers, one reader, and the table from which a wait knows who ended it."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from emu.kernels.core.jit import jit
from emu.trace import ring
from emu.trace.area import FLOW_WORDS, FLOWS, W_MASK, W_PE, WORDS_BYTES
from emu.trace.draining import _Ring
from emu.trace.events import EVENT


class _SmallArea:
    """An area of one ring, without sites."""

    def __init__(self, records: int) -> None:
        self.records = records

    def words(self, pe: int) -> int:
        return 0

    def ring(self, pe: int) -> int:
        return WORDS_BYTES

    def sites(self, pe: int) -> int:
        return WORDS_BYTES + self.records * EVENT.itemsize


def make(records: int) -> tuple[_Ring, int]:
    """A ring, and its address."""
    memory = np.zeros(WORDS_BYTES + records * EVENT.itemsize + 64, np.uint8)
    return _Ring(memory, _SmallArea(records), 0), int(memory.ctypes.data)


@jit()
def _write_many(address: int, first: int, count: int) -> None:
    for number in range(first, first + count):
        ring.put_record(address, number, 0, 0, 0, 1 << 32)


def test_a_record_has_what_was_written() -> None:
    taken, address = make(8)
    site = 7 | 4 << 32 | 2 << 40
    ring.write_span(address, 100, 150, -5, 99, site, -1)
    ring.write(address, 100, 1, 2, site, 1023)
    events = taken.take(all_of_them=False)
    assert events is not None
    assert [events[name].tolist() for name in ("size", "flow", "site")] == [
        [-5, 1],
        [99, 2],
        [7, 7],
    ]
    assert [events[name].tolist() for name in ("kind", "thread", "peer")] == [
        [4, 4],
        [2, 2],
        [-1, 1023],
    ]
    assert (events[0]["start"], events[0]["duration"]) == (100, 50)
    assert events[1]["duration"] > 0
    assert taken.take(all_of_them=False) is None


def test_a_full_ring_counts_what_is_lost_and_goes_on() -> None:
    taken, address = make(8)
    _write_many(address, 0, 11)
    assert taken.lost == 3
    events = taken.take(all_of_them=False)
    assert events is not None
    assert events["start"].tolist() == list(range(8))
    _write_many(address, 11, 5)
    events = taken.take(all_of_them=False)
    assert events is not None
    assert events["start"].tolist() == list(range(11, 16))
    assert taken.lost == 3


@pytest.mark.parametrize("records", [64, 1 << 14])
def test_what_threads_write_at_once_is_read_once_or_counted(records: int) -> None:
    taken, address = make(records)
    count, writers = 20_000, 3
    _write_many(address, 0, 0)
    threads = [
        threading.Thread(target=_write_many, args=(address, number * count, count))
        for number in range(writers)
    ]
    for thread in threads:
        thread.start()
    found = []
    while any(thread.is_alive() for thread in threads):
        events = taken.take(all_of_them=False)
        if events is not None:
            found.append(events)
    for thread in threads:
        thread.join()
    events = taken.take(all_of_them=False)
    if events is not None:
        found.append(events)
    starts = np.concatenate([part["start"] for part in found])
    assert len(np.unique(starts)) == len(starts)
    assert len(starts) + taken.lost == count * writers
    for number in range(writers):  # each writer's are in its order
        mine = starts[(starts >= number * count) & (starts < (number + 1) * count)]
        assert (np.diff(mine) > 0).all()


def test_a_record_that_was_not_written_to_its_end_holds_back_the_others_until_the_end() -> None:
    taken, address = make(8)
    _write_many(address, 0, 3)
    taken._last[1] = 0  # its writer is about to store the last word
    first = taken.take(all_of_them=False)
    assert first is not None
    assert first["start"].tolist() == [0]
    assert taken.take(all_of_them=False) is None
    rest = taken.take(all_of_them=True)
    assert rest is not None
    assert rest["start"].tolist() == [2]
    assert taken.lost == 1


@pytest.fixture
def flows() -> tuple[int, int]:
    """Addresses of the words of PE 3, and of a table of flows."""
    words, table = np.zeros(WORDS_BYTES // 8, np.int64), np.zeros(FLOWS * FLOW_WORDS, np.int64)
    words[W_MASK], words[W_PE] = 7, 3
    _kept.extend((words, table))
    return int(words.ctypes.data), int(table.ctypes.data)


_kept: list[np.ndarray] = []


def test_what_was_left_at_a_place_is_taken_once(flows: tuple[int, int]) -> None:
    words, table = flows
    left = ring.leave(words, table, 4096, 0)
    assert (left >> ring.FLOW_PE_SHIFT) - 1 == 3
    assert ring.take(table, 4104, 0) == (0, 0)
    flow, when = ring.take(table, 4096, 0)
    assert flow == left
    assert when > 0
    assert ring.take(table, 4096, 0) == (0, 0)


def test_the_last_that_was_left_counts(flows: tuple[int, int]) -> None:
    words, table = flows
    ring.leave(words, table, 8, 0)
    last = ring.leave(words, table, 8, 0)
    assert ring.take(table, 8, 0)[0] == last


def test_what_was_left_before_is_not_taken(flows: tuple[int, int]) -> None:
    words, table = flows
    ring.leave(words, table, 8, 0)
    _, when = ring.take(table, 8, 0)
    ring.leave(words, table, 8, 0)
    assert ring.take(table, 8, 1 << 62) == (0, 0)
    assert ring.take(table, 8, when)[0] != 0


def test_a_place_never_gets_the_flow_of_another(flows: tuple[int, int]) -> None:
    words, table = flows
    left = {place: ring.leave(words, table, place, 0) for place in range(0, 1 << 20, 8)}
    found = {place: ring.take(table, place, 0)[0] for place in left}
    assert all(flow in (0, left[place]) for place, flow in found.items())
    assert sum(flow != 0 for flow in found.values()) > FLOWS // 4


def test_a_get_takes_puts_of_others_only(flows: tuple[int, int]) -> None:
    words, table = flows
    ring.leave(words, table, 8, 1)
    assert ring.take_from_put(words, table, 8) == 0  # its own
    other = np.zeros(WORDS_BYTES // 8, np.int64)
    other[W_PE] = 4
    assert ring.take_from_put(int(other.ctypes.data), table, 8) != 0
    ring.leave(words, table, 8, 0)
    assert ring.take_from_put(int(other.ctypes.data), table, 8) == 0  # a signal is for waits
