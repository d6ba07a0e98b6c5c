"""Updates along edges: a node's program changes what belongs to its neighbours, or reads what they change."""

from __future__ import annotations

import emu.triton.language as tl
from emu import triton
from tests.check.indigo.graphs import MOST, N, numbers, on, pattern, zeros

W = {"W": MOST}


@triton.jit
def edges_of(first, node, W: tl.constexpr):
    """Return the places of a node's edges, and which of them there are."""
    begin = tl.load(first + node)
    at = begin + tl.arange(0, W)
    return at, at < tl.load(first + node + 1)


@triton.jit
def push_a_sum(first, columns, value, total, FIXED: tl.constexpr, W: tl.constexpr):
    node = tl.program_id(0)
    at, there = edges_of(first, node, W)
    to = total + tl.load(columns + at, mask=there, other=0)
    mine = tl.load(value + node)
    if FIXED:
        tl.atomic_add(to, mine, mask=there, sem="relaxed")
    else:
        tl.store(to, tl.load(to, mask=there) + mine, mask=there)  # a


@triton.jit
def push_a_minimum(first, columns, value, least, FIXED: tl.constexpr, W: tl.constexpr):
    node = tl.program_id(0)
    at, there = edges_of(first, node, W)
    to = least + tl.load(columns + at, mask=there, other=0)
    mine = tl.load(value + node)
    if FIXED:
        tl.atomic_min(to, mine, mask=there, sem="relaxed")
    else:
        old = tl.load(to, mask=there)  # a
        tl.store(to, tl.minimum(old, mine), mask=there)  # a b


@triton.jit
def push_if_greater(first, columns, value, most, FIXED: tl.constexpr):
    node = tl.program_id(0)
    mine = tl.load(value + node)
    for edge in range(tl.load(first + node), tl.load(first + node + 1)):
        to = most + tl.load(columns + edge)
        if FIXED:
            tl.atomic_max(to, mine, sem="relaxed")
        elif tl.load(to) < mine:  # a
            tl.store(to, mine)  # a b


@triton.jit
def push_from_a_block(
    first, columns, value, total, FIXED: tl.constexpr, B: tl.constexpr, W: tl.constexpr
):
    node = tl.program_id(0) * B + tl.arange(0, B)
    begin, end = tl.load(first + node), tl.load(first + node + 1)
    mine = tl.load(value + node)
    for k in range(W):
        there = begin + k < end
        to = total + tl.load(columns + begin + k, mask=there, other=0)
        # Lanes of one program may meet, too: only an atomic operation is right.
        if FIXED:
            tl.atomic_add(to, mine, mask=there, sem="relaxed")
        else:
            old = tl.atomic_add(to, 0, mask=there, sem="relaxed")  # a
            tl.store(to, old + mine, mask=there & (node % B == 0))  # a b


@triton.jit
def pull_in_place(first, columns, rank, new, FIXED: tl.constexpr, W: tl.constexpr):
    node = tl.program_id(0)
    at, there = edges_of(first, node, W)
    near = tl.load(rank + tl.load(columns + at, mask=there, other=0), mask=there, other=0)  # a
    to = new if FIXED else rank
    tl.store(to + node, tl.sum(near) + 1)  # a


@triton.jit
def pull_and_clear(first, columns, value, total, FIXED: tl.constexpr, W: tl.constexpr):
    node = tl.program_id(0)
    at, there = edges_of(first, node, W)
    source = value + tl.load(columns + at, mask=there, other=0)
    tl.store(total + node, tl.sum(tl.load(source, mask=there, other=0)))  # a
    if not FIXED:
        tl.store(source, node, mask=there)  # a b


@triton.jit
def degrees_of_targets(first, columns, degree, FIXED: tl.constexpr, E: tl.constexpr):
    edge = tl.program_id(0)
    if edge < E:
        to = degree + tl.load(columns + edge)
        if FIXED:
            tl.atomic_add(to, 1, sem="relaxed")
        else:
            tl.store(to, tl.load(to) + 1)  # a


@triton.jit
def count_in_one_cell(first, columns, value, count, FIXED: tl.constexpr, W: tl.constexpr):
    node = tl.program_id(0)
    at, there = edges_of(first, node, W)
    near = tl.load(value + tl.load(columns + at, mask=there, other=0), mask=there, other=0)
    greater = tl.sum((near > tl.load(value + node)).to(tl.int32)) + 1
    if FIXED:
        tl.atomic_add(count, greater)
    else:
        old = tl.load(count)  # a
        tl.store(count, old + greater)  # a b


@triton.jit
def exchange_of_residuals(first, columns, residual, total, FIXED: tl.constexpr, W: tl.constexpr):
    node = tl.program_id(0)
    if FIXED:
        mine = tl.atomic_xchg(residual + node, 0)
    else:
        mine = tl.load(residual + node)  # a
        tl.store(residual + node, 0)  # b
    at, there = edges_of(first, node, W)
    to = residual + tl.load(columns + at, mask=there, other=0)
    tl.atomic_add(to, mine // 2, mask=there, sem="relaxed")  # a b


@triton.jit
def independent_set(first, columns, value, state, new, FIXED: tl.constexpr, W: tl.constexpr):
    node = tl.program_id(0)
    at, there = edges_of(first, node, W)
    near = tl.load(columns + at, mask=there, other=0)
    taken = tl.load(state + near, mask=there, other=0)  # a
    if tl.sum(taken) == 0:
        to = new if FIXED else state
        tl.store(to + node, tl.load(value + node))  # a


@triton.jit
def colours(first, columns, colour, new, FIXED: tl.constexpr, W: tl.constexpr):
    node = tl.program_id(0)
    used = 0
    for edge in range(tl.load(first + node), tl.load(first + node + 1)):
        used |= 1 << tl.load(colour + tl.load(columns + edge))  # a
    least = 0
    while (used >> least) & 1 == 1:
        least += 1
    to = new if FIXED else colour
    tl.store(to + node, least)  # a


pattern(push_a_sum, on(numbers(), zeros()), "a", **W)
pattern(push_a_minimum, on(numbers(), zeros(value=999)), "ab", **W)
pattern(push_if_greater, on(numbers(), zeros()), "ab")
pattern(push_from_a_block, on(numbers(), zeros()), "ab", grid=N // 4, B=4, **W)
pattern(pull_in_place, on(numbers(), zeros()), "a", **W)
pattern(pull_and_clear, on(numbers(), zeros()), "ab", **W)
pattern(degrees_of_targets, on(zeros()), "a", grid=64, E=32)
pattern(count_in_one_cell, on(numbers(), zeros(1)), "ab", **W)
pattern(exchange_of_residuals, on(numbers(), zeros()), "ab", **W)
pattern(independent_set, on(numbers(), zeros(), zeros()), "a", **W)
pattern(colours, on(zeros(), zeros()), "a", **W)
