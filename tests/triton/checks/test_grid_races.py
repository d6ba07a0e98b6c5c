"""Racy kernels, and the same ones repaired: ``check="race"`` names both lines of the former, and is silent at the latter."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.triton.errors import GridRaceError

F, I = np.float32, np.int32


@triton.jit
def histogram(x, to, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    bins = to + tl.load(x + i, mask=i < n)
    if FIXED:
        tl.atomic_add(bins, 1, mask=i < n)
    else:
        tl.store(bins, tl.load(bins, mask=i < n) + 1, mask=i < n)  # race


@triton.jit
def scatter_add(index, x, to, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    at = to + tl.load(index + i)
    value = tl.load(x + i)
    if FIXED:
        tl.atomic_add(at, value, sem="relaxed")
    else:
        tl.store(at, tl.load(at) + value)  # race


@triton.jit
def tails(x, to, n, FIXED: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    value = tl.load(x + row * n + i, mask=i < n) + row
    if FIXED:
        tl.store(to + row * n + i, value, mask=i < n)
    else:
        tl.store(to + row * n + i, value)  # race: the row is shorter than the block


@triton.jit
def stride_too_small(x, to, FIXED: tl.constexpr, B: tl.constexpr):
    first = tl.program_id(0) * (B if FIXED else B - 1)
    i = tl.arange(0, B)
    tl.store(to + first + i, tl.load(x + i) + tl.program_id(0))  # race


@triton.jit
def sum_into_a_cell(x, to, FIXED: tl.constexpr, B: tl.constexpr):
    part = tl.sum(tl.load(x + tl.program_id(0) * B + tl.arange(0, B)))
    if FIXED:
        tl.atomic_add(to, part)
    else:
        tl.store(to, tl.load(to) + part)  # race


@triton.jit
def last_one_wins(x, to, FIXED: tl.constexpr, B: tl.constexpr):
    value = tl.max(tl.load(x + tl.program_id(0) * B + tl.arange(0, B)))
    tl.store(to + (tl.program_id(0) if FIXED else 0), value)  # race


@triton.jit
def stencil(x, to, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    left = tl.load(x + i - 1, mask=i > 0)  # race in place: the neighbour's block
    right = tl.load(x + i + 1, mask=i + 1 < n)  # race
    tl.store((to if FIXED else x) + i, left + right)  # race


@triton.jit
def split_k(a, b, c, FIXED: tl.constexpr, B: tl.constexpr, K: tl.constexpr):
    i, k = tl.arange(0, B), tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(a + i[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * B + i[None, :])
    to = c + i[:, None] * B + i[None, :]
    part = tl.dot(x, y)
    if FIXED:
        tl.atomic_add(to, part)
    else:
        tl.store(to, tl.load(to) + part)  # race


@triton.jit
def push(edges, rank, to, n, FIXED: tl.constexpr, B: tl.constexpr):
    node = tl.program_id(0) * B + tl.arange(0, B)
    target = tl.load(edges + node, mask=node < n)
    share = tl.load(rank + node, mask=node < n)
    if FIXED:
        tl.atomic_max(to + target, share, mask=node < n)
    else:
        old = tl.load(to + target, mask=node < n)  # race
        tl.store(to + target, tl.maximum(old, share), mask=node < n)  # race


@triton.jit
def pull_in_place(edges, rank, to, n, FIXED: tl.constexpr, B: tl.constexpr):
    node = tl.program_id(0) * B + tl.arange(0, B)
    source = tl.load(edges + node, mask=node < n)
    value = tl.load(rank + source, mask=node < n) + 1  # race
    tl.store((to if FIXED else rank) + node, value, mask=node < n)  # race


@triton.jit
def hand_over(data, flag, to, FIXED: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(data, 7)  # race
        tl.atomic_xchg(flag, 1, sem="release" if FIXED else "relaxed")
    else:
        while tl.atomic_add(flag, 0, sem="acquire") == 0:
            pass
        tl.store(to, tl.load(data))  # race


@triton.jit
def hand_over_without_acquire(data, flag, to, FIXED: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(data, 7)  # race
        tl.atomic_xchg(flag, 1, sem="release")
    else:
        while tl.atomic_add(flag, 0, sem="acquire" if FIXED else "relaxed") == 0:
            pass
        tl.store(to, tl.load(data))  # race


@triton.jit
def wait_for_a_later_program(data, flag, to, FIXED: tl.constexpr):
    if tl.program_id(0) == 1:
        tl.store(data, 7)  # race
        tl.atomic_xchg(flag, 1, sem="release")
    elif FIXED:
        tl.atomic_poll(flag, 1)
        tl.store(to, tl.load(data))
    else:
        while tl.load(flag, volatile=True) == 0:
            pass
        tl.store(to, tl.load(data))  # race


@triton.jit
def plain_flag(data, flag, to, FIXED: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(data, 7)  # race
        if FIXED:
            tl.atomic_store(flag, 1)
        else:
            tl.store(flag, 1)  # race
    else:
        while tl.atomic_load(flag) == 0:  # race
            pass
        tl.store(to, tl.load(data))  # race


@triton.jit
def last_block(x, parts, count, to, FIXED: tl.constexpr, B: tl.constexpr, N: tl.constexpr):
    me = tl.program_id(0)
    tl.store(parts + me, tl.sum(tl.load(x + me * B + tl.arange(0, B))))  # race
    done = tl.atomic_add(count, 1, sem="acq_rel" if FIXED else "relaxed")
    if done == N - 1:
        tl.store(to, tl.sum(tl.load(parts + tl.arange(0, N))))  # race


@triton.jit
def locked(lock, to, FIXED: tl.constexpr):
    while tl.atomic_cas(lock, 0, 1, sem="acquire" if FIXED else "relaxed") == 1:
        pass
    tl.store(to, tl.load(to) + 1)  # race
    tl.atomic_xchg(lock, 0, sem="release")


@triton.jit
def unlocked_early(lock, to, FIXED: tl.constexpr):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if not FIXED:
        tl.atomic_xchg(lock, 0)
    tl.store(to, tl.load(to) + 1)  # race
    if FIXED:
        tl.atomic_xchg(lock, 0)


@triton.jit
def double_buffer(a, b, flags, to, FIXED: tl.constexpr, N: tl.constexpr):
    me = tl.program_id(0)
    for step in range(2):
        here, there = (a, b) if step == 0 else (b, a)
        tl.store(there + me, tl.load(here + me) + 1)  # race
        if FIXED:
            tl.atomic_add(flags + step, 1, sem="release")
            while tl.atomic_add(flags + step, 0, sem="acquire") < N:
                pass
        tl.store(to + step * N + me, tl.load(there + (me + 1) % N))  # race
        if FIXED:
            tl.atomic_add(flags + 2 + step, 1, sem="release")
            while tl.atomic_add(flags + 2 + step, 0, sem="acquire") < N:
                pass


@triton.jit
def mixed_widths(words, FIXED: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.atomic_add(words.to(tl.pointer_type(tl.int64)), 1)  # race
    elif FIXED:
        tl.atomic_add(words.to(tl.pointer_type(tl.int64)), 1)
    else:
        tl.atomic_add(words, 1)  # race


@triton.jit
def atomic_and_plain(to, FIXED: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.atomic_add(to, 1)  # race
    elif FIXED:
        tl.atomic_xchg(to, 5)
    else:
        tl.store(to, 5)  # race


@triton.jit
def scope_of_one_program(to, FIXED: tl.constexpr):
    tl.atomic_add(to, 1, scope="gpu" if FIXED else "cta")  # race


@triton.jit
def transpose_in_place(x, to, N: tl.constexpr, FIXED: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.program_id(1) * B + tl.arange(0, B)
    tile = tl.load(x + r[:, None] * N + c[None, :])  # race
    tl.store((to if FIXED else x) + c[:, None] * N + r[None, :], tl.trans(tile))  # race


@triton.jit
def wrong_axis(to, FIXED: tl.constexpr, B: tl.constexpr):
    me = tl.program_id(0) + (2 if FIXED else 1) * tl.program_id(1)
    tl.store(to + me * B + tl.arange(0, B), tl.program_id(1).to(tl.float32))  # race


@triton.jit
def compaction(x, count, to, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + i, mask=i < n, other=0)
    keep = value > 2
    total = tl.sum(keep.to(tl.int32))
    if FIXED:
        first = tl.atomic_add(count, total, sem="relaxed")
    else:
        first = tl.load(count)  # race
        tl.store(count, first + total)  # race
    tl.store(to + first + tl.cumsum(keep.to(tl.int32)) - 1, value, mask=keep)


@triton.jit
def halves_of_words(to, FIXED: tl.constexpr):
    me = tl.program_id(0)
    if FIXED:
        tl.store(to.to(tl.pointer_type(tl.int16)) + me, me.to(tl.int16))
    else:
        tl.store(to, me)  # race


def _few(rng: Any, n: int) -> Any:
    return rng.integers(0, 8, n).astype(I)


Case = tuple[Any, Callable[[Any], tuple[Any, ...]], tuple[int, ...], dict[str, Any]]
CASES: list[Case] = [
    (histogram, lambda r: (_few(r, 250), np.zeros(8, I), 250), (4,), {"B": 64}),
    (scatter_add, lambda r: (_few(r, 64), r.random(64, F) + 1, np.zeros(8, F)), (4,), {"B": 16}),
    (tails, lambda r: (r.random(64, F), np.zeros(64, F), 13), (4,), {"B": 16}),
    (stride_too_small, lambda r: (r.random(64, F), np.zeros(64, F)), (4,), {"B": 16}),
    (sum_into_a_cell, lambda r: (r.random(64, F) + 1, np.zeros(1, F)), (4,), {"B": 16}),
    (last_one_wins, lambda r: (r.random(64, F), np.zeros(4, F)), (4,), {"B": 16}),
    (stencil, lambda r: (r.random(64, F), np.zeros(64, F), 64), (4,), {"B": 16}),
    (
        split_k,
        lambda r: (r.random(1024, F), r.random(1024, F), np.zeros(256, F)),
        (4,),
        {"B": 16, "K": 64},
    ),
    (push, lambda r: (_few(r, 64), np.arange(64, dtype=I), np.zeros(8, I), 64), (4,), {"B": 16}),
    (
        pull_in_place,
        lambda r: (_few(r, 64), np.arange(64, dtype=I), np.zeros(64, I), 64),
        (4,),
        {"B": 16},
    ),
    (hand_over, lambda r: (np.zeros(1, I), np.zeros(1, I), np.zeros(1, I)), (2,), {}),
    (
        hand_over_without_acquire,
        lambda r: (np.zeros(1, I), np.zeros(1, I), np.zeros(1, I)),
        (2,),
        {},
    ),
    (
        wait_for_a_later_program,
        lambda r: (np.zeros(1, I), np.zeros(1, I), np.zeros(1, I)),
        (2,),
        {},
    ),
    (plain_flag, lambda r: (np.zeros(1, I), np.zeros(1, I), np.zeros(1, I)), (2,), {}),
    (
        last_block,
        lambda r: (r.random(64, F), np.zeros(4, F), np.zeros(1, I), np.zeros(1, F)),
        (4,),
        {"B": 16, "N": 4},
    ),
    (locked, lambda r: (np.zeros(1, I), np.zeros(1, I)), (4,), {}),
    (unlocked_early, lambda r: (np.zeros(1, I), np.zeros(1, I)), (4,), {}),
    (
        double_buffer,
        lambda r: (np.zeros(4, I), np.zeros(4, I), np.zeros(4, I), np.zeros(8, I)),
        (4,),
        {"N": 4},
    ),
    (mixed_widths, lambda r: (np.zeros(2, I),), (2,), {}),
    (atomic_and_plain, lambda r: (np.zeros(1, I),), (2,), {}),
    (scope_of_one_program, lambda r: (np.zeros(1, I),), (4,), {}),
    (
        transpose_in_place,
        lambda r: (r.random(1024, F), np.zeros(1024, F)),
        (2, 2),
        {"N": 32, "B": 16},
    ),
    (wrong_axis, lambda r: (np.zeros(64, F),), (2, 2), {"B": 16}),
    (compaction, lambda r: (_few(r, 64), np.zeros(1, I), np.zeros(64, I), 64), (4,), {"B": 16}),
    (halves_of_words, lambda r: (np.zeros(4, I),), (4,), {}),
]
NAMES = [kernel.__name__ for kernel, *_ in CASES]


def racy_lines(kernel: Any) -> set[int]:
    lines, first = inspect.getsourcelines(kernel.fn)
    return {first + n for n, line in enumerate(lines) if "# race" in line}


@pytest.mark.parametrize(("kernel", "make", "grid", "constants"), CASES, ids=NAMES)
def test_racy_kernels_are_found(
    kernel: Any, make: Callable[[Any], tuple[Any, ...]], grid: tuple[int, ...], constants: Any
) -> None:
    given = make(np.random.default_rng(0))
    with pytest.raises(GridRaceError) as caught:
        kernel[grid](*given, FIXED=False, check="race", **constants)
    allowed = racy_lines(kernel)
    for race in caught.value.races:
        assert {race.line, race.other_line} <= allowed, race.text
        assert (race.program == race.other_program) == (race.kind == "lanes")
    races = [race for race in caught.value.races if race.kind == "race"]
    real = [race for race in races if not race.is_benign]
    assert {line for race in real for line in (race.line, race.other_line)} == allowed
    for race in real:
        assert race.kernel == kernel.__name__
        assert race.argument in kernel.arg_names
        assert f"of kernel {kernel.__name__} race: nothing orders" in race.text


@pytest.mark.parametrize(("kernel", "make", "grid", "constants"), CASES, ids=NAMES)
def test_repaired_kernels_are_silent(
    kernel: Any, make: Callable[[Any], tuple[Any, ...]], grid: tuple[int, ...], constants: Any
) -> None:
    given = make(np.random.default_rng(0))
    kernel[grid](*given, FIXED=True, check="race:all", **constants)
