"""Names of tiles."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from emu.pypto.grids import Grid
from emu.pypto.tiles import tile_starts

extents = st.lists(
    st.tuples(st.integers(1, 9), st.integers(1, 5), st.integers(0, 3)), min_size=2, max_size=4
)


@given(extents)
def test_places_follow_the_walk(axes):
    shape, tile, low = (tuple(each) for each in zip(*axes, strict=True))
    grid = Grid(low, shape, tile)
    walk = tile_starts(shape, tile)
    assert math.prod(grid.counts) == len(walk)
    for number, (start, slices) in enumerate(walk):
        place = grid.place(number)
        assert tuple(i * t for i, t in zip(place, tile, strict=True)) == start
        assert np.ravel_multi_index(place, grid.counts) == number
        bounds = grid.covers(place, place)
        for cut, corner in zip(slices, low, strict=True):
            assert f" {corner + cut.start}..{corner + cut.stop - 1}" in bounds


def test_the_last_tile_of_a_view():
    grid = Grid((16, 0), (20, 100), (16, 32))
    assert grid.describe([7]) == "tile (1, 3) of the grid 2 x 4, rows 32..35, columns 96..99"
    assert (
        grid.describe(range(8))
        == "tiles (0, 0) to (1, 3) of the grid 2 x 4, rows 16..35, columns 0..99"
    )
    assert grid.describe([0, 1, 2, 3, 5]).endswith("columns 96..99; …")
    assert Grid((0, 0, 0), (2, 2, 2), (1, 2, 2)).describe([1]) == (
        "tile (1, 0, 0) of the grid 2 x 1 x 1, axis 0: 1..1, rows 0..1, columns 0..1"
    )


def test_signals_have_no_tiles():
    grid = Grid((), (), ())
    assert grid.describe([0]) == grid.names([0]) == ""
