"""Counts of rows, turns and staged rows of an exchange with experts, without PEs."""

from __future__ import annotations

import mc2_moe_reference as reference
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.comm.errors import ArgumentError
from emu.mc2.expert_exchange import MAX_ROWS, Staging, check_turns, counts_of
from emu.mc2.token_permutation import MAX_TURNS, TokenPermutation, cut_turns


@pytest.mark.parametrize("kind", [list, tuple, np.int32, np.uint8, np.int64])
def test_counts_are_a_matrix_of_ranks_and_experts(kind):
    given_counts = kind(range(6)) if kind in (list, tuple) else np.arange(6, dtype=kind)
    counts = counts_of("send_counts", given_counts, 2, 3)
    assert counts.dtype == np.int64
    np.testing.assert_array_equal(counts, [[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1.0] * 6, "send_counts must be integers"),
        ("counts", "send_counts must be integers, but got 'counts'"),
        ([[1], [2, 3]], "send_counts must be integers"),
        ([1] * 5, "send_counts must have 6 elements, one for each of 3 experts on each of 2 ranks"),
        ([[1] * 3] * 2, r"must have 6 elements, .*, but got shape \(2, 3\)"),
        ([0, 0, 0, 0, -2, 0], "must not be negative, but got -2 for expert 1 of rank 1"),
        ([0, 0, MAX_ROWS + 1, 0, 0, 0], f"at most {MAX_ROWS}, but got {MAX_ROWS + 1} for expert 2 of rank 0"),
    ],
)  # fmt: skip
def test_what_is_no_count_is_named_with_its_expert_and_rank(value, text):
    with pytest.raises(ArgumentError, match=text):
        counts_of("send_counts", value, 2, 3)


def test_a_turn_has_at_least_one_expert():
    assert [check_turns(n, 3) for n in (0, 1, np.int8(3))] == [0, 1, 3]
    for turns, experts in ((4, 3), (-1, 3), (MAX_TURNS + 1, 100)):
        with pytest.raises(ArgumentError, match=rf"comm_turn must be in \[0, {min(experts, MAX_TURNS)}\]"):  # fmt: skip
            check_turns(turns, experts)


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(reference.STYLES),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(0, 2**32 - 1),
)
def test_staged_rows_come_back_as_they_were_and_need_no_copy_where_the_orders_agree(
    style, ranks, experts, turns, seed
):
    rng = np.random.default_rng(seed)
    counts = reference.make_counts(rng, style, ranks, experts)
    routes = TokenPermutation(counts[0], counts[:, 0].copy())
    cut = cut_turns(routes.held.sum(0), min(turns, experts))
    rows = np.arange(2.0 * routes.held_rows).reshape(-1, 2)
    sent, came = Staging(routes, cut, rows.copy()), Staging(routes, cut, np.empty_like(rows))
    for turn in cut:
        sent.to_ranks(turn)
        source, target = sent.buffer(turn), came.buffer(turn)
        assert (source is sent.rows) == routes.is_direct(turn)
        part = slice(*routes.expert_starts[list(turn)])
        target[part] = source[part]
        came.to_experts(turn)
    np.testing.assert_array_equal(came.rows, rows)
