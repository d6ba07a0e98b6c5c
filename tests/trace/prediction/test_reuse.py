"""What comes from memory beside caches that are simulated line by line: products whose programs run in several orders."""

from __future__ import annotations

import itertools
import math
import random
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.trace.prediction.devices.device import Device
from emu.trace.prediction.devices.files import load_device
from emu.trace.prediction.errors import PredictionError
from emu.trace.prediction.reuse import memory_bytes
from emu.trace.prediction.work import Traffic, Work

H100 = load_device("h100")
Tile = tuple[str, int, int]


def grouped(size: int, group: int) -> list[tuple[int, int]]:
    """Return the rows and columns of a product's programs, in the order of Triton's tutorial."""
    found = []
    for pid in range(size * size):
        first = pid // (group * size) * group
        rows = min(size - first, group)
        within = pid % (group * size)
        found.append((first + within % rows, within // rows))
    return found


class Lru:
    """A cache that forgets what was used the longest ago."""

    def __init__(self, size: int) -> None:
        self.size, self.lines, self.misses = size, OrderedDict[Tile, None](), 0

    def read(self, line: Tile) -> None:
        if line in self.lines:
            self.lines.move_to_end(line)
            return
        self.misses += 1
        self.lines[line] = None
        if len(self.lines) > self.size:
            self.lines.popitem(last=False)


class Careless:
    """A cache that forgets anything."""

    def __init__(self, size: int) -> None:
        self.size, self.places, self.lines, self.misses = size, dict[Tile, int](), list[Tile](), 0
        self.random = random.Random(0)

    def read(self, line: Tile) -> None:
        if line in self.places:
            return
        self.misses += 1
        if len(self.lines) < self.size:
            self.places[line] = len(self.lines)
            self.lines.append(line)
            return
        at = self.random.randrange(self.size)
        del self.places[self.lines[at]]
        self.lines[at], self.places[line] = line, at


def simulated(cache: Lru | Careless, programs: list[tuple[int, int]], depth: int, wave: int) -> int:
    """Return the tiles that come from memory; the programs of a wave go along k together."""
    for start in range(0, len(programs), wave):
        for k in range(depth):
            for i, j in programs[start : start + wave]:
                cache.read(("a", i, k))
                cache.read(("b", j, k))
    return cache.misses


def sets_of(places: list[int], depth: int) -> tuple[tuple[float, float], ...]:
    """Return the working sets of programs, each of which reads all ``depth`` tiles of a row or column."""
    found = []
    window = 1
    while window < len(places):
        starts = range(len(places) - window + 1)
        total = sum(len(set(places[i : i + window])) for i in starts)
        found.append((float(window), depth * total / len(starts)))
        window *= 2
    return (*found, (float(len(places)), float(depth * len(set(places)))))


def product(programs: list[tuple[int, int]], depth: int, is_counted: bool = True) -> Work:
    moved = float(len(programs) * depth)
    places = [[i for i, _ in programs], [j for _, j in programs]]
    sets = [sets_of(each, depth) for each in places]
    return Work(
        programs=len(programs),
        tensors=tuple(Traffic(moved, s[-1][1], s if is_counted else ()) for s in sets),
    )


def cached(size: int) -> Device:
    return H100.changed([f"l2_size={size}", "reuse.share=1"])


SIZES = [(12, 12), (16, 8)]
GROUPS = [1, 2, 4, 8, 12]
WAVES = [16, 33, 64]
PARTS = [0.05, 0.1, 0.2, 0.4, 0.8]


def test_bytes_from_memory_are_near_those_of_simulated_caches() -> None:
    errors, guesses = [], []
    for (size, depth), group, wave in itertools.product(SIZES, GROUPS, WAVES):
        programs = grouped(size, group)
        counted, uncounted = product(programs, depth), product(programs, depth, False)
        for part in PARTS:
            capacity = int(part * counted.footprint)
            lru = simulated(Lru(capacity), programs, depth, wave)
            careless = simulated(Careless(capacity), programs, depth, wave)
            between = math.sqrt(lru * careless)
            errors.append(abs(memory_bytes(counted, cached(capacity), wave) / between - 1))
            guesses.append(abs(memory_bytes(uncounted, cached(capacity), wave) / between - 1))
    assert np.mean(errors) < 0.15
    assert np.percentile(errors, 90) < 0.3
    assert np.mean(errors) < np.mean(guesses) / 3


@pytest.mark.parametrize("wave", WAVES)
def test_orders_of_programs_rank_as_in_a_simulated_cache(wave: int) -> None:
    """Those that differ by more than a quarter there: windows begin anywhere, and waves where groups of rows do."""
    rows = []
    for group in (1, 2, 3, 4, 6, 8):
        programs = grouped(16, group)
        work = product(programs, 16)
        found = memory_bytes(work, cached(100), wave)
        rows.append((simulated(Careless(100), programs, 16, wave), found))
    pairs = [(p, q) for p in rows for q in rows if p[0] > 1.25 * q[0]]
    assert len(pairs) >= 3
    assert all(p[1] > q[1] for p, q in pairs)


def test_what_all_fits_is_read_once() -> None:
    work = product(grouped(8, 1), 8)
    assert memory_bytes(work, cached(128), 16) == work.footprint == 128
    assert memory_bytes(work, cached(127), 64) == 128  # one wave reads it once, too


def test_programs_that_share_nothing_read_all_that_they_move() -> None:
    apart = tuple((float(2**n), float(2**n)) for n in range(9))
    work = Work(programs=256, tensors=(Traffic(256.0, 256.0, apart),))
    for wave in (1, 16, 100, 256):
        assert memory_bytes(work, cached(20), wave) == pytest.approx(256)


def test_a_wave_of_less_than_a_group_of_programs() -> None:
    """Below the smallest counted window a power law leads to what one program moves."""
    sets = ((64.0, 800.0), (128.0, 1600.0), (256.0, 3200.0))
    work = Work(programs=256, tensors=(Traffic(25600.0, 3200.0, sets),))
    few = memory_bytes(work, cached(0.001), 8)
    assert few == pytest.approx(100 * 8**0.5 * 32)


@st.composite
def concave(draw: st.DrawFn) -> Work:
    tensors = []
    programs = draw(st.sampled_from([64, 100, 256]))
    for _ in range(draw(st.integers(1, 3))):
        size, slope, sets, before = 0.0, draw(st.floats(1, 1e6)), [], 0.0
        windows = [2.0**n for n in range(8) if 2**n < programs] + [float(programs)]
        for window in windows:
            size += slope * (window - before)
            sets.append((window, size))
            before, slope = window, slope * draw(st.floats(0, 1))
        tensors.append(Traffic(sets[0][1] * programs, size, tuple(sets)))
    return Work(programs=programs, tensors=tuple(tensors))


@settings(max_examples=80, deadline=None)
@given(work=concave(), part=st.floats(0.001, 1), factor=st.floats(1, 4), wave=st.integers(1, 256))
def test_a_larger_cache_is_never_worse_and_bytes_stay_in_their_bounds(
    work: Work, part: float, factor: float, wave: int
) -> None:
    small = memory_bytes(work, cached(part * work.footprint), wave)
    large = memory_bytes(work, cached(part * factor * work.footprint), wave)
    assert large <= small * (1 + 1e-6)
    assert work.footprint * (1 - 1e-9) <= large <= small <= work.total * (1 + 1e-9) or (
        large == pytest.approx(small)
    )


def test_the_same_work_in_another_grid_has_windows_of_as_much_work() -> None:
    work = product(grouped(8, 2), 8)
    sets = work.divided(128).tensors[0].sets
    assert [n for n, _ in sets] == [2.0 * n for n, _ in work.tensors[0].sets]
    assert [size for _, size in sets] == [size for _, size in work.tensors[0].sets]


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (((0.5, 1.0),), "programs of a working set must be"),
        (((2.0, 1.0), (1.0, 2.0)), "programs of a working set must be"),
        (((1.0, 2.0), (2.0, 1.0)), "the working set of 2 programs must be"),
        (((1.0, math.nan),), "the working set of 1 programs must be"),
    ],
)
def test_working_sets_that_cannot_be(sets: tuple[tuple[float, float], ...], message: str) -> None:
    with pytest.raises(PredictionError, match=message):
        Work(programs=4, tensors=(Traffic(8.0, 4.0, sets),))
