"""Atomic operations: which of them exclude each other, and what a compare-and-swap that fails has done."""

from __future__ import annotations

from typing import Any

import numpy as np
from grid_race_cases import words

import emu.triton.language as tl
from emu import triton
from tests.check.gsan.cases import case

# --- pairs of operations on one element -----------------------------------------------------------


@triton.jit
def meet(cell, to, ONE: tl.constexpr, OTHER: tl.constexpr):
    if tl.program_id(0) == 0:
        if ONE == "add":
            tl.atomic_add(cell, 1, sem="relaxed")  # a b c h
        elif ONE == "volatile":
            tl.store(to, tl.load(cell, volatile=True))  # i
        elif ONE == "cv":
            tl.store(to, tl.load(cell, cache_modifier=".cv"))  # j
        elif ONE == "atomic_load":
            tl.store(to, tl.atomic_load(cell))  # d
        elif ONE == "atomic_store":
            tl.atomic_store(cell, 3)  # e f
    else:
        if OTHER == "load":
            tl.store(to + 1, tl.load(cell))  # a e
        elif OTHER == "store":
            tl.store(cell, 9)  # b d f i j
        elif OTHER == "add":
            tl.atomic_add(cell, 2, sem="relaxed")
        elif OTHER == "max":
            tl.atomic_max(cell, 5)
        elif OTHER == "xchg of one program":
            tl.atomic_xchg(cell, 5, scope="cta")  # c
        elif OTHER == "atomic_load":
            tl.atomic_load(cell, sem="relaxed")
        elif OTHER == "atomic_store":
            tl.atomic_store(cell, 4, sem="relaxed")
        elif OTHER == "poll":
            tl.atomic_poll(cell, 1, sem="relaxed")
        elif OTHER == "xchg of two words":
            tl.atomic_xchg(cell.to(tl.pointer_type(tl.int64)), 1)  # h


for one, other, races in (
    ("add", "load", "a"),
    ("add", "store", "b"),
    ("add", "xchg of one program", "c"),
    ("atomic_load", "store", "d"),
    ("atomic_store", "load", "e"),
    ("atomic_store", "store", "f"),
    ("add", "xchg of two words", "h"),
    ("volatile", "store", "i"),
    ("cv", "store", "j"),
    ("add", "add", ""),
    ("add", "max", ""),
    ("add", "atomic_load", ""),
    ("add", "poll", ""),
    ("atomic_load", "atomic_load", ""),
    ("atomic_load", "load", ""),
    ("atomic_store", "atomic_store", ""),
    ("volatile", "load", ""),
    ("volatile", "add", ""),
    ("cv", "atomic_store", ""),
):
    name = f"{one}_meets_{other}".replace(" ", "_")
    case(name, meet, words(2, 2), 2, {"ONE": one, "OTHER": other}, races=races)


# --- widths ---------------------------------------------------------------------------------------


