"""Names of tiles in reports: their place in the grid of tiles, and the elements that they cover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from emu.pypto.symbolic import Shape

MAX_NAMED = 4
"""Tiles that a report names one by one."""


@dataclass(frozen=True)
class Grid:
    """Tiles of a view.

    Attributes:
        low: Corner of the view in its symmetric tensor.
        shape: Extents of the view; () for signals without data.
        tile: Extents of a tile.
    """

    low: Shape
    shape: Shape
    tile: Shape

    @property
    def counts(self) -> Shape:
        """Number of tiles along each axis."""
        return tuple(-(-n // t) for n, t in zip(self.shape, self.tile, strict=True))

    def __str__(self) -> str:
        return " x ".join(map(str, self.counts))

    def place(self, tile: int) -> Shape:
        """Return the place of a tile, given by its number, in the grid."""
        place: list[int] = []
        for count in reversed(self.counts):
            tile, i = divmod(tile, count)
            place.append(i)
        return tuple(reversed(place))

    def tiles_in(self, low: Shape, extent: Shape) -> list[int]:
        """Return the numbers of the tiles in a rectangle of the view, of whole tiles."""
        numbers = [0]
        for count, tile, a, n in zip(self.counts, self.tile, low, extent, strict=True):
            places = range(a // tile, -(-(a + n) // tile))
            numbers = [number * count + place for number in numbers for place in places]
        return numbers

    def name(self, tile: int) -> str:
        """Return what a tile is called: ``tile (1, 3)``."""
        return f"tile {_tuple(self.place(tile))}" if self.shape else "its slot"

    def covers(self, first: Shape, last: Shape) -> str:
        """Return the elements, of the symmetric tensor, from one tile's first to another tile's last."""
        parts = []
        rank = len(self.shape)
        for axis, (a, b) in enumerate(zip(first, last, strict=True)):
            begin = self.low[axis] + a * self.tile[axis]
            end = self.low[axis] + min((b + 1) * self.tile[axis], self.shape[axis])
            word = {rank - 2: "rows", rank - 1: "columns"}.get(axis, f"axis {axis}:")
            parts.append(f"{word} {begin}..{end - 1}")
        return ", ".join(parts)

    def describe(self, tiles: Sequence[int]) -> str:
        """Name tiles with the elements that they cover; many that make up a rectangle as one."""
        if not self.shape:
            return ""
        places = [self.place(tile) for tile in tiles]
        if len(places) > MAX_NAMED:
            first, last = (tuple(map(end, zip(*places, strict=True))) for end in (min, max))
            if prod(b - a + 1 for a, b in zip(first, last, strict=True)) == len(places):
                return (
                    f"tiles {_tuple(first)} to {_tuple(last)} of the grid {self}, "
                    f"{self.covers(first, last)}"
                )
        named = [
            f"tile {_tuple(at)} of the grid {self}, {self.covers(at, at)}" for at in places[:1]
        ]
        named += [f"tile {_tuple(at)}, {self.covers(at, at)}" for at in places[1:MAX_NAMED]]
        return "; ".join(named) + "; …" * (len(places) > MAX_NAMED)

    def names(self, tiles: Sequence[int]) -> str:
        """Name tiles by their places alone."""
        if not self.shape:
            return ""
        named = ", ".join(_tuple(self.place(tile)) for tile in tiles[:MAX_NAMED])
        more = f" and {len(tiles) - MAX_NAMED} more" if len(tiles) > MAX_NAMED else ""
        return f"tile{'s' * (len(tiles) > 1)} {named}{more} of the grid {self}"


def _tuple(place: Shape) -> str:
    return f"({', '.join(map(str, place))})"
