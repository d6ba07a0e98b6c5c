"""Updates of tiles straight from their operands: the same as from copies, whatever overlaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.tile import cpu
from emu.tile.cpu.emit import direct_updates
from emu.tile.text import parse_module

RNG = np.random.default_rng(8)
COUNT, BLOCK = 1 << 17, 1024


@triton.jit
def add(values, places, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    where = tl.load(places + at, mask=mask, other=0)
    tl.atomic_add(out + where, tl.load(values + at, mask=mask, other=0), mask=mask)


@triton.jit
def add_squares(values, places, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    where = tl.load(places + at)
    x = tl.load(values + at).to(tl.float32)
    tl.atomic_add(out + where % 100, x * x + 1)


@triton.jit
def greatest(values, places, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    where = tl.load(places + at, mask=mask, other=0)
    tl.atomic_max(out + where, tl.load(values + at, mask=mask, other=0), mask=mask)


TEXT = """
func @add(%values: ptr<f32>, %places: ptr<i64>, %out: ptr<f32>, %n: i32) {{
  %at = arange {{start = 0, end = 1024}} : tile<1024xi32>
  %1 = splat %places : tile<1024xptr<i64>>
  %2 = ptr_add %1, %at : tile<1024xptr<i64>>
  %where = load %2 : tile<1024xi64>
  %3 = splat %values : tile<1024xptr<f32>>
  %4 = ptr_add %3, %at : tile<1024xptr<f32>>
  %x = load %4 : tile<1024xf32>
  %5 = splat %out : tile<1024xptr<f32>>
  %6 = ptr_add %5, %where : tile<1024xptr<f32>>
  %old = atomic_rmw %6, %x {{kind = "add"}} : tile<1024xf32>
  {more}
  return
}}
"""


@pytest.mark.parametrize(
    ("more", "wanted"),
    [("", True), ("store %4, %old", False), ("store %4, %x", False), ("store %values, %n", None)],
)
def test_stretches_that_do_nothing_else(
    monkeypatch: pytest.MonkeyPatch, more: str, wanted: bool | None
) -> None:
    seen: list[bool] = []
    find = direct_updates.find

    def noted(frame: Any, operations: Any) -> Any:
        group = find(frame, operations)
        seen.append(group is not None)
        return group

    monkeypatch.setattr(direct_updates, "find", noted)
    if wanted is None:
        more = '%f = cast %n {rounding = "rtne"} : f32\n  store %values, %f'
    cpu.compile(parse_module(TEXT.format(more=more)))
    assert any(seen) == bool(wanted)


def launch(kernel: Any, values: Any, places: Any, out: Any, count: int = COUNT) -> None:
    kernel[(-(-count // BLOCK),)](values, places, out, count, BLOCK=BLOCK, num_threads=1)


def by_programs(values: Any, places: Any, out: Any, count: int, combine: Any = np.add) -> None:
    """Update as programs do, each of which reads all of its operands first."""
    for start in range(0, count, BLOCK):
        part = slice(start, min(start + BLOCK, count))
        combine.at(out, places[part].copy(), values[part].copy())


def some(dtype: Any, count: int) -> np.ndarray:
    return (RNG.standard_normal(count) * 50).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("count", [COUNT, COUNT - 5])
@pytest.mark.parametrize("size", [1, 4096])
def test_sums(dtype: Any, index: Any, count: int, size: int) -> None:
    places = RNG.integers(0, size, COUNT).astype(index)
    values, out = some(dtype, COUNT), some(dtype, size)
    wanted = out.copy()
    by_programs(values, places, wanted, count)
    launch(add, values, places, out, count)
    np.testing.assert_array_equal(out, wanted)


def test_what_is_computed_from_loads() -> None:
    places, values = RNG.integers(0, 4096, COUNT), some(np.float32, COUNT)
    out, wanted = np.zeros(100, np.float32), np.zeros(100, np.float32)
    by_programs(values * values + np.float32(1), places % 100, wanted, COUNT)
    launch(add_squares, values, places, out)
    np.testing.assert_array_equal(out, wanted)


def test_the_greatest() -> None:
    places, values = RNG.integers(0, 4096, COUNT), RNG.integers(-999, 999, COUNT).astype(np.int32)
    out = np.zeros(4096, np.int32)
    wanted = out.copy()
    by_programs(values, places, wanted, COUNT, np.maximum)
    launch(greatest, values, places, out)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("shift", [0, 1, 7, 500, 1024, 3000])
@pytest.mark.parametrize("before", [False, True])
def test_updates_of_their_own_values(shift: int, before: bool) -> None:
    """Each program changes what it has read or what the next one reads."""
    whole = some(np.float32, COUNT + 8192)
    wanted = whole.copy()
    places = RNG.integers(0, 4096, COUNT) + np.arange(COUNT) // BLOCK * BLOCK

    def views(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, out = x[: COUNT + 4096], x[shift:]
        return (values, out) if before else (x[shift:], x)

    values, out = views(wanted)
    places = np.minimum(places, len(out) - 1)
    by_programs(values, places, out, COUNT)
    launch(add, *_arranged(views(whole), places))
    np.testing.assert_array_equal(whole, wanted)


def _arranged(pair: tuple[np.ndarray, np.ndarray], places: np.ndarray) -> tuple[Any, Any, Any]:
    return pair[0], places, pair[1]


@pytest.mark.parametrize("shift", [0, 3, 1024])
def test_updates_of_their_own_places(shift: int) -> None:
    whole = np.zeros(COUNT + 8192, np.int64)
    whole[:COUNT] = RNG.integers(0, 4096, COUNT)
    wanted, values = whole.copy(), RNG.integers(0, 2, COUNT)
    by_programs(values, wanted, wanted[shift:], COUNT)
    launch(add, values, whole, whole[shift:])
    np.testing.assert_array_equal(whole, wanted)


def test_neighbours_in_memory() -> None:
    """The target lies right between places and values; all three are in one block of memory."""
    size = 4096
    whole = np.zeros(8 * COUNT + 4 * size + 4 * COUNT, np.uint8)
    places = whole[: 8 * COUNT].view(np.int64)
    out = whole[8 * COUNT :][: 4 * size].view(np.float32)
    values = whole[8 * COUNT + 4 * size :].view(np.float32)
    places[:], values[:] = RNG.integers(0, size, COUNT), some(np.float32, COUNT)
    wanted, kept = out.copy(), (places.copy(), values.copy())
    by_programs(values, places, wanted, COUNT)
    launch(add, values, places, out)
    np.testing.assert_array_equal(out, wanted)
    np.testing.assert_array_equal(places, kept[0])
    np.testing.assert_array_equal(values, kept[1])
