"""The release fixpoint of wait-for graphs, compared with its definition, and the cycles in them."""

from __future__ import annotations

import itertools
import random

from emu.comm.deadlock.graph import Need, find_cycle, stuck_pes


def any_of(*pes: int) -> Need:
    return Need(pes, is_all=False)


def all_of(*pes: int) -> Need:
    return Need(pes, is_all=True)


def test_a_chain_to_one_that_goes_on_is_released() -> None:
    needs = {0: (all_of(1),), 1: (any_of(2, 3),)}
    assert stuck_pes(needs, {3}) == frozenset()
    assert stuck_pes(needs, set()) == {0, 1}


def test_all_needs_each_and_any_needs_one() -> None:
    assert stuck_pes({0: (all_of(1, 2),)}, {1}) == {0}
    assert stuck_pes({0: (any_of(1, 2),)}, {1}) == frozenset()
    assert stuck_pes({0: (any_of(),)}, {1}) == {0}


def test_one_need_of_several_is_enough() -> None:
    assert stuck_pes({0: (any_of(1), any_of(2))}, {2}) == frozenset()


def test_a_need_of_itself_releases_nobody() -> None:
    assert stuck_pes({0: (any_of(0), all_of(1))}, set()) == {0}


def definition(needs: dict[int, tuple[Need, ...]], free: set[int]) -> frozenset[int]:
    """The largest set of waiting PEs each of whose needs fails while only those outside of the set go on."""
    pes = sorted(needs)
    for size in range(len(pes), -1, -1):
        for group in itertools.combinations(pes, size):
            going = free | (set(pes) - set(group))
            if not any(met(need, going) for pe in group for need in needs[pe]):
                return frozenset(group)
    raise AssertionError("the empty set is one")


def met(need: Need, going: set[int]) -> bool:
    return (all if need.is_all else any)(pe in going for pe in need.pes)


def test_random_graphs_have_the_stuck_pes_of_the_definition() -> None:
    rng, sizes = random.Random(7), set()
    for _ in range(2000):
        n_pes = rng.randint(1, 7)
        pes = range(n_pes)
        waiting = [pe for pe in pes if rng.random() < 0.8]
        free = {pe for pe in pes if pe not in waiting and rng.random() < 0.5}
        needs = {
            pe: tuple(
                Need(tuple(rng.sample(pes, rng.randint(1, min(3, n_pes)))), rng.random() < 0.5)
                for _ in range(rng.choice((1, 1, 2)))
            )
            for pe in waiting
        }
        stuck = stuck_pes(needs, free)
        assert stuck == definition(needs, free)
        sizes.add(len(stuck))
    assert sizes == set(range(8))


def test_a_shortest_cycle_is_found() -> None:
    edges = {0: (1,), 1: (2,), 2: (0, 3), 3: (4,), 4: (3, 0), 5: (0,)}
    assert set(find_cycle(edges)) == {3, 4}
    assert find_cycle({0: (1,), 1: (2,)}) == ()
    assert find_cycle({0: (0,)}) == (0,)


def test_each_of_a_cycle_waits_for_the_next() -> None:
    rng = random.Random(3)
    found = 0
    for _ in range(500):
        n_pes = rng.randint(2, 9)
        edges = {
            pe: tuple(rng.sample(range(n_pes), rng.randint(0, 2)))
            for pe in range(n_pes)
            if rng.random() < 0.8
        }
        cycle = find_cycle(edges)
        found += bool(cycle)
        for pe, other in zip(cycle, (*cycle[1:], *cycle[:1]), strict=True):
            assert other in edges[pe]
        assert len(set(cycle)) == len(cycle)
    assert 100 < found < 500