@triton.jit
def widths(cells, ONE: tl.constexpr, OTHER: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.atomic_xchg(cells.to(tl.pointer_type(ONE)), 1)  # a
    else:
        tl.atomic_xchg((cells + 1).to(tl.pointer_type(OTHER)), 2)  # a


for one, other, races in (
    (tl.int32, tl.int32, ""),
    (tl.int64, tl.int32, "a"),
    (tl.int32, tl.int64, ""),
):
    case(f"{one}_beside_{other}", widths, words(4), 2, {"ONE": one, "OTHER": other}, races=races)


@triton.jit
def wide_flag(data, flag, to, GIVE: tl.constexpr, TAKE: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(data, 7)  # a
        tl.atomic_xchg(flag.to(tl.pointer_type(GIVE)), 1, sem="release")  # b
    else:
        while tl.atomic_add(flag.to(tl.pointer_type(TAKE)), 0, sem="acquire") == 0:  # b
            pass
        tl.store(to, tl.load(data))  # a


case("a_flag_of_64_bits", wide_flag, words(1, 2, 1), 2, {"GIVE": tl.int64, "TAKE": tl.int64})
for give, take in ((tl.int64, tl.int32), (tl.int32, tl.int64)):
    # Operations of two widths do not see each other as one atomic object: they race, and give no order.
    constants = {"GIVE": give, "TAKE": take}
    case(f"a_flag_of_{give}_taken_as_{take}", wide_flag, words(1, 2, 1), 2, constants, races="ab")


# --- compare-and-swap -----------------------------------------------------------------------------


@triton.jit
def swap_beside(cell, to, EXPECTED: tl.constexpr, OTHER: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(to, tl.atomic_cas(cell, EXPECTED, 5))  # a b
    elif OTHER == "load":
        tl.store(to + 1, tl.load(cell))  # a
    elif OTHER == "store":
        tl.store(cell, 9)  # b
    else:
        tl.atomic_add(cell, 0)


for expected, other, races in (
    (0, "load", "a"),  # it swaps
    (1, "load", ""),  # it has read only
    (0, "store", "b"),
    (1, "store", "b"),
    (0, "add", ""),
    (1, "add", ""),
):
    name = f"a_swap_of_{expected}_beside_{other}"
    case(name, swap_beside, words(1, 2), 2, {"EXPECTED": expected, "OTHER": other}, races=races)


@triton.jit
def swap_hands_over(
    data, flag, seen, to, EXPECTED: tl.constexpr, GIVE: tl.constexpr, TAKE: tl.constexpr
):
    if tl.program_id(0) == 0:
        tl.store(data, 7)  # a
        tl.atomic_cas(flag, EXPECTED, 1, sem=GIVE)
        tl.atomic_xchg(seen, 1, sem="relaxed")
    else:
        while tl.atomic_add(seen, 0, sem="relaxed") == 0:
            pass
        tl.atomic_cas(flag, 77, 1, sem=TAKE)  # fails, and reads
        tl.store(to, tl.load(data))  # a


for expected, give, take, races in (
    (0, "release", "acquire", ""),
    (0, "acq_rel", "acq_rel", ""),
    (0, "relaxed", "acquire", "a"),
    (0, "release", "relaxed", "a"),
    (0, "release", "release", "a"),
    (1, "release", "acquire", "a"),  # a swap that fails writes nothing, so nothing is released
    (1, "acq_rel", "acq_rel", "a"),
):
    constants = {"EXPECTED": expected, "GIVE": give, "TAKE": take}
    name = f"a_swap_of_{expected}_hands_over_{give}_to_{take}"
    case(name, swap_hands_over, words(1, 1, 1, 1), 2, constants, races=races)


# --- locks ----------------------------------------------------------------------------------------


@triton.jit
def locked(
    lock, total, TAKE: tl.constexpr, GIVE: tl.constexpr, UNLOCK: tl.constexpr, EARLY: tl.constexpr
):
    while tl.atomic_cas(lock, 0, 1, sem=TAKE) == 1:  # d
        pass
    old = tl.load(total)  # a
    if EARLY:
        tl.atomic_xchg(lock, 0, sem=GIVE)
    tl.store(total, old + 1)  # a b
    if UNLOCK == "xchg":
        tl.atomic_xchg(lock, 0, sem=GIVE)
    elif UNLOCK == "atomic_store":
        tl.atomic_store(lock, 0)
    elif UNLOCK == "store":
        tl.store(lock, 0)  # d e


LOCK = {"TAKE": "acquire", "GIVE": "release", "UNLOCK": "xchg", "EARLY": False}
case("lock", locked, words(1, 1), 4, LOCK)
case("lock_released_by_an_atomic_store", locked, words(1, 1), 4, {**LOCK, "UNLOCK": "atomic_store"})
case("lock_taken_relaxed", locked, words(1, 1), 4, {**LOCK, "TAKE": "relaxed"}, races="ab")
case("lock_given_relaxed", locked, words(1, 1), 4, {**LOCK, "GIVE": "relaxed"}, races="ab")
case(
    "lock_released_early", locked, words(1, 1), 4, {**LOCK, "EARLY": True, "UNLOCK": ""}, races="ab"
)
case("lock_released_by_a_store", locked, words(1, 1), 4, {**LOCK, "UNLOCK": "store"}, races="abde")


@triton.jit
def one_lock_too_late(lock, data):
    me = tl.program_id(0)
    if me == 0:
        tl.store(data, 1)  # a
    while tl.atomic_cas(lock, 0, 1, sem="acquire") == 1:
        pass
    tl.atomic_xchg(lock, 0, sem="release")
    if me == 1:
        tl.store(data, 2)  # a


case(
    "accesses_that_a_lock_does_not_cover",
    one_lock_too_late,
    words(1, 1),
    2,
    races="a",
    missed="locks are judged in the order in which programs took them: here the lock was given from the one to the other",
)


@triton.jit
def counted(data, count, to):
    if tl.program_id(0) == 0:
        tl.store(data, 7)  # a
        tl.atomic_add(count, 1)
    else:
        tl.atomic_add(count, 1)
        tl.store(to, tl.load(data))  # a


case(
    "a_counter_that_nobody_looks_at",
    counted,
    words(1, 1, 1),
    2,
    races="a",
    missed="updates without sem are judged in the order in which they came, whether their result is used or not",
)


# --- the last of all programs does the rest -------------------------------------------------------


@triton.jit
def last_one(x, parts, count, to, SEM: tl.constexpr, N: tl.constexpr):
    me = tl.program_id(0)
    tl.store(parts + me, tl.sum(tl.load(x + me * 8 + tl.arange(0, 8))))  # a
    if tl.atomic_add(count, 1, sem=SEM) == N - 1:
        tl.store(to, tl.sum(tl.load(parts + tl.arange(0, N))))  # a


def _parts() -> tuple[Any, ...]:
    return np.arange(32, dtype=np.int32), np.zeros(4, np.int32), *words(1, 1)()


for sem, races in (("acq_rel", ""), ("acquire", "a"), ("release", "a"), ("relaxed", "a")):
    case(f"the_last_of_all_{sem}", last_one, _parts, 4, {"SEM": sem, "N": 4}, races=races)
