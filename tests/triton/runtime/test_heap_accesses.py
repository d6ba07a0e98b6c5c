"""Kernels on symmetric memory under ``--check race``: what they read and write there races with other PEs, byte by byte."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emu
import emu.triton.language as tl
from emu import CheckError, Checks, Cmp, triton
from emu.check import Race
from emu.comm.world.listened_heaps import Heaps
from emu.triton import knobs
from emu.triton.runtime import grid_race, heap_accesses

RACE = Checks(race=True)


@triton.jit
def scale(x, to, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(to + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def every_other(x, to, first, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    at = 2 * i + first
    tl.store(to + at, 2 * tl.load(x + at, mask=i < n), mask=i < n)


@triton.jit
def columns(x, to, rows, width, W: tl.constexpr, H: tl.constexpr):
    r, c = tl.arange(0, H)[:, None], 2 * tl.arange(0, W)[None, :]
    mask = (r < rows) & (c < width)
    tl.store(to + r * width + c, tl.load(x + r * width + c, mask=mask) + 1, mask=mask)


@triton.jit
def gather(x, index, to, B: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.load(index + i)
    tl.store(to + i, tl.load(x + at, mask=at >= 0, other=0))


@triton.jit
def add_up(x, total, B: tl.constexpr):
    tl.atomic_add(total, tl.sum(tl.load(x + tl.arange(0, B))), sem="relaxed")


@triton.jit
def hand_over(x, flag, me, B: tl.constexpr):
    i = tl.arange(0, B)
    if me == 0:
        tl.store(x + i, i)
        tl.atomic_xchg(flag, 1, sem="release", scope="sys")
    else:
        while tl.atomic_add(flag, 0, sem="acquire", scope="sys") == 0:
            pass
        tl.store(x + i, tl.load(x + i) + 1)


def reads_what_is_put(repaired: bool) -> None:
    world = emu.world()
    x, flag = world.alloc(100, np.float32, name="x"), world.alloc(1, np.int64)
    if world.my_pe == 1:
        world.put_signal(x, np.ones(100, np.float32), 0, flag, 1)  # A
    else:
        if repaired:
            world.wait_until(flag, Cmp.EQ, 1)
        to = np.zeros(100, np.float32)
        scale[(7,)](x.local, to, 100, B=16)  # B


def writes_what_is_got(repaired: bool) -> None:
    world = emu.world()
    x = world.alloc(100, np.float32, name="x")
    if world.my_pe == 1:
        scale[(7,)](np.ones(100, np.float32), x.on(0), 100, B=16)  # A
    if repaired:
        world.barrier()
    if world.my_pe == 0:
        world.get(x, 0)  # B


def reads_by_indices(repaired: bool) -> None:
    world = emu.world()
    x = world.alloc(64, np.float32, name="x")
    index = np.array([1, 2, -1, 63], np.int64)
    part = x[3:63] if repaired else x[63:]
    if world.my_pe == 1:
        world.put(part, np.ones(part.shape, np.float32), 0)  # A
    else:
        gather[(1,)](x.local, index, np.zeros(4, np.float32), B=4)  # B


def adds_what_is_read(repaired: bool) -> None:
    world = emu.world()
    total = world.alloc(1, np.float32, name="total", poison=False)
    add_up[(1,)](np.ones(16, np.float32), total.on(0), B=16)  # A
    world.barrier() if repaired else None
    if world.my_pe == 0:
        assert total.local[0] in (0, 16, 32)  # B


def one_lane_too_many(repaired: bool) -> None:
    """PE 1 puts what lies behind the mask's bound, or the last element in it."""
    world = emu.world()
    x = world.alloc(100, np.float32, name="x")
    if world.my_pe == 1:
        world.put(x[50 if repaired else 49 :][:1], [1.0], 0)  # A
    else:
        scale[(7,)](x.local, np.zeros(100, np.float32), 50, B=16)  # B


def puts_columns(repaired: bool) -> None:
    """PE 1 puts the odd columns, or one even one, while PE 0's kernel works on the even ones."""
    world = emu.world()
    x = world.alloc((6, 10), np.float32, name="x")
    if world.my_pe == 1:
        part = x[:, 1::2] if repaired else x[5:, 8:]
        world.put(part, np.ones(part.shape, np.float32), 0)  # A
    else:
        columns[(1,)](x.local, x.local, 6, 10, W=8, H=8)  # B


PROGRAMS = [
    reads_what_is_put,
    writes_what_is_got,
    reads_by_indices,
    adds_what_is_read,
    one_lane_too_many,
    puts_columns,
]


