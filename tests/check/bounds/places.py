"""Addresses that loops, tables and calls make: one step too far, a bad entry, an index of nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

import emu.triton.language as tl
from emu import triton
from emu.triton.tools.tensor_descriptor import TensorDescriptor
from tests.check.bounds.faults import F, I, fault, floats, whole

# --- loops ----------------------------------------------------------------------------------------


@triton.jit
def far_inside_a_loop(x, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    for _ in range(2):
        value = tl.load(x + i + (0 if FIXED else 1000))  # here
        tl.store(x + i, value)


@triton.jit
def one_round_too_many(to, ROUNDS: tl.constexpr, FIXED: tl.constexpr):
    for k in range(ROUNDS - 1 if FIXED else ROUNDS):
        tl.store(to + k + 1, k)  # here


@triton.jit
def nested_loops(to, FIXED: tl.constexpr):
    for i in range(3):
        for j in range(4):
            tl.store(to + i * (4 if FIXED else 5) + j, i)  # here


@triton.jit
def while_it_lasts(x, to, n, FIXED: tl.constexpr):
    k, total = 0, 0.0
    while k < n if FIXED else k <= n:
        total += tl.load(x + k)  # here
        k += 1
    tl.store(to, total)


@triton.jit
def bounds_from_memory(limits, x, to, FIXED: tl.constexpr):
    me = tl.program_id(0)
    total = 0.0
    for k in range(tl.load(limits + me), tl.load(limits + me + 1) + (0 if FIXED else 1)):
        total += tl.load(x + k)  # here
    tl.store(to + me, total)


@triton.jit
def bounds_of_the_program(to, FIXED: tl.constexpr):
    me = tl.program_id(0)
    for k in range(me, me + (2 if FIXED else 3)):
        tl.store(to + k, 1)  # here


@triton.jit
def prefix_with_a_total(x, to, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    total = tl.cumsum(tl.load(x + i, mask=i < n, other=0))
    tl.store(to + i + (0 if FIXED else 1), total, mask=i < n)  # here


fault(far_inside_a_loop, lambda: floats(16), 1, ("x", 1000), B=16)
fault(one_round_too_many, lambda: whole(4), 1, ("to", 4), verb="store", ROUNDS=4)
fault(nested_loops, lambda: whole(12), 1, ("to", 12), verb="store")
fault(while_it_lasts, lambda: (*floats(9, 1), 9), 1, ("x", 9))
LIMITS = np.array([0, 2, 5, 9], I)
fault(bounds_from_memory, lambda: (LIMITS, *floats(9, 3)), 3, ("x", 9), program=2)
fault(bounds_of_the_program, lambda: whole(5), 4, ("to", 5), program=3, verb="store")
fault(prefix_with_a_total, lambda: (*floats(12, 12), 12), 1, ("to", 12), verb="store", B=16)

# --- tables ---------------------------------------------------------------------------------------


@triton.jit
def rows_by_index(index, x, to, rows, FIXED: tl.constexpr, W: tl.constexpr):
    me, i = tl.program_id(0), tl.arange(0, W)
    row = tl.load(index + me)
    known = (row >= 0) & (row < rows) if FIXED else row < 100
    tl.store(to + me * W + i, tl.load(x + row * W + i, mask=known, other=0))  # here


@triton.jit
def scattered(index, to, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.load(index + i)
    inside = (at < n) if FIXED else (at < 100)
    tl.store(to + at, i, mask=inside)  # here


@triton.jit
def counted(index, bins, n, FIXED: tl.constexpr, B: tl.constexpr):
    at = tl.load(index + tl.arange(0, B))
    inside = (at < n) if FIXED else (at < 100)
    tl.atomic_add(bins + at, 1, mask=inside)  # here


@triton.jit
def swapped(lock, n, FIXED: tl.constexpr):
    me = tl.program_id(0)
    if me < n or not FIXED:
        tl.atomic_cas(lock + me, 0, 1)  # here


@triton.jit
def pages(table, cache, to, length, FIXED: tl.constexpr, PAGE: tl.constexpr):
    i = tl.arange(0, PAGE)
    for k in range(tl.cdiv(length, PAGE)):
        page = tl.load(table + k)
        there = k * PAGE + i < length
        if FIXED:
            there &= page >= 0
        value = tl.load(cache + page * PAGE + i, mask=there, other=0)  # here
        tl.store(to + k * PAGE + i, value, mask=k * PAGE + i < length)


def _cells() -> tuple[Any, ...]:
    x = np.ones(4, F)
    return np.array([x.ctypes.data, x.ctypes.data + 12, 64], np.int64), *floats(3), 2, x


@triton.jit
def cells_from_memory(table, to, n, x, FIXED: tl.constexpr):
    me = tl.program_id(0)
    if me < n or not FIXED:
        cell = tl.load(table + me).to(tl.pointer_type(tl.float32))
        tl.store(to + me, tl.load(cell))  # here


def _table(*index: int) -> Any:
    return np.array(index, I)


fault(rows_by_index, lambda: (_table(0, 3, 4, 1), *floats(32, 32), 4), 4, ("x", 32), program=2, W=8)
fault(
    rows_by_index,
    lambda: (_table(0, -1, 2, 1), *floats(32, 32), 4),
    4,
    ("x", -8),
    program=1,
    name="rows_by_an_index_of_nothing",
    W=8,
)
fault(scattered, lambda: (_table(3, 1, 8, 0), *whole(8), 8), 1, ("to", 8), verb="store", B=4)
fault(counted, lambda: (_table(3, 9, 8, 3), *whole(8), 8), 1, ("bins", 9), verb="atomic", B=4)
fault(swapped, lambda: (*whole(3), 3), 4, ("lock", 3), program=3, verb="atomic")
fault(pages, lambda: (_table(1, 0, -1), *floats(16, 20), 20), 1, ("cache", -8), PAGE=8)
fault(cells_from_memory, _cells, 3, (None, 0), program=2)

# --- calls and branches ---------------------------------------------------------------------------


@triton.jit
def at_offset(x, i, inside):
    return tl.load(x + i, mask=inside)  # here


@triton.jit
def through_one_more(x, i, inside):
    return at_offset(x, i, inside) + 1


@triton.jit
def inside_a_call(x, to, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    value = through_one_more(x, i, i < (n if FIXED else n + 2))
    tl.store(to + i, value, mask=i < n)


@triton.jit
def inside_a_branch(x, to, n, FIXED: tl.constexpr):
    me = tl.program_id(0)
    if me % 3 == 2:
        tl.store(to + me, tl.load(x + me + (0 if FIXED else n)))  # here
    else:
        tl.store(to + me, 1)


@triton.jit
def last_of_a_list(x, to, n, FIXED: tl.constexpr):
    tl.store(to, tl.load(x + n - (1 if FIXED else 0)))  # here


@triton.jit
def one_before_the_first(x, to, n, FIXED: tl.constexpr):
    tl.store(to + (n if FIXED else -1), tl.load(x))  # here


def _called() -> tuple[Any, ...]:
    return *floats(10, 10), 10


fault(inside_a_call, _called, 1, ("x", 10), helpers=(through_one_more, at_offset), B=16)
fault(inside_a_branch, _called, 4, ("x", 12), program=2)
fault(last_of_a_list, _called, 1, ("x", 10))
fault(one_before_the_first, lambda: (*floats(4, 4), 3), 1, ("to", -1), verb="store")

# --- descriptors ----------------------------------------------------------------------------------


@triton.jit
def shape_of_a_descriptor(x, to, m, n, FIXED: tl.constexpr):
    block = tl.make_tensor_descriptor(x, [m if FIXED else m + 1, n], [n, 1], [8, 8])
    tile = block.load([0, 0])  # here
    tl.store(to, tl.sum(tile))


@triton.jit
def rows_of_a_descriptor(x, to, m, n, FIXED: tl.constexpr):
    block = tl.make_tensor_descriptor(x, [m, n], [n if FIXED else n + 1, 1], [8, 8])
    block.store([2, 0], tl.full((8, 8), 1.0, tl.float32))  # here


fault(shape_of_a_descriptor, lambda: (*floats(35, 1), 5, 7), 1, ("x", 35))
fault(rows_of_a_descriptor, lambda: (*floats(35, 1), 5, 7), 1, ("x", 35), verb="store")


@triton.jit
def beyond_a_descriptor(desc, to, FIXED: tl.constexpr):
    tile = desc.load([-2, 5])
    tl.store(to + (0 if FIXED else 1), tl.sum(tile))  # here


def _described() -> tuple[Any, ...]:
    return TensorDescriptor.from_tensor(np.ones((5, 8), F), [8, 8]), *floats(1)


fault(beyond_a_descriptor, _described, 1, ("to", 1), verb="store")
