"""Working sets of programs that follow each other: beside their definition, which is all windows of all programs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import emu.triton.language as tl
from emu import triton
from emu.tile.counting.plan import GROUP_WORDS
from emu.tile.counting.working_sets import (
    GROUPS,
    LINE,
    MOST_LINES,
    group_shift,
    line_shift,
    working_set,
)
from emu.trace.counting import Counts, count


def definition(touched: list[set[int]], line: int, each: int = 1) -> list[tuple[int, int]]:
    """Return the working sets of programs that touch lines; ``each`` programs are a group."""
    groups = [set().union(*touched[i : i + each]) for i in range(0, len(touched), each)]
    found = []
    window = 1
    while window < len(groups):
        sizes = [len(set().union(*groups[i : i + window])) for i in range(len(groups) - window + 1)]
        found.append((window * each, round(sum(sizes) / len(sizes)) * line))
        window *= 2
    return [*found, (len(touched), len(set().union(*touched)) * line)]


@settings(max_examples=60, deadline=None)
@given(data=st.data(), programs=st.integers(1, 40) | st.sampled_from([127, 128, 129, 600]))
def test_bits_of_groups_give_the_average_of_all_windows(data: st.DataObject, programs: int) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    density = data.draw(st.sampled_from([0.0, 0.02, 0.3, 1.0]))
    touched = [set(np.flatnonzero(rng.random(20) < density).tolist()) for _ in range(programs)]
    shift = group_shift(programs)
    bits = np.zeros((20, GROUP_WORDS), np.uint64)
    for number, lines in enumerate(touched):
        for at in lines:
            bits[at, number >> shift >> 6] |= np.uint64(1 << (number >> shift & 63))
    assert list(working_set(bits, 7, programs)) == definition(touched, 128, 1 << shift)


def test_there_are_at_most_so_many_groups_and_lines() -> None:
    for programs in (1, 2, 127, 128, 129, 255, 256, 257, 100_000):
        shift = group_shift(programs)
        assert -(-programs // (1 << shift)) <= GROUPS
        assert shift == 0 or -(-programs // (1 << shift - 1)) > GROUPS
    for size in (1, LINE, MOST_LINES * LINE, MOST_LINES * LINE + 1, 3 << 30):
        shift = line_shift(size)
        assert 1 << shift >= LINE
        assert -(-size // (1 << shift)) <= MOST_LINES
        assert 1 << shift == LINE or -(-size // (1 << shift - 1)) > MOST_LINES


@triton.jit
def rows(x, out, n, WIDTH: tl.constexpr):
    """Read three rows, the last of which the next program reads first, and write one; the last programs nothing."""
    o = tl.arange(0, WIDTH)
    pid = tl.program_id(0) + 2 * tl.program_id(1)
    total = tl.zeros((WIDTH,), tl.float32)
    for row in range(3):
        total += tl.load(x + (2 * pid + row) * WIDTH + o, mask=o < n, other=0.0)
    tl.store(out + pid * WIDTH + o, total, mask=(o < n) & (pid < 4))


@triton.jit
def picked(index, x, counts):
    """Read and change what memory says."""
    at = tl.load(index + tl.program_id(0))
    tl.atomic_add(counts + at, 1)
    tl.store(x + at * 32, tl.load(x + at * 32 + 32))


def sets_of(found: Counts, name: str) -> list[tuple[int, int]]:
    (tensor,) = (t for t in found.tensors if t.name == name)
    return list(tensor.loaded_by)


def lines_from(base: np.ndarray, array: np.ndarray, byte: int) -> int:
    """Return the line of a byte of an array; lines begin where its storage does."""
    return int(array.ctypes.data - base.ctypes.data + byte) // LINE


def test_a_grid_of_two_axes_counts_its_programs_by_their_numbers() -> None:
    width = 64  # two lines
    x, out = np.zeros((17, width), np.float32), np.zeros((8, width), np.float32)
    found = count(rows, (2, 4), x, out, 40, WIDTH=width)
    part = 40 * 4  # bytes of a row that are read
    read = [
        {lines_from(x, x, r * 256 + b) for r in range(2 * p, 2 * p + 3) for b in range(part)}
        for p in range(8)
    ]
    assert sets_of(found, "x") == definition(read, LINE)
    assert sets_of(found, "out") == []  # nobody reads it


@pytest.mark.parametrize("programs", [1, 30, 700])
def test_addresses_and_atomics_that_memory_decides(programs: int) -> None:
    rng = np.random.default_rng(3)
    index = rng.integers(0, 50, programs).astype(np.int32)
    x, counts = np.zeros(52 * 32, np.float32), np.zeros(50, np.int32)
    found = count(picked, (programs,), index, x, counts)
    each = 1 << group_shift(programs)
    assert sets_of(found, "index") == definition(
        [{p * 4 // LINE} for p in range(programs)], LINE, each
    )
    assert sets_of(found, "x") == definition([{int(i) + 1} for i in index], LINE, each)
    changed = definition([{int(i) * 4 // LINE} for i in index], LINE, each)
    assert sets_of(found, "counts") == changed


def test_sums_of_counts_add_working_sets_of_the_same_grid_only() -> None:
    x, out = np.zeros((17, 64), np.float32), np.zeros((8, 64), np.float32)
    one = count(rows, (2, 4), x, out, 40, WIDTH=64)
    both = one + one
    assert sets_of(both, "x") == [(n, 2 * size) for n, size in sets_of(one, "x")]
    other = count(rows, (2, 3), x, out, 40, WIDTH=64)
    assert sets_of(one + other, "x") == []
    assert Counts.from_json(both.to_json()) == both


def test_counts_of_earlier_releases_have_no_working_sets() -> None:
    x, out = np.zeros((17, 64), np.float32), np.zeros((8, 64), np.float32)
    stored = count(rows, (2, 4), x, out, 40, WIDTH=64).to_json()
    for tensor in stored["tensors"]:
        del tensor["loaded_by"]
    assert all(t.loaded_by == () for t in Counts.from_json(stored).tensors)