def races(program: Callable[..., object], *args: Any, **options: Any) -> list[Race]:
    try:
        emu.launch(program, 2, args=args, checks=RACE, **options)
    except CheckError as error:
        return [r for r in error.reports if isinstance(r, Race)]
    return []


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_race_is_found_and_its_repair_is_silent(program: Callable[[bool], None]) -> None:
    assert races(program, True) == []
    found = races(program, False)
    lines, first = inspect.getsourcelines(program)
    marks = {first + i for i, text in enumerate(lines) if re.search("# [AB]$", text)}
    assert found
    assert all({r.first.line, r.second.line} == marks for r in found)
    assert {Path(r.first.file).name for r in found} == {Path(__file__).name}


def test_the_report_names_the_launch_and_the_line_of_the_kernel() -> None:
    (report,) = races(reads_what_is_put, False)
    (side,) = [s for s in (report.first, report.second) if s.operation.startswith("kernel")]
    lines, first = inspect.getsourcelines(scale.fn)
    (line,) = [first + i for i, text in enumerate(lines) if "tl.load" in text]
    assert side.operation == f"kernel scale (load at {Path(__file__).name}:{line})"
    assert (side.pe, side.verb) == (0, "reads")
    assert "scale[(7,)](x.local, to, 100, B=16)  # B" in report.text


def neighbours() -> None:
    world = emu.world()
    me, other = world.my_pe, 1 - world.my_pe
    x = world.alloc(128, np.float32, name="x", poison=False)
    world.barrier()
    for _ in range(3):
        every_other[(4,)](x.local, x.local, 0, 64, B=16)
        world.put(x[1::2], np.full(64, me, np.float32), other)
        world.quiet()
    world.barrier()
    assert not x.local[::2].any()
    scale[(8,)](x.on(0), np.zeros(128, np.float32), 128, B=16)
    scale[(8,)](x.on(1), np.zeros(128, np.float32), 128, B=16)


def test_strided_neighbours_and_two_readers_are_silent() -> None:
    assert races(neighbours) == []


def in_the_kernel() -> None:
    """The kernels themselves give the order, also to what the PEs do before and behind."""
    world = emu.world()
    x, y = world.alloc(16, np.int32, name="x"), world.alloc(4, np.int32, name="y")
    flag = world.alloc(1, np.int32, name="flag", poison=False)
    world.barrier()
    if world.my_pe == 0:
        world.put(y, np.arange(4, dtype=np.int32), 1)
        world.quiet()
    hand_over[(1,)](x.on(1), flag.on(1), world.my_pe, B=16)
    if world.my_pe == 1:
        assert (x.local == np.arange(16) + 1).all()
        assert (y.local == np.arange(4)).all()


def signals_from_a_kernel() -> None:
    world = emu.world()
    x = world.alloc(16, np.int32, name="x", poison=False)
    flag = world.alloc(1, np.int32, name="flag", poison=False)
    world.barrier()
    if world.my_pe == 0:
        world.put(x, np.ones(16, np.int32), 1)
        world.quiet()
        hand_over[(1,)](x.on(1), flag.on(1), 0, B=16)
    else:
        while world.fetch(flag, 1) == 0:
            pass
        assert (x.local == np.arange(16)).all()


@pytest.mark.parametrize("program", [in_the_kernel, signals_from_a_kernel])
def test_an_order_that_kernels_give_is_no_race(program: Callable[[], None]) -> None:
    assert races(program) == []


def a_barrier_too_few_beside_such_a_kernel() -> None:
    """What happens before any kernel signals is told as ever."""
    world = emu.world()
    x = world.alloc(16, np.int32, name="x", poison=False)
    flag = world.alloc(1, np.int32, name="flag", poison=False)
    if world.my_pe == 0:
        world.put(x, np.ones(16, np.int32), 1)
    else:
        x.local.sum()
    world.barrier()
    hand_over[(1,)](x.on(1), flag.on(1), world.my_pe, B=16)


def test_other_races_of_such_a_program_are_found() -> None:
    assert len(races(a_barrier_too_few_beside_such_a_kernel)) == 1


def without_symmetric_memory(repaired: bool) -> None:
    world = emu.world()
    x = np.ones(100, np.float32)
    scale[(7,)](x, np.zeros(100, np.float32), 100, B=16)
    gather[(1,)](x, np.zeros(4, np.int64), np.zeros(4, np.float32), B=4)
    world.barrier()


def test_other_memory_is_not_told() -> None:
    assert races(without_symmetric_memory, True) == []


# --- footprints and observed accesses say the same ---------------------------------------------


