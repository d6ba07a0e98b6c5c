"""The walk over a tensor tile by tile."""

from __future__ import annotations

import pytest

import emu.pypto as p


def test_tiles_walk_last_axis_fastest_with_smaller_tails():
    from emu.pypto.tiles import count_tiles, tile_starts

    walk = tile_starts((5, 3), (2, 2))
    assert [start for start, _ in walk] == [(0, 0), (0, 2), (2, 0), (2, 2), (4, 0), (4, 2)]
    assert walk[-1][1] == (slice(4, 5), slice(2, 3))
    assert count_tiles((5, 3), (2, 2)) == 6
    assert tile_starts((0, 3), (2, 2)) == ()
    p.set_vec_tile_shapes(2, 3)
    assert p.get_vec_tile_shapes() == [2, 3]
    p.set_cube_tile_shapes([1, 2], [3, 4], [5, 6])
    assert p.get_cube_tile_shapes() == ([1, 2], [3, 4], [5, 6])


def test_a_tile_shape_without_extents_is_refused_also_where_none_is_set(monkeypatch):
    monkeypatch.setattr("emu.pypto.tiles.CONTEXT.vec_tile", ())
    with pytest.raises(p.TileShapeError, match="must be given 1 to 4 extents, but got 0"):
        p.set_vec_tile_shapes()
    p.set_vec_tile_shapes(1, 4)
    with pytest.raises(p.TileShapeError, match="extent 0 must be an integer of at least 1"):
        p.set_vec_tile_shapes(1.0, 4)  # equal to what is set, but no integer
    assert p.get_vec_tile_shapes() == [1, 4]
