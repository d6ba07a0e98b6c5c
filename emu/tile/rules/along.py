"""Rules of operations along an axis: reductions, scans, histograms, products."""

from __future__ import annotations

from emu.tile.ir import Operation
from emu.tile.rules.demands import (
    axis_in,
    count_operands,
    count_regions,
    dtype_in,
    is_integer,
    need,
    result_is,
    tile_of,
    types_are,
    yields,
)
from emu.tile.types import (
    BF16,
    F16,
    F32,
    F64,
    I1,
    I32,
    Tile,
    Type,
    with_element,
    with_shape,
)


def _along(o: Operation) -> tuple[list[Tile], int]:
    need(len(o.operands) > 0, "it must have 1 operand or more, but got 0")
    count_regions(o, 1)
    tiles = [tile_of(v) for v in o.operands]
    shape = tiles[0].shape
    types_are("its operands", o.operands, [Tile(shape, t.element) for t in tiles])
    axis = axis_in(o, len(shape))
    elements: list[Type] = [t.element for t in tiles]
    types_are("the region's arguments", o.regions[0].arguments, elements * 2)
    types_are("what the region yields", yields(o.regions[0]), elements)
    return tiles, axis


def reduce(o: Operation) -> None:
    """Check the rules of REDUCE."""
    tiles, axis = _along(o)
    shape = tiles[0].shape[:axis] + tiles[0].shape[axis + 1 :]
    types_are("its results", o.results, [with_shape(shape, t.element) for t in tiles])


def scan(o: Operation) -> None:
    """Check the rules of SCAN."""
    tiles, _ = _along(o)
    types_are("its results", o.results, tiles)


def histogram(o: Operation) -> None:
    """Check the rules of HISTOGRAM."""
    count_operands(o, 1, 2)
    tile = tile_of(o.operands[0])
    dtype_in(o.operands[0], is_integer, "integers")
    need(tile.rank == 1, f"its operand must have one axis, but got {tile}")
    wanted = [tile, with_element(tile, I1)]
    types_are("its operands", o.operands, wanted[: len(o.operands)])
    bins = o.attributes["bins"]
    need(bins >= 1, f"bins must be 1 or more, but got {bins}")
    result_is(o, Tile((bins,), I32))


def sort(o: Operation) -> None:
    """Check the rules of SORT."""
    count_operands(o, 1)
    tile = tile_of(o.operands[0])
    dtype_in(o.operands[0], lambda d: d.is_integer and not d.is_signed, "unsigned integers")
    result_is(o, tile)


def dot(o: Operation) -> None:
    """Check the rules of DOT."""
    count_operands(o, 3)
    a, b, c = (tile_of(v) for v in o.operands)
    fits = min(a.rank, b.rank) >= 2 and a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-2]
    fits = fits and c.shape == (*a.shape[:-1], b.shape[-1])
    need(fits, f"it cannot multiply {a} by {b} and add {c}")
    pair = [
        dtype_in(v, lambda d: d.is_float or d.bits == 8, "floats, i8 or u8") for v in o.operands[:2]
    ]
    total = dtype_in(
        o.operands[2], lambda d: d in (F16, F32, F64, I32), "f16, f32, f64 or i32 to add to"
    )
    if total == I32:
        need(
            not pair[0].is_float and pair[0] == pair[1],
            f"i32 adds products of i8 or u8, not {a}, {b}",
        )
    else:
        widest = max(d.bits for d in pair)
        need(all(d.is_float for d in pair), f"{total} adds products of floats, not {a}, {b}")
        need(widest <= max(total.bits, 32), f"products of {a} and {b} need f64, but got {c}")
    if o.attributes.get("native"):
        need(
            pair == [BF16, BF16] and total == F32 and a.shape[-1] % 2 == 0,
            f"native adds pairs of bf16 to f32, but got {a}, {b} and {c}",
        )
    result_is(o, c)
