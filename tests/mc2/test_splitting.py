"""Division of rows into turns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.comm.errors import ArgumentError
from emu.comm.link_model import Link
from emu.mc2.splitting import MAX_TURNS, UNIT, TileSplit, split_rows, turns_worth


def check_whole(split, rows):
    """Turns follow each other without a gap, and cover all rows."""
    at = 0
    for start, count in split:
        assert start == at
        assert count >= 1
        at += count
    assert at == rows == split.rows
    assert len(list(split)) == split.turns
    turns = [
        (start + i * count, count) for start, count, times in split.parts() for i in range(times)
    ]
    assert turns == list(split)
    assert split.longest == max(count for _, count in split)


@given(st.integers(1, 5000), st.data())
def test_turns_asked_for_are_given(rows, data):
    turns = data.draw(st.integers(1, min(rows, 255)))
    split = split_rows(rows, turns, None, 1)
    check_whole(split, rows)
    assert split.turns == turns
    counts = [count for _, count in split]
    assert max(counts) - min(counts) <= UNIT
    if rows % UNIT == 0 and rows >= turns * UNIT:
        assert all(count % UNIT == 0 for count in counts)


@given(st.integers(1, 100_000), st.integers(1, MAX_TURNS))
def test_chosen_turns_are_of_whole_units(rows, worth):
    split = split_rows(rows, 0, None, worth)
    check_whole(split, rows)
    assert split.turns <= 1.5 * worth + 1  # tiles are rounded to the nearest unit
    if split.turns > 1:
        assert split.tile % UNIT == 0
    if worth == 1:
        assert split.turns == 1


def test_turns_are_worth_it_where_both_sides_take_long():
    size = 1 << 20
    slow, fast = Link(bandwidth=1e8), Link(bandwidth=1e12)
    assert turns_worth(1 << 40, 16 * size, 1, slow) == 1
    assert turns_worth(1 << 10, 16 * size, 4, slow) == 1  # nothing to compute
    assert turns_worth(1 << 40, 64, 4, slow) == 1  # nothing to move
    assert turns_worth(1 << 40, 16 * size, 4, slow) == MAX_TURNS
    assert 1 < turns_worth(1 << 40, 2 * size, 4, fast) < MAX_TURNS
    assert turns_worth(1 << 40, 2 * size, 4, None, cores=8) == turns_worth(
        1 << 40, 2 * size, 4, fast
    )
    assert turns_worth(1 << 40, 2 * size, 4, None, cores=7) == 1  # no core for the servers


@given(st.integers(1, 5000), st.data())
def test_rows_asked_for_are_given(rows, data):
    tile = data.draw(st.integers(-(-rows // 255), rows))
    split = split_rows(rows, 0, tile, 1)
    check_whole(split, rows)
    assert split.tile == tile
    assert split.tails == (1 if rows % tile else 0)


def test_the_known_cuts():
    assert split_rows(512, 0, 448, 8) == TileSplit(448, 1, 64, 1)
    assert split_rows(512, 0, None, 8) == TileSplit(64, 8)
    assert split_rows(1024, 0, None, 8) == TileSplit(128, 8)
    assert split_rows(1000, 0, None, 8) == TileSplit(128, 7, 104, 1)
    assert split_rows(512, 0, None, 1) == TileSplit(512, 1)
    assert split_rows(37, 3, None, 8) == TileSplit(13, 1, 12, 2)
    assert split_rows(8, True, None, 1) == split_rows(8, 1, None, 1)


def test_cuts_that_cannot_be_are_refused():
    for arguments, pattern in (
        ((8, 9, None, 1), r"comm_turn must be in \[0, 8\] for 8 rows, but got 9"),
        ((8, None, None, 1), r"comm_turn must be an integer, but got None"),
        ((8, 0, 9, 1), r"tile_rows must be in \[1, 8\], but got 9"),
        ((8, 0, 2.0, 1), r"tile_rows must be an integer, but got 2.0"),
        ((8, 1, 8, 1), r"comm_turn must be 0 with tile_rows, but got 1"),
        ((999, 0, 1, 1), r"at most 255 equal turns, but got 999"),
    ):
        with pytest.raises(ArgumentError, match=pattern):
            split_rows(*arguments)
