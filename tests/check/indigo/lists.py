"""Lists, guards, flags and locks of programs on graphs."""

from __future__ import annotations

import numpy as np

import emu.triton.language as tl
from emu import triton
from tests.check.indigo.graphs import MOST, Array, N, chain, numbers, on, pattern, zeros

# --- guards ---------------------------------------------------------------------------------------


@triton.jit
def guard_off_by_one(first, columns, out, FIXED: tl.constexpr, N: tl.constexpr, PART: tl.constexpr):
    begin = tl.program_id(0) * PART
    end = begin + (PART if FIXED else PART + 1)
    for node in range(begin, tl.minimum(end, N)):
        tl.store(out + node, tl.load(first + node + 1) + tl.program_id(0))  # a


@triton.jit
def no_guard(first, columns, out, FIXED: tl.constexpr, PART: tl.constexpr, B: tl.constexpr):
    lane = tl.arange(0, B)
    node = tl.program_id(0) * PART + lane
    inside = lane < (PART if FIXED else B)
    tl.store(out + node, node + tl.program_id(0), mask=inside)  # a


@triton.jit
def row_too_long(first, columns, weight, out, FIXED: tl.constexpr, W: tl.constexpr):
    node = tl.program_id(0)
    at = tl.load(first + node) + tl.arange(0, W)
    end = tl.load(first + node + 1)
    there = (at < end) if FIXED else (at <= end)
    tl.store(out + at, node + 1, mask=there)  # a


@triton.jit
def wrong_row_pointer(first, columns, weight, out, FIXED: tl.constexpr):
    node = tl.program_id(0)
    begin = tl.load(first + node)
    if not FIXED:
        begin = tl.maximum(begin - 1, 0)
    for edge in range(begin, tl.load(first + node + 1)):
        tl.store(out + edge, node + 1)  # a


# --- lists that grow ------------------------------------------------------------------------------


@triton.jit
def plain_counter(first, columns, value, worklist, count, FIXED: tl.constexpr):
    node = tl.program_id(0)
    if tl.load(value + node) % 3 != 0:
        if FIXED:
            slot = tl.atomic_add(count, 1, sem="relaxed")
        else:
            slot = tl.load(count)  # a
            tl.store(count, slot + 1)  # a b
        tl.store(worklist + slot, node)


@triton.jit
def counter_read_again(first, columns, value, worklist, count, FIXED: tl.constexpr):
    node = tl.program_id(0)
    slot = tl.atomic_add(count, 1, sem="relaxed")  # a
    if not FIXED:
        slot = tl.load(count) - 1  # a
    tl.store(worklist + slot, node)


@triton.jit
def consumer_without_acquire(
    first, columns, worklist, ready, out, FIXED: tl.constexpr, N: tl.constexpr
):
    me = tl.program_id(0)
    if me < N // 2:
        tl.store(worklist + me, me * 3)  # a
        tl.atomic_xchg(ready + me, 1, sem="release")
    else:
        slot = me - N // 2
        if FIXED:
            while tl.atomic_add(ready + slot, 0, sem="acquire") == 0:
                pass
        else:
            while tl.atomic_add(ready + slot, 0, sem="relaxed") == 0:
                pass
        tl.store(out + slot, tl.load(worklist + slot))  # a


@triton.jit
def transposed_rows(first, columns, cursor, sources, FIXED: tl.constexpr):
    node = tl.program_id(0)
    for edge in range(tl.load(first + node), tl.load(first + node + 1)):
        target = tl.load(columns + edge)
        if FIXED:
            slot = tl.atomic_add(cursor + target, 1, sem="relaxed")
        else:
            slot = tl.load(cursor + target)  # a
            tl.store(cursor + target, slot + 1)  # a b
        tl.store(sources + target * 32 + slot, node + 1)


# --- marks ----------------------------------------------------------------------------------------


@triton.jit
def parents(first, columns, parent, FIXED: tl.constexpr):
    node = tl.program_id(0)
    for edge in range(tl.load(first + node), tl.load(first + node + 1)):
        to = parent + tl.load(columns + edge)
        if FIXED:
            tl.atomic_cas(to, -1, node)
        elif tl.load(to) == -1:  # a
            tl.store(to, node)  # a


