"""Stores on their way: in which order they may arrive."""

from __future__ import annotations

import numpy as np

from emu.comm.world.steering import Span
from emu.schedule.area import R_STORES, ROW_WORDS, STORES
from emu.schedule.stores import Stores


def to(pe: int, first: int = 0) -> Span:
    return Span(pe, first, first + 8, True)


def test_they_arrive_one_by_one_or_together() -> None:
    row = np.zeros(ROW_WORDS, np.int64)
    stores, done = Stores(row), list[str]()
    stores.add(to(1), 5, lambda: done.append("a"), joins=False)
    stores.add(to(1, 64), 5, lambda: done.append("b"), joins=True)
    stores.add(to(2), 6, lambda: done.append("c"), joins=False)
    assert row[R_STORES] == 2
    assert stores.arrive(2) == to(2)
    assert stores.arrive(1) == Span(1, 0, 72, True)
    assert stores.arrive(1) is None
    assert done == ["c", "a", "b"]
    assert stores.is_empty


def test_a_fence_counts_for_what_comes_behind_it() -> None:
    stores, done = Stores(np.zeros(ROW_WORDS, np.int64)), list[str]()
    stores.add(to(1), 0, lambda: done.append("before"), joins=False)
    stores.fence()
    stores.add(to(1), 0, lambda: done.append("behind"), joins=False)
    assert stores.arrive_all(2, before_fence=True) == []
    assert len(stores.arrive_all(1, before_fence=True)) == 1
    assert done == ["before"]
    assert len(stores.arrive_all()) == 1


def test_there_is_room_for_so_many() -> None:
    stores = Stores(np.zeros(ROW_WORDS, np.int64))
    for _ in range(STORES):
        assert not stores.is_full
        stores.add(to(0), 0, lambda: None, joins=False)
    assert stores.is_full
    assert stores.arrive_first() == to(0)
    assert not stores.is_full
