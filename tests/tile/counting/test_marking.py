"""What accesses touch: runs found in tiles of offsets, ranges that wrap, masks, cells outside of the memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emu.tile import cpu, reference
from emu.tile.counting.affine import find_lanes, find_prefix
from emu.tile.counting.counted import _address_of_marking
from emu.tile.counting.instrument import instrument
from emu.tile.counting.marking import mark, set_bits
from emu.tile.counting.plan import (
    BYTES,
    GROUP_WORDS,
    HEAD,
    NARROW,
    NONE,
    POINTER_WORDS,
    RANGE32,
    SCALAR,
    WIDE,
    Mark,
    Member,
)
from emu.tile.ir import Builder, Function, Module, Region, Value
from emu.tile.ops import Code
from emu.tile.types import F32, I32, I64, U8, Pointer

START = 1 << 20  # an address; nothing is read there


def bits_of(words: np.ndarray) -> list[int]:
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist()


GROUP, LINE = 70, 5
"""The group of the program that accesses memory, and the binary logarithm of a line's bytes."""


def facts_of(
    start: int, count: int, granule: int, bits: np.ndarray
) -> tuple[list[int], np.ndarray]:
    """Return the words of an argument, and the bits of its lines."""
    lines = np.zeros(((count * granule >> LINE) + 1, GROUP_WORDS), np.uint64)
    cells = [start, count, granule.bit_length() - 1, *(b.ctypes.data for b in bits)]
    return [*cells, LINE, lines.ctypes.data], lines