@triton.jit
def rounds(x, to, rows, width, B: tl.constexpr):
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        i = tl.arange(0, B)
        if row % 3 != 1:
            tl.store(
                to + row * width + i, tl.load(x + row * width + i, mask=i < width), mask=i < width
            )


@triton.jit
def triangle(x, to, width, B: tl.constexpr):
    r, c = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    tl.store(to + r * width + c, tl.load(x + r * width + c, mask=r >= c), mask=r >= c)


@triton.jit
def blocks(x, to, rows, width, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)[:, None]
    c = tl.program_id(1) * B + tl.arange(0, B)[None, :]
    inside = (r < rows) & (c < width)
    tl.store(to + c * rows + r, tl.load(x + r * width + c, mask=inside), mask=inside)


@triton.jit
def branch_on_memory(x, to, B: tl.constexpr):
    i = tl.arange(0, B)
    if tl.load(x) > 0:
        tl.store(to + i, tl.load(x + i))


@triton.jit
def until_zero(x, to):
    at = 0
    while tl.load(x + at) > 0:
        tl.store(to + at, at)
        at += 1


def launches(rng: np.random.Generator) -> list[tuple[Callable[..., Any], bool]]:
    """Return launches on two arrays of 400 floats, and whether their footprints are known."""
    n, rows, width = (int(v) for v in rng.integers(1, 13, 3))
    first, grid = int(rng.integers(0, 2)), int(rng.integers(1, 4))
    return [
        (lambda x, to: scale[(4,)](x, to, 5 * n, B=16), True),
        (lambda x, to: every_other[(grid,)](x, to, first, 3 * n, B=16), True),
        (lambda x, to: columns[(1,)](x, to, rows, width, W=8, H=16), True),
        (lambda x, to: rounds[(grid,)](x, to, rows, width, B=16), True),
        (lambda x, to: blocks[(4, 4)](x, to, rows, width, B=4), True),
        (lambda x, to: triangle[(1,)](x, to, width, B=8), False),
        (lambda x, to: branch_on_memory[(1,)](x, to, B=8), False),
        (lambda x, to: until_zero[(1,)](x, to), False),
    ]


class Told:
    """A listener that keeps what it is told: the bytes by operation, from the first byte of either array."""

    finds_races = True

    def __init__(self, *arrays: np.ndarray[Any, Any]) -> None:
        self.arrays = arrays
        self.found: dict[tuple[str, bool, object], set[tuple[int, int]]] = {}

    def used_spans(
        self, operation: str, spans: np.ndarray[Any, Any], *, writes: bool, atomic: object = None
    ) -> None:
        found = self.found.setdefault((operation, writes, atomic), set())
        for low, high in spans.tolist():
            for number, array in enumerate(self.arrays):
                start = array.__array_interface__["data"][0]
                if start <= low < start + array.nbytes:
                    found |= {(number, byte - start) for byte in range(low, high)}


@pytest.mark.parametrize("seed", range(6))
def test_footprints_say_what_is_observed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    count = len(launches(np.random.default_rng(seed)))
    for number in range(count):
        told = []
        for observed in (False, True):
            launch, is_known = launches(np.random.default_rng(seed))[number]
            x, to = np.arange(1, 401, dtype=np.float32), np.zeros(400, np.float32)
            x[7] = 0
            listener = Told(x, to)
            plans: list[heap_accesses.HeapPlan] = []
            with monkeypatch.context() as patch:
                watch(patch, listener, plans, observed=observed)
                launch(x, to)
            assert [plan.is_known for plan in plans] == [is_known and not observed]
            told.append({key: places for key, places in listener.found.items() if places})
        assert told[0] == told[1], number
        assert told[0]


def watch(
    patch: pytest.MonkeyPatch,
    listener: Told,
    plans: list[heap_accesses.HeapPlan],
    *,
    observed: bool,
) -> None:
    """Take all memory for symmetric, and keep the plans of launches; ``observed``: no footprint is known."""
    make = heap_accesses.HeapAccesses.plan

    def keep(self: Any, *call: Any) -> heap_accesses.HeapPlan | None:
        self._known.clear()
        plan = make(self, *call)
        assert plan is not None
        plans.append(plan)
        self._known.clear()
        return plan

    patch.setattr(grid_race, "find_heaps", lambda: Heaps(listener, 1, 1 << 62))
    patch.setattr(knobs.runtime, "check", "race")
    patch.setattr(heap_accesses.HeapAccesses, "plan", keep)
    if observed:
        patch.setattr(heap_accesses.HeapAccesses, "_told", lambda *_: None)
