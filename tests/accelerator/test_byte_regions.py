"""Regions of memory, compared with sets of bytes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.accelerator import byte_regions
from emu.accelerator.byte_regions import Region, dense, overlap, strided


@st.composite
def arrays(draw):
    rank = draw(st.integers(0, 3))
    shape = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    strides = draw(st.lists(st.integers(0, 12), min_size=rank, max_size=rank))
    return draw(st.integers(0, 24)), draw(st.integers(1, 4)), shape, strides


def bytes_of(start, itemsize, shape, strides):
    found = set()
    for index in itertools.product(*map(range, shape)):
        first = start + sum(i * s for i, s in zip(index, strides, strict=True))
        found.update(range(first, first + itemsize))
    return found


@given(arrays(), arrays(), st.integers(0, 40), st.integers(0, 40))
def test_regions_overlap_where_they_share_a_byte(one, other, low, high) -> None:
    first, second = strided(*one), strided(*other)
    ours, theirs = bytes_of(*one), bytes_of(*other)
    shared = overlap(first, second)
    assert (shared is not None) == bool(ours & theirs)
    if shared is not None:
        assert shared[0] <= min(ours & theirs) <= max(ours & theirs) < shared[1]
    part = {byte for byte in ours if low <= byte < high}
    assert (overlap(first.within(low, high), second) is not None) == bool(part & theirs)


@given(arrays(), arrays())
def test_what_a_region_covers_lies_in_it(one, other) -> None:
    if strided(*one).covers(strided(*other)):
        assert bytes_of(*other) <= bytes_of(*one)


@pytest.mark.parametrize("shape", [(), (6,), (2, 3), (3, 1, 2)])
def test_contiguous_arrays_are_one_run(shape) -> None:
    strides, step = [], 4
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    assert strided(8, 4, shape, strides) == dense(8, 8 + step)


def test_columns_of_a_matrix_are_disjoint_whatever_its_size(monkeypatch) -> None:
    rows = 1 << 40
    first, second = strided(0, 4, (rows,), (64,)), strided(4, 4, (rows,), (64,))
    assert overlap(first, second) is None
    assert overlap(first, strided(2, 4, (rows,), (64,))) == (2, first.high)
    # Runs that are not alike are counted, unless there are too many.
    other = strided(0, 4, (8,), (96,))
    assert overlap(strided(0, 4, (8,), (64,)), other) is not None
    monkeypatch.setattr(byte_regions, "MOST_RUNS", 7)
    assert overlap(strided(0, 4, (8,), (64,)), other) is None


def test_a_region_is_a_key() -> None:
    assert {strided(0, 4, (2,), (8,)): 1}[Region(0, 12, 0, 4, ((2, 8),))] == 1