def lines_of(bits: np.ndarray) -> set[tuple[int, int]]:
    """Return the groups and the lines whose bits are set."""
    each = GROUP_WORDS * 64
    return {(at % each, at // each) for at in bits_of(bits.reshape(-1))}


def marked(
    how: Mark, cells: tuple[int, int], values: list[np.ndarray], base: int
) -> tuple[list[int], list[int]]:
    """Mark an access, and return the cells that were read and written."""
    count, granule = cells
    bits = np.zeros((2, count // 64 + 1), np.uint64)
    facts, lines = facts_of(START, count, granule, bits)
    words = np.array([0, 0, 0, *facts, *how.words()], np.int64)
    holder, address = np.array([words.ctypes.data]), np.array([base])
    group = np.array([GROUP])
    told = [holder, group, *values, *(address for _ in how.members)]
    record = np.array([0, 0, 0, 0, *(v.ctypes.data for v in told)], np.int64)
    mark(HEAD + POINTER_WORDS, record.ctypes.data)
    assert lines_of(lines) == {(GROUP, cell * granule >> LINE) for cell in bits_of(bits[0])}
    return bits_of(bits[0]), bits_of(bits[1])


def wanted(addresses: np.ndarray, mask: np.ndarray, size: int, cells: tuple[int, int]) -> list[int]:
    count, granule = cells
    touched = {
        (int(a) - START + n) // granule for a in addresses[mask].reshape(-1) for n in range(size)
    }
    return sorted(c for c in touched if 0 <= c < count)


def tile_of(rng: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return offsets as kernels have them: rows, columns, strides, wrapped around, or any."""
    rows, columns = (np.arange(n) for n in (int(np.prod(shape[:-1])), shape[-1]))
    kind = rng.integers(6)
    far = int(rng.integers(1, 90))
    if kind == 0:
        found = rows[:, None] * far + columns
    elif kind == 1:
        found = rows[:, None] + columns * far
    elif kind == 2:
        found = rows[:, None] * far + columns % max(1, shape[-1] // 3)
    elif kind == 3:
        found = rows[:, None] * shape[-1] + columns
    elif kind == 4:
        found = rows[:, None] * far - columns
    else:
        found = rng.integers(0, 500, (len(rows), len(columns)))
    return found.reshape(shape) + int(rng.integers(-40, 200))


def mask_of(rng: Any, shape: tuple[int, ...]) -> np.ndarray:
    kind = rng.integers(4)
    if kind == 0:
        return np.ones(shape, bool)
    if kind == 1:
        return np.broadcast_to(np.arange(shape[-1]) < rng.integers(shape[-1] + 1), shape).copy()
    if kind == 2:
        return np.broadcast_to(np.arange(shape[0]).reshape(-1, *[1] * (len(shape) - 1)) < 1, shape)
    return rng.random(shape) < 0.7


def test_tiles_of_offsets_mark_what_they_touch() -> None:
    rng = np.random.default_rng(0)
    shapes = [(1,), (8,), (100,), (64, 32), (1, 16), (16, 1), (3, 5), (2, 3, 8), (130, 2)]
    for _ in range(300):
        shape = shapes[rng.integers(len(shapes))]
        size, granule = rng.choice([(4, 4), (8, 8), (1, 1), (8, 2), (2, 2)])
        offsets, mask = tile_of(rng, shape), np.ascontiguousarray(mask_of(rng, shape))
        is_wide, is_masked = rng.random() < 0.5, not mask.all() or rng.random() < 0.5
        kind, dtype = (WIDE, np.int64) if is_wide else (NARROW, np.int32)
        step, unit = 1, int(size)
        if is_wide and rng.random() < 0.5:  # addresses, in bytes
            offsets, step, unit = offsets * size, int(size), 1
        cells = int(rng.integers(1, 700)), int(granule)
        reads, writes = bool(rng.integers(2)), bool(rng.integers(2))
        members = (Member(0, unit, reads, writes),)
        how = Mark(
            kind, offsets.size, shape[-1], BYTES if is_masked else NONE, step, int(size), members
        )
        values = [offsets.astype(dtype), *([mask.view(np.uint8)] if is_masked else [])]
        read, written = marked(how, cells, values, START)
        expected = wanted(START + offsets * unit, mask, int(size), cells)
        assert read == (expected if reads else [])
        assert written == (expected if writes else [])


@pytest.mark.parametrize("first", [5, -3, (1 << 31) - 4])
def test_a_range_wraps_as_integers_do(first: int) -> None:
    mask = np.array([1, 0, 1, 1, 1, 1, 0, 1], bool)
    offsets = (np.arange(8) + first + (1 << 31)) % (1 << 32) - (1 << 31)
    base = START - 4 * int(offsets[4])  # so that some are inside
    for lets in (mask, np.ones(8, bool)):
        kind = BYTES if lets is mask else NONE
        how = Mark(RANGE32, 8, 8, kind, 1, 4, (Member(0, 4, True, False),))
        values = [np.array([first]), *([lets.view(np.uint8)] if lets is mask else [])]
        read, _ = marked(how, (100, 4), values, base)
        assert read == wanted(base + 4 * offsets, lets, 4, (100, 4))


def test_a_scalar_under_a_mask() -> None:
    for lets in (0, 1):
        how = Mark(SCALAR, 1, 1, BYTES, 1, 4, (Member(0, 4, True, True),))
        read, written = marked(how, (100, 4), [np.array([lets], np.uint8)], START + 12)
        assert read == written == [3] * lets


def test_bits_are_set_from_one_to_before_another() -> None:
    for first in range(0, 200, 7):
        for end in range(first - 3, 260, 5):
            bits = np.zeros(5, np.uint64)
            set_bits(bits.ctypes.data, first, end)
            assert bits_of(bits) == list(range(first, end))


@pytest.mark.parametrize("start", [0, 3, -20, (1 << 31) - 5, -(1 << 31)])
@pytest.mark.parametrize("closed", [False, True])
def test_lanes_below_a_bound(start: int, closed: bool) -> None:
    """Of a range that may wrap: those that a prefix says are those of the comparison."""
    bounds = [0, 1, 7, -15, start, min(start + 4, (1 << 31) - 1), (1 << 31) - 1, -(1 << 31)]
    for bound in bounds:
        given, out = Value(I32), Value(Pointer(I64))
        limit = Value(I32)
        body = Region([given, limit, out])
        build = Builder(body)
        tile = build.binary(Code.ADD, build.splat(given, (8,)), build.arange(0, 8))
        code = Code.LE if closed else Code.LT
        prefix = find_prefix(build, build.compare(code, tile, build.splat(limit, (8,))))
        assert prefix is not None
        for number, value in enumerate(find_lanes(build, prefix)):
            place = build.ptr_add(out, build.constant(number, I64))
            build.store(place, build.bitcast(value, I64))
        build.return_()
        found = np.zeros(3, np.int64)
        reference.run(
            Module({"kernel": Function("kernel", body)}), (start, bound, found.ctypes.data)
        )
        before, wrap, behind = found.tolist()
        numbers = (np.arange(8) + start + (1 << 31)) % (1 << 32) - (1 << 31)
        true = np.flatnonzero(numbers <= bound if closed else numbers < bound).tolist()
        assert [*range(before), *range(wrap, wrap + behind)] == true


@pytest.mark.parametrize("how", ["cpu", "reference"])
def test_native_code_is_told_by_either_backend(how: str) -> None:
    x = Value(Pointer(F32))
    body = Region([x])
    build = Builder(body)
    lanes = build.arange(0, 4)
    at = build.ptr_add(build.splat(x, (4,)), lanes)
    build.load(at, build.compare(Code.LT, lanes, build.splat(build.constant(3, I32), (4,))))
    build.store(build.ptr_add(x, build.constant(5, I32)), build.constant(1.0, F32))
    build.return_()
    module, plan = instrument(Module({"kernel": Function("kernel", body)}))
    assert plan.is_apart
    memory, bits = np.zeros(8, np.float32), np.zeros((2, 1), np.uint64)
    facts, lines = facts_of(memory.ctypes.data, 8, 4, bits)
    marks = [word for each in plan.marks for word in each.words()]
    words = np.array([0, _address_of_marking(), 0, *facts, *marks, *[0] * plan.columns], np.int64)
    if how == "cpu":
        cpu.compile(module).bind(1)(1, 1, 1, (memory.ctypes.data, words.ctypes.data))
    else:
        reference.run(module, (memory.ctypes.data, words.ctypes.data))
    assert (bits_of(bits[0]), bits_of(bits[1])) == ([0, 1, 2], [5])
    assert lines_of(lines) == {(0, 0)}
    assert not memory.any()


def test_elements_of_several_sizes_share_cells_of_the_smallest() -> None:
    x = Value(Pointer(U8))
    body = Region([x])
    build = Builder(body)
    wide = build.append(Code.CAST, (x,), (Pointer(F32),), {"rounding": "rtne"}).result
    build.load(build.ptr_add(wide, build.constant(1, I32)))
    build.load(build.ptr_add(x, build.constant(1, I32)))
    build.return_()
    _, plan = instrument(Module({"kernel": Function("kernel", body)}))
    assert plan.granules == (1,)
