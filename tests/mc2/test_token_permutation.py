"""Orders of rows by rank and by expert: the arithmetic of the exchange, without PEs."""

from __future__ import annotations

import mc2_moe_reference as reference
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.comm.link_model import Link
from emu.mc2.token_permutation import TokenPermutation, choose_turns, cut_turns


def exchange(buffers, rooms, runs):
    """What AlltoAllV does for one turn, for all ranks: runs[rank] = ((counts, starts) x 2)."""
    for sender in range(len(buffers)):
        for receiver in range(len(buffers)):
            (sent, at), (came, there) = runs[sender][0], runs[receiver][1]
            assert sent[receiver] == came[sender]
            rows = buffers[sender][at[receiver] : at[receiver] + sent[receiver]]
            rooms[receiver][there[sender] : there[sender] + came[sender]] = rows


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(reference.STYLES),
    st.integers(1, 5),
    st.integers(1, 6),
    st.data(),
)
def test_rows_reach_their_experts_and_come_back_in_any_number_of_turns(style, ranks, experts, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    counts = reference.make_counts(rng, style, ranks, experts)
    turns = cut_turns(counts.sum((0, 1)), data.draw(st.integers(1, experts)))
    routes = [TokenPermutation(counts[r], counts[:, r]) for r in range(ranks)]
    owned = [rng.integers(0, 2**15, (r.owned_rows, 3)).astype(np.uint16) for r in routes]
    held = reference.by_expert(owned, counts)
    assert [len(rows) for rows in held] == [r.held_rows for r in routes]

    room = [np.zeros((r.held_rows, 3), np.uint16) for r in routes]
    came = [np.zeros_like(rows) for rows in room]
    for turn in turns:
        runs = [(r.owned_runs(turn), r.held_runs(turn)) for r in routes]
        exchange(owned, room, runs)
        for r, rows, target in zip(routes, room, came, strict=True):
            if r.is_direct(turn):
                target[r.held_run(turn)] = rows[r.held_run(turn)]
            else:
                r.to_experts(rows, target, turn)
    assert all((a == b).all() for a, b in zip(came, held, strict=True))

    back = [np.zeros_like(rows) for rows in owned]
    room = [np.zeros_like(rows) for rows in held]
    for turn in turns:
        for r, rows, target in zip(routes, held, room, strict=True):
            r.to_ranks(rows, target, turn)
        exchange(room, back, [(r.held_runs(turn), r.owned_runs(turn)) for r in routes])
    assert all((a == b).all() for a, b in zip(back, owned, strict=True))


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(reference.STYLES),
    st.integers(1, 5),
    st.integers(1, 6),
    st.integers(0, 2**32),
)
def test_a_rank_finds_its_own_rows_in_both_orders(style, ranks, experts, seed):
    rng = np.random.default_rng(seed)
    counts = reference.make_counts(rng, style, ranks, experts)
    owned = [np.arange(n) + 10_000 * r for r, n in enumerate(counts.sum((1, 2)))]
    held = reference.by_expert(owned, counts)
    for rank in range(ranks):
        routes = TokenPermutation(counts[rank], counts[:, rank])
        seen = []
        for expert in range(experts):
            place, kept = routes.kept_rows(expert, rank)
            assert kept.stop - kept.start == counts[rank, rank, expert]
            assert (owned[rank][place] == held[rank][kept]).all()
            (whole,) = routes.parts(expert)
            before, after = routes.parts(expert, rank)
            assert (before.start, before.stop) == (whole.start, kept.start)
            assert (after.start, after.stop) == (kept.stop, whole.stop)
            seen += held[rank][whole].tolist()
        assert seen == held[rank].tolist()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40), st.data())
def test_turns_cover_all_experts_in_order_and_none_is_empty(loads, data):
    number = data.draw(st.integers(1, len(loads)))
    turns = cut_turns(np.array(loads), number)
    assert len(turns) == number
    assert [turn[0] for turn in turns] == [0] + [turn[1] for turn in turns[:-1]]
    assert turns[-1][1] == len(loads)
    assert all(a < b for a, b in turns)


def test_turns_are_of_even_load():
    assert cut_turns(np.array([8, 1, 1, 1, 1, 4]), 2) == [(0, 1), (1, 6)]
    assert cut_turns(np.array([5] * 6), 3) == [(0, 2), (2, 4), (4, 6)]
    assert cut_turns(np.array([0, 0, 0]), 2) == [(0, 1), (1, 3)]


def test_few_bytes_travel_in_one_turn_and_many_in_no_more_than_there_are_experts():
    copied = [choose_turns(rows, 1 << 10, 0, 8, 2, None) for rows in (0, 1500, 4096, 1 << 20)]
    assert copied == [1, 1, 4, 8]
    assert choose_turns(1 << 20, 1 << 10, 0, 64, 2, None) == 16


def test_turns_beside_products_are_worth_what_they_hide():
    work = {"row_bytes": 2048, "row_work": 1 << 20, "experts": 8, "ranks": 2}
    assert choose_turns(0, **work, link=None) == 1
    assert choose_turns(1024, **work, link=None) == 1  # a copy is over soon
    slow = Link(bandwidth=1e8)
    assert choose_turns(1024, **work, link=slow) == 8
    assert choose_turns(1024, **{**work, "experts": 3}, link=slow) == 3
    assert choose_turns(1024, **{**work, "ranks": 1}, link=slow) == 1