@triton.jit
def frontier_bits(first, columns, bits, FIXED: tl.constexpr):
    node = tl.program_id(0)
    if FIXED:
        tl.atomic_or(bits + node // 8, 1 << (node % 8), sem="relaxed")
    else:
        old = tl.load(bits + node // 8)  # a
        tl.store(bits + node // 8, old | (1 << (node % 8)))  # a b


@triton.jit
def changed_flag(first, columns, value, changed, FIXED: tl.constexpr):
    node = tl.program_id(0)
    if tl.load(value + node) % 2 == 0:
        if FIXED:
            tl.atomic_or(changed, 1, sem="relaxed")
        else:
            tl.store(changed, 1)  # a


@triton.jit
def hooks_of_trees(first, columns, parent, FIXED: tl.constexpr):
    node = tl.program_id(0)
    for edge in range(tl.load(first + node), tl.load(first + node + 1)):
        other = tl.load(columns + edge)
        high, low = tl.maximum(node, other), tl.minimum(node, other)
        if FIXED:
            tl.atomic_min(parent + high, low, sem="relaxed")
        elif low < tl.load(parent + high):  # a
            tl.store(parent + high, low)  # a b


@triton.jit
def pointers_that_jump(first, columns, parent, new, FIXED: tl.constexpr):
    node = tl.program_id(0)
    up = tl.load(parent + tl.load(parent + node))  # a
    to = new if FIXED else parent
    tl.store(to + node, up)  # a


# --- locks and flags ------------------------------------------------------------------------------


@triton.jit
def lock_of_the_wrong_node(first, columns, lock, total, FIXED: tl.constexpr):
    node = tl.program_id(0)
    for edge in range(tl.load(first + node), tl.load(first + node + 1)):
        target = tl.load(columns + edge)
        mine = lock + (target if FIXED else node)
        while tl.atomic_cas(mine, 0, 1, sem="acquire") == 1:
            pass
        tl.store(total + target, tl.load(total + target) + node + 1)  # a
        tl.atomic_xchg(mine, 0, sem="release")


@triton.jit
def waves(first, columns, value, done, FIXED: tl.constexpr):
    node = tl.program_id(0)
    begin, end = tl.load(first + node), tl.load(first + node + 1)
    total = 1
    for edge in range(begin, end):
        before = tl.load(columns + edge)
        if FIXED:
            while tl.atomic_add(done + before, 0, sem="acquire") == 0:
                pass
        total += tl.load(value + before)  # a
    tl.store(value + node, total)  # a
    tl.atomic_xchg(done + node, 1, sem="release")


@triton.jit
def chained_sums(first, columns, sums, ready, FIXED: tl.constexpr):
    me = tl.program_id(0)
    mine = tl.load(first + me + 1) - tl.load(first + me)
    if me > 0:
        while tl.atomic_add(ready + me - 1, 0, sem="acquire") == 0:
            pass
        mine += tl.load(sums + me - 1)  # a
    if FIXED:
        tl.store(sums + me, mine)
        tl.atomic_xchg(ready + me, 1, sem="release")
    else:
        tl.atomic_xchg(ready + me, 1, sem="release")
        tl.store(sums + me, mine)  # a


def one_before() -> Array:
    """Return for each node the one before it, and the first for the first."""
    return np.maximum(np.arange(N, dtype=np.int32) - 1, 0)


PART = {"PART": 4}
EDGES = zeros(128)
pattern(guard_off_by_one, on(zeros()), "a", grid=4, N=N, **PART)
pattern(no_guard, on(zeros(32)), "a", grid=4, B=8, **PART)
pattern(row_too_long, on(EDGES, EDGES), "a", W=MOST)
pattern(wrong_row_pointer, on(EDGES, EDGES), "a")
pattern(plain_counter, on(numbers(), zeros(), zeros(1)), "ab")
pattern(counter_read_again, on(numbers(), zeros(), zeros(1)), "a")
pattern(consumer_without_acquire, on(zeros(), zeros(), zeros()), "a", N=N)
pattern(transposed_rows, on(zeros(), zeros(N * 32)), "ab")
pattern(parents, on(zeros(value=-1)), "a")
pattern(frontier_bits, on(zeros(2)), "ab")
pattern(changed_flag, on(numbers(), zeros(1)), "", benign="a")
pattern(hooks_of_trees, on(zeros(value=99)), "ab")
pattern(pointers_that_jump, on(one_before, zeros(), of=chain), "a")
pattern(lock_of_the_wrong_node, on(zeros(), zeros()), "a")
pattern(waves, on(zeros(), zeros(), of=chain), "a")
pattern(chained_sums, on(zeros(), zeros()), "a")
