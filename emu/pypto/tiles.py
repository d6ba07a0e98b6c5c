"""Tile shapes and the walk over a tensor tile by tile."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from emu.kernels.core.messages import shown
from emu.pypto.context import CONTEXT
from emu.pypto.errors import TileShapeError
from emu.pypto.symbolic import Shape

Tile = tuple[Shape, tuple[slice, ...]]
"""Start of a tile, and the slices that cut it out."""


def set_vec_tile_shapes(*tile: int) -> None:
    """Set the tile shape of the vector and communication ops that follow.

    Args:
        tile: 1 to 4 extents, each positive. Communication walks a tensor of the same rank tile by
            tile, last axis fastest. Nothing is set at the start of a program.

    Raises:
        TileShapeError: If there are not 1 to 4 extents, or one is not a positive integer.
    """
    if tile and tile == CONTEXT.vec_tile and all(type(extent) is int for extent in tile):
        return
    if not 1 <= len(tile) <= 4:
        raise TileShapeError(
            f"set_vec_tile_shapes must be given 1 to 4 extents, but got {len(tile)}: {list(tile)}"
        )
    for axis, extent in enumerate(tile):
        if not isinstance(extent, int | np.integer) or extent < 1:
            raise TileShapeError(
                f"set_vec_tile_shapes: extent {axis} must be an integer of at least 1, "
                f"but got {shown(extent)}"
            )
    CONTEXT.vec_tile = tuple(int(extent) for extent in tile)


def get_vec_tile_shapes() -> list[int]:
    """Return the tile shape of vector ops; empty if none is set."""
    return list(CONTEXT.vec_tile)


def set_cube_tile_shapes(
    m: list[int], k: list[int], n: list[int], *_: object, **__: object
) -> None:
    """Set the tile shapes ([m0, m1], [k0, k1], [n0, n1]) of ``matmul``.

    They are checked and kept; on the emulator they change neither results nor order, because a
    product accumulates in FP32 over the whole of k.

    Raises:
        TileShapeError: If one is not a list of positive integers.
    """
    for name, pair in (("m", m), ("k", k), ("n", n)):
        if (
            not isinstance(pair, list | tuple)
            or not pair
            or any(not isinstance(extent, int | np.integer) or extent < 1 for extent in pair)
        ):
            raise TileShapeError(
                f"set_cube_tile_shapes: {name} must be a list of positive integers, but got {shown(pair)}"
            )
    CONTEXT.cube_tile = tuple([int(extent) for extent in pair] for pair in (m, k, n))


def get_cube_tile_shapes() -> tuple[object, ...]:
    """Return the tile shapes of ``matmul``; empty if none are set."""
    return tuple(list(pair) for pair in CONTEXT.cube_tile)


# Cached: programs walk the same few shapes for every put, get and signal.
@lru_cache(maxsize=4096)
def tile_starts(shape: Shape, tile: Shape) -> tuple[Tile, ...]:
    """Return every tile of ``shape``, last axis fastest, tail tiles smaller."""
    walk: list[Tile] = [((), ())]
    for extent, step in zip(shape, tile, strict=True):
        walk = [
            ((*start, at), (*slices, slice(at, min(at + step, extent))))
            for start, slices in walk
            for at in range(0, extent, step)
        ]
    return tuple(walk)


def count_tiles(shape: Shape, tile: Shape) -> int:
    """Return the number of tiles of ``shape``."""
    count = 1
    for extent, step in zip(shape, tile, strict=True):
        count *= -(-extent // step)
    return count


def vec_tile(shape: Shape, op: str, argument: str) -> Shape:
    """Return the tile shape in force for an op on a tensor of this shape.

    Raises:
        TileShapeError: If none is set, or its rank is another.
    """
    tile = CONTEXT.vec_tile
    if len(tile) == len(shape):
        return tile
    if not tile:
        raise TileShapeError(
            f"{op}: the tile shape must be set first: call "
            f"pypto.set_vec_tile_shapes({', '.join(map(str, shape))}) for one tile"
        )
    raise TileShapeError(
        f"{op}: the tile shape must have the rank of {argument}, {len(shape)} "
        f"(shape {list(shape)}), but set_vec_tile_shapes set {list(tile)} of rank {len(tile)}"
    )
