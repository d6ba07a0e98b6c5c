"""Who comes next, of candidates and a memory alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from emu.comm.schedule_options import Schedule, Switch
from emu.schedule.area import Area
from emu.schedule.strategies import Candidate, choose, mix

PES = 3


def memory() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.zeros(Area(PES).memory_words, np.int64)


def candidate(actor: int, looks: int = 0, operations: int = 0) -> Candidate:
    return Candidate(actor, (), 0, operations, looks)


def test_by_default_a_pe_goes_on_and_its_stores_arrive_at_once() -> None:
    words = memory()
    order = [
        choose(Schedule(), PES, i, [candidate(a) for a in actors], words).chosen.actor
        for i, actors in enumerate([(0, 1, 2), (0, 1, 3), (0, 1, 2), (1, 2), (0, 1, 2), (0, 2)])
    ]
    assert order == [0, 3, 0, 1, 1, 2]


def test_a_store_that_was_passed_by_waits_for_the_pes() -> None:
    words = memory()
    late = Schedule(prefix=(0,))
    assert choose(late, PES, 0, [candidate(0), candidate(3)], words).chosen.actor == 0
    assert choose(late, PES, 1, [candidate(0), candidate(3)], words).chosen.actor == 0
    assert choose(late, PES, 2, [candidate(3)], words).chosen.actor == 3


def test_who_only_looks_lets_others_come() -> None:
    words = memory()
    assert choose(Schedule(), PES, 0, [candidate(0, 9), candidate(2)], words).chosen.actor == 2
    assert choose(Schedule(), PES, 1, [candidate(0, 9), candidate(1, 9)], words).chosen.actor == 0


def test_switches_are_taken_in_order() -> None:
    words = memory()
    schedule = Schedule(switches=(Switch(0, 2, 1), Switch(1, 1, 2)))
    both = [candidate(0, operations=2), candidate(1), candidate(2)]
    assert choose(schedule, PES, 0, both, words).chosen.actor == 1
    both = [candidate(0, operations=2), candidate(1, operations=1), candidate(2)]
    assert choose(schedule, PES, 1, both, words).chosen.actor == 2


@pytest.mark.parametrize("strategy", ["random", "pct", "delay", "starve"])
def test_a_strategy_depends_on_its_seed_alone(strategy: str) -> None:
    def order(seed: int) -> list[int]:
        words, schedule = memory(), Schedule(strategy=strategy, seed=seed, length=40)
        candidates = [candidate(a) for a in (0, 1, 2, 4, 5)]
        return [choose(schedule, PES, i, candidates, words).chosen.actor for i in range(40)]

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(20)}) > 10


def test_pct_changes_at_few_points() -> None:
    words, schedule = memory(), Schedule(strategy="pct", seed=3, depth=3, length=50)
    candidates = [candidate(a) for a in range(PES)]
    order = [choose(schedule, PES, i, candidates, words).chosen.actor for i in range(50)]
    changes = sum(a != b for a, b in itertools.pairwise(order))
    assert 1 <= changes <= 2


def test_the_starved_hardly_come() -> None:
    words, schedule = memory(), Schedule(strategy="starve", seed=9)
    candidates = [candidate(a) for a in range(PES)]
    order = [choose(schedule, PES, i, candidates, words).chosen.actor for i in range(300)]
    assert min(order.count(a) for a in range(PES)) < 15


def test_mix_spreads() -> None:
    values = {mix(1, i) % 64 for i in range(400)}
    assert len(values) == 64
    assert mix(1, 2) != mix(2, 1)
