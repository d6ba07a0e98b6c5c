"""How values of threads vary, and what follows: scalars for tiles, branches and loops that go warp by warp."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from emu import triton
from emu.triton import language as tl
from emu.triton.language import distributed as dl
from emu.triton.language.threads import lane_index, sync_threads, thread_index


@triton.jit
def shuffled(value, lane):
    return tl.inline_asm_elementwise(
        "shfl.sync.idx.b32 $0, $1, $2, 31, 0xffffffff;",
        "=r,r,r",
        [value, lane],
        dtype=value.dtype,
        is_pure=False,
        pack=1,
    )


@triton.jit
def shuffled_up(value, by):
    return tl.inline_asm_elementwise(
        "shfl.sync.up.b32 $0, $1, $2, 0, 0xffffffff;",
        "=r,r,r",
        [value, by],
        dtype=value.dtype,
        is_pure=False,
        pack=1,
    )


@triton.jit
def ballot(predicate):
    return tl.inline_asm_elementwise(
        "{.reg .pred p; setp.ne.b32 p, $1, 0; vote.sync.ballot.b32 $0, p, 0xffffffff;}",
        "=r,r",
        [predicate],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def prefix_sum(value, lane, n):
    i = 1
    while i < min(n * 2, 32):
        other = shuffled_up(value, i)
        if lane >= i:
            value += other
        i = i * 2
    return value


@triton.jit
def block_of(program, sizes, out, n: tl.constexpr):
    # Which part a program is in: found by the lanes, used by tiles.
    lane = lane_index()
    size = 0
    if lane < n:
        size = tl.load(sizes + lane)
    first = prefix_sum(size, lane, n) - size
    after = ballot(program < first)
    part = 0
    while (after >> part) & 1 == 0 and part < n:
        part += 1
    start = shuffled(first, part - 1)
    offsets = tl.arange(0, 8)
    tl.store(out + program * 8 + offsets, start * 100 + (part - 1) + offsets * 0)


@triton.jit
def blocks(sizes, out, n: tl.constexpr):
    block_of(tl.program_id(0), sizes, out, n)


@pytest.mark.parametrize("warps", [1, 4])
def test_what_lanes_find_together_is_used_by_tiles(warps: int) -> None:
    sizes = np.array([3, 1, 4, 2], np.int32)
    out = np.zeros((10, 8), np.int32)
    blocks[(10,)](sizes, out, 4, num_warps=warps)
    first = np.concatenate([[0], np.cumsum(sizes)])
    expected = [
        [first[part] * 100 + part] * 8 for part, size in enumerate(sizes) for _ in range(size)
    ]
    assert out.tolist() == expected


@triton.jit
def takes_places(counter, places, tiles, n):
    index = thread_index(0)
    warp, lane = index // 32, index % 32
    for item in range(warp, n, 4):
        place = 0
        if lane == 0:
            place = dl.atomic_add(counter, 1)
        place = shuffled(place, 0)
        tl.store(places + item, place)
        tl.store(tiles + place * 16 + tl.arange(0, 16), item + tl.arange(0, 16) * 0)


def test_a_loop_of_warps_runs_warp_by_warp_and_may_use_tiles() -> None:
    counter, places = np.zeros(1, np.int32), np.full(10, -1, np.int32)
    tiles = np.full((10, 16), -1, np.int32)
    takes_places[(1,)](counter, places, tiles, 10)
    assert counter[0] == 10
    assert sorted(places.tolist()) == list(range(10))
    assert tiles[places].tolist() == [[item] * 16 for item in range(10)]


@triton.jit
def after_warps(out, n):
    index = thread_index(0)
    warp, lane = index // 32, index % 32
    total, last = 0, lane * 0
    for item in range(warp, n, 4):
        total += item
        last = item * 100 + lane
    if warp == 2:
        total = -1
    if warp > 0:  # noqa: SIM102 - of a warp, and then of a lane
        if lane > 29:
            last = -lane
    tl.store(out + index, total)
    tl.store(out + 128 + index, last)


def test_what_a_warp_assigns_each_of_its_threads_has() -> None:
    out = np.zeros(256, np.int32)
    after_warps[(1,)](out, 10)
    warp, lane = np.arange(128) // 32, np.arange(128) % 32
    totals = np.array([sum(range(w, 10, 4)) for w in range(4)])
    totals[2] = -1
    assert out[:128].tolist() == totals[warp].tolist()
    last = np.array([max(range(w, 10, 4)) for w in range(4)])[warp] * 100 + lane
    assert out[128:].tolist() == np.where((warp > 0) & (lane > 29), -lane, last).tolist()


@triton.jit
def none_of_the_turns(out, n):
    index = thread_index(0)
    seen = index + 5
    for item in range(index // 32, n, 4):
        seen = item
    tl.store(out + index, seen)


def test_a_warp_without_a_turn_keeps_what_its_threads_had() -> None:
    out = np.zeros(128, np.int32)
    none_of_the_turns[(1,)](out, 2)
    assert out.tolist() == [*[0] * 32, *[1] * 32, *range(69, 133)]


@triton.jit
def waits_of_warps(flags, out):
    index = thread_index(0)
    warp = index // 32
    while dl.ld(flags + warp, "gpu", "acquire") < warp:
        if index % 32 == 0:
            dl.atomic_add(flags + warp, 1)
    tl.store(out + index, dl.ld(flags + warp))


def test_a_while_may_go_warp_by_warp() -> None:
    flags, out = np.zeros(4, np.int32), np.zeros(128, np.int32)
    waits_of_warps[(1,)](flags, out)
    assert flags.tolist() == [0, 1, 2, 3]
    assert out.tolist() == (np.arange(128) // 32).tolist()


@triton.jit
def chooses(out):
    index = thread_index(0)
    tl.store(out + index, (1 if index % 2 == 0 else 7) + (index if index > 3 else 0))


def test_each_thread_has_its_own_side_of_a_ternary() -> None:
    out = np.zeros(32, np.int32)
    chooses[(1,)](out, num_warps=1)
    index = np.arange(32)
    assert out.tolist() == (np.where(index % 2 == 0, 1, 7) + np.where(index > 3, index, 0)).tolist()


@triton.jit
def finds_in_memory(counter, out):
    index = thread_index(0)
    lane = index % 32
    found = 0
    if lane < 40:
        found = dl.atomic_add(counter, 1)
    # Each thread has found another number: the lanes' 3rd differs from warp to warp.
    tl.store(out + index, shuffled(found, 3))


def test_what_is_found_in_memory_may_differ_from_warp_to_warp() -> None:
    counter, out = np.zeros(1, np.int32), np.zeros(64, np.int32)
    finds_in_memory[(1,)](counter, out, num_warps=2)
    assert out.tolist() == [*[3] * 32, *[35] * 32]


@triton.jit
def grows_apart(out, n):
    index = thread_index(0)
    lane = index % 32
    value = lane
    for i in range(n):
        value = value + index * i  # from the second turn on, warps differ
    tl.store(out + index, shuffled(value, 1))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_loop_may_make_a_value_vary_more(n: int) -> None:
    out = np.zeros(64, np.int32)
    grows_apart[(1,)](out, n, num_warps=2)
    index = np.arange(64)
    value = index % 32 + index * sum(range(n))
    assert out.tolist() == value[index // 32 * 32 + 1].tolist()


@triton.jit
def leaves_alike(out):
    index = thread_index(0)
    if ballot(index % 32 < 3) == 7:
        return
    tl.store(out, 1)


def test_all_threads_may_leave_a_function_together() -> None:
    out = np.zeros(1, np.int32)
    leaves_alike[(1,)](out)
    assert out[0] == 0


@triton.jit
def bars_in_a_warp(out):
    index = thread_index(0)
    for item in range(index // 32, 4, 4):
        tl.store(out + item, 1)
        sync_threads()


@triton.jit
def leaves_by_warps(out):
    if thread_index(0) // 32 == 0:
        return
    tl.store(out, 1)


REFUSED = [
    (bars_in_a_warp, "only one warp runs at a time"),
    (leaves_by_warps, "cannot be left by some of a program's threads"),
]


@pytest.mark.parametrize(("kernel", "text"), REFUSED)
def test_what_warps_cannot_do_alone_is_refused(kernel: Any, text: str) -> None:
    with pytest.raises(triton.CompilationError) as caught:
        kernel[(1,)](np.zeros(16, np.int32))
    assert re.search(text, str(caught.value)), caught.value
