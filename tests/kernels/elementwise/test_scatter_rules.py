"""The rules of a quantised scatter that hold on the host and on a device."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.kernels.elementwise.scatter_rules import (
    check_channels,
    check_scatter,
    colliding,
    refuse_index,
    refuse_overlap,
)
from emu.kernels.errors import ArgumentError


@settings(deadline=None, max_examples=200)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20)), min_size=1, max_size=10),
    length=st.integers(1, 6),
)
def test_a_pair_of_rows_is_named_where_any_two_overlap(pairs, length):
    def overlap(i, j):
        return pairs[i][0] == pairs[j][0] and abs(pairs[i][1] - pairs[j][1]) < length

    any_overlap = any(overlap(i, j) for i, j in itertools.combinations(range(len(pairs)), 2))
    found = colliding(np.array(pairs), length)
    assert (found is not None) == any_overlap
    if found:
        first, second = found
        assert first < second
        assert overlap(first, second)
        with pytest.raises(ArgumentError, match=f"rows {first} and {second} at"):
            refuse_overlap(np.array(pairs), found, length)


@pytest.mark.parametrize(
    ("indices", "row", "message"),
    [
        (np.array([0, 9]), 1, r"indices must be in 0\.\.7, but got 9 in row 1"),
        (np.array([[0, 8]]), 0, r"indices\[:, 1\] must be in 0\.\.7, but got 8 in row 0"),
        (np.array([[4, 8]]), 0, r"indices\[:, 0\] must be in 0\.\.3, but got 4 in row 0"),
    ],
)
def test_an_index_out_of_range_is_named_by_its_column(indices, row, message):
    with pytest.raises(ArgumentError, match=message):
        refuse_index(indices, row, 3, 7)


def test_an_axis_counts_from_either_end_and_channels_fit_the_updates():
    target, updates = np.zeros((4, 5, 6, 32), np.int8), np.zeros((3, 5, 2, 32), np.float16)
    indices = np.zeros(3, np.int32)
    for axis in (2, -2):
        assert check_scatter(target, indices, updates, axis, -1, 32, "refuse") == 2
    with pytest.raises(ArgumentError, match="axis must be neither the first nor the last"):
        check_scatter(target, indices, updates, 3, -1, 32, "refuse")
    with pytest.raises(ArgumentError, match="multiple of 64"):
        check_scatter(target, indices, updates, 2, -1, 64, "refuse")
    check_channels("scales", np.ones((1, 32), np.float32), updates)
    with pytest.raises(ArgumentError, match="scales must have 32 elements"):
        check_channels("scales", np.ones((1, 32), np.float32), updates, one_axis=True)
    with pytest.raises(ArgumentError, match="zero_points must be int32 for float16 updates"):
        check_channels("zero_points", np.ones(32, np.int8), updates)
