"""Code of single threads: branches, loops and regions that depend on which thread runs."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from emu import triton
from emu.triton import language as tl
from emu.triton.language import threads
from emu.triton.language.threads import (
    lane_index,
    simt_exec_region,
    sync_threads,
    thread_index,
    threads_of_program,
)


@triton.jit
def branches(out, seen, n):
    index = thread_index(0)
    value = index * 2
    mine = 0
    if index < n and index != 1:
        mine = value + 100
        tl.atomic_add(seen, 1)
    elif index == 1:
        mine = -1
    tl.store(out + index, mine)


@pytest.mark.parametrize("warps", [1, 4])
def test_each_thread_takes_its_side_of_a_branch(warps: int) -> None:
    out, seen = np.zeros(32 * warps, np.int32), np.zeros(1, np.int32)
    branches[(1,)](out, seen, 5, num_warps=warps)
    expected = [100, -1, 104, 106, 108, *[0] * (32 * warps - 5)]
    assert out.tolist() == expected
    assert seen.tolist() == [4]
    branches[(1,)](out, seen, 0, num_warps=warps)
    assert out.tolist() == [0, -1, *[0] * (32 * warps - 2)]


@triton.jit
def loops(out, steps, n):
    index = thread_index(0)
    total = 0
    for i in range(index, n, threads_of_program(0)):
        total += i
    left = index % 5
    while left > 0:
        left -= 1
        tl.atomic_add(steps, 1)
    tl.store(out + index, total)
    tl.store(out + 32 + index, left)


def test_each_thread_has_its_own_bounds_and_conditions() -> None:
    out, steps = np.full(64, -1, np.int32), np.zeros(1, np.int32)
    loops[(1,)](out, steps, 70, num_warps=1)
    assert out[:32].tolist() == [sum(range(t, 70, 32)) for t in range(32)]
    assert not out[32:].any()
    assert steps[0] == sum(t % 5 for t in range(32))


@triton.jit
def chain(x, out):
    index = thread_index(0)
    last = tl.load(x)
    for i in range(3):
        if index % 2 == 0:
            last = last + index * i
    pointer = out
    if index >= 4:
        pointer = out + index
    if index >= 4:
        tl.store(pointer, last)


def test_variables_are_carried_from_one_branch_to_the_next() -> None:
    x, out = np.array([7.0], np.float32), np.zeros(32, np.float32)
    chain[(1,)](x, out, num_warps=1)
    index = np.arange(32)
    assert (
        out.tolist() == np.where(index < 4, 0, 7 + np.where(index % 2 == 0, 3 * index, 0)).tolist()
    )


@triton.jit
def on_one_side(out, n):
    if tl.program_id(0) == 0:
        mine = thread_index(0) + 1
    else:
        mine = n
    if tl.program_id(0) == 1:
        mine = 7
    tl.store(out + tl.program_id(0) * 32 + thread_index(0), mine)


def test_a_value_is_the_same_for_all_threads_on_one_side() -> None:
    out = np.zeros(96, np.int32)
    on_one_side[(3,)](out, 40, num_warps=1)
    assert out.tolist() == [*range(1, 33), *[7] * 32, *[40] * 32]


@triton.jit
def carried(x, out):
    index = thread_index(0)
    last = tl.load(x + index)
    for i in range(3):
        if index % 2 == 0:
            last = last + index * i
    pointer = out
    if index >= 4:
        pointer = out + index
    if index >= 4:
        tl.store(pointer, last)


def test_a_loop_carries_what_threads_have() -> None:
    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    carried[(1,)](x, out, num_warps=1)
    index = np.arange(32)
    assert (
        out.tolist() == np.where(index < 4, 0, x + np.where(index % 2 == 0, 3 * index, 0)).tolist()
    )


@triton.jit
def region(data, out, n):
    with simt_exec_region() as (index, size):
        for i in range(index, n, size):
            tl.store(data + i, i * i)
        kept = index + 1
        sync_threads()
        if index < n:
            total = 0
            for i in range(n):
                total += tl.load(data + i)
            tl.store(out + index, total * kept)


def test_a_region_is_divided_at_barriers() -> None:
    data, out = np.zeros(40, np.int32), np.zeros(32, np.int32)
    region[(1,)](data, out, 40, num_warps=1)
    total = sum(i * i for i in range(40))
    assert out.tolist() == [total * (t + 1) for t in range(32)]


@triton.jit
def is_master():
    return thread_index(0) + thread_index(1) + thread_index(2) == 0


@triton.jit
def in_functions(out, data):
    offsets = tl.arange(0, 128)
    if is_master():
        tl.store(out + offsets, tl.load(data + offsets) * 2)
    sync_threads()
    lane = lane_index()
    if lane == 3:
        tl.atomic_add(out, 1)


def test_tiles_of_as_many_elements_stay_tiles() -> None:
    data = np.arange(128, dtype=np.int32)
    out = np.zeros(128, np.int32)
    in_functions[(1,)](out, data)
    data *= 2
    data[0] += 4  # a lane 3 in each of four warps
    assert out.tolist() == data.tolist()


@triton.jit
def waits(flags, out, n):
    program = tl.program_id(0)
    index = thread_index(0)
    if program == 0:
        if index < n:
            while tl.atomic_cas(flags + index, 1, 2) != 1:
                pass
        sync_threads()
        tl.store(out, 1)
    else:
        tl.atomic_xchg(flags + program - 1, 1)


def test_threads_wait_for_other_programs() -> None:
    flags, out = np.zeros(5, np.int32), np.zeros(1, np.int32)
    waits[(6,)](flags, out, 5)
    assert out[0] == 1
    assert flags.tolist() == [2] * 5


@triton.jit
def exchanges(data, out, n):
    index = thread_index(0)
    if index < n:
        mine = index + 1
        tl.store(data + index, mine)
        sync_threads()
        tl.store(out + index, tl.load(data + n - 1 - index) * mine)
    else:
        tl.store(out + index, -1)
        sync_threads()
        mine = 7
    tl.store(out + 32 + index, mine)
    if index == 0:
        tl.store(data, 99)
        sync_threads()


def test_threads_exchange_data_inside_of_a_branch() -> None:
    data, out = np.zeros(32, np.int32), np.zeros(64, np.int32)
    exchanges[(1,)](data, out, 20, num_warps=1)
    assert out[:32].tolist() == [*[(20 - i) * (i + 1) for i in range(20)], *[-1] * 12]
    assert out[32:].tolist() == [*range(1, 21), *[7] * 12]
    assert data[0] == 99


@triton.jit
def has_the_option(out, num_warps: tl.constexpr):
    tl.store(out + thread_index(0), num_warps)


def test_a_parameter_named_num_warps_is_the_option_too() -> None:
    for warps in (8, 2, 8):
        out = np.zeros(256, np.int32)
        has_the_option[(1,)](out, num_warps=warps)
        assert out.tolist() == [*[warps] * 32 * warps, *[0] * (256 - 32 * warps)]


@triton.jit
def leaves(out):
    if thread_index(0) == 0:
        return
    tl.store(out, 1)


@triton.jit
def bars(out):
    for i in range(thread_index(0)):
        sync_threads()


@triton.jit
def assigns_a_tile(out):
    tile = tl.arange(0, 16)
    if thread_index(0) == 0:
        tile = tile + 1
    tl.store(out + tile, tile)


@triton.jit
def changes_type(out):
    number = tl.load(out)
    if thread_index(0) == 0:
        number = out
    tl.store(out, number)


@triton.jit
def changes_type_in_region(out):
    number = tl.load(out)
    with simt_exec_region() as (index, size):
        number = out + index
    tl.store(out, number)


@triton.jit
def nested(out):
    with simt_exec_region() as (index, size):
        if index == 0:
            with simt_exec_region() as (i, n):
                tl.store(out, 1)


@triton.jit
def one_name(out):
    with simt_exec_region() as index:
        tl.store(out, index)


@triton.jit
def outside(out):
    simt_exec_region()


@triton.jit
def other_with(out):
    with tl.program_id(0):
        pass


@triton.jit
def wrong_axis(out):
    tl.store(out, thread_index(3))


@triton.jit
def mixes(out):
    tl.store(out + thread_index(0), tl.arange(0, 128))


@triton.jit
def only_in_branch(out):
    with simt_exec_region() as (index, size):
        tl.store(out, index)
    tl.store(out, index)


REFUSED = [
    (leaves, "cannot be left by some of a program's threads"),
    (bars, "only one thread runs at a time"),
    (assigns_a_tile, r"tile is <\[16\], int32>, but code that threads run one after the other"),
    (changes_type, "initial value for `number` is of type int32, but the then block redefines it"),
    (changes_type_in_region, "number is int32, but a thread redefines it as pointer<int32>"),
    (nested, "has no region inside"),
    (one_name, "a region of threads has two names"),
    (outside, r"must stand in a `with`"),
    (other_with, "no context managers"),
    (wrong_axis, "axis must be 0, 1 or 2, but got 3"),
    (mixes, r"here pointer<int32>\[128\], cannot be combined with a tile, int32\[128\]"),
    (only_in_branch, "index is not defined: it is assigned only inside a region of threads"),
]


@pytest.mark.parametrize(("kernel", "text"), REFUSED)
def test_what_cannot_be_said_is_refused(kernel: Any, text: str) -> None:
    with pytest.raises(triton.CompilationError) as caught:
        kernel[(1,)](np.zeros(16, np.int32))
    assert re.search(text, str(caught.value)), caught.value


def test_the_module_is_part_of_the_language() -> None:
    assert threads.WARP_SIZE == 32
