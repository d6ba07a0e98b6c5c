"""Which memory programs touch: neighbours, masks, loops, views, and lanes of one program."""

from __future__ import annotations

from typing import Any

import numpy as np
from grid_race_cases import words

import emu.triton.language as tl
from emu import triton
from tests.check.gsan.cases import case

I = np.int32

# --- neighbours -----------------------------------------------------------------------------------


@triton.jit
def neighbours(to, T: tl.constexpr, STEP: tl.constexpr):
    me = tl.program_id(0)
    tl.store(to.to(tl.pointer_type(T)) + me * STEP, (me + 1).to(T))  # a


for dtype in (tl.int8, tl.int16, tl.float16, tl.int32, tl.int64, tl.float64):
    case(f"neighbours_of_{dtype}", neighbours, words(16), 4, {"T": dtype, "STEP": 1})
case("one_byte_for_all", neighbours, words(16), 4, {"T": tl.int8, "STEP": 0}, races="a")


@triton.jit
def word_and_byte(to, AT: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(to.to(tl.pointer_type(tl.int32)), -1)  # a
    else:
        tl.store(to + AT, 5)  # a


for at, races in ((0, "a"), (3, "a"), (4, "")):
    name = f"a_word_and_byte_{at}"
    case(name, word_and_byte, words(8, dtype=np.int8), 2, {"AT": at}, races=races)


@triton.jit
def unaligned(to, STEP: tl.constexpr):
    me = tl.program_id(0)
    tl.store((to + 1 + me * STEP).to(tl.pointer_type(tl.int32)), me)  # a


case("words_at_odd_bytes", unaligned, words(64, dtype=np.int8), 4, {"STEP": 4})
case("words_that_share_a_byte", unaligned, words(64, dtype=np.int8), 4, {"STEP": 3}, races="a")


@triton.jit
def halves(to, READ: tl.constexpr):
    me = tl.program_id(0)
    half = to.to(tl.pointer_type(tl.int16))
    if me == 0:
        tl.store(half, 7)  # a
    elif READ == "other half":
        tl.store(to + 2, tl.load(half + 1).to(tl.int32))
    else:
        tl.store(to + 2, tl.load(to))  # a


case("the_other_half_of_a_word_is_read", halves, words(3), 2, {"READ": "other half"})
case("the_whole_word_is_read", halves, words(3), 2, {"READ": "whole"}, races="a")

# --- masks ----------------------------------------------------------------------------------------


@triton.jit
def tails(x, to, n, MASK: tl.constexpr, B: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, B)
    value = tl.load(x + row * n + i, mask=i < n) + row
    if MASK == "all":
        tl.store(to + row * n + i, value, mask=i < n)  # a
    elif MASK == "one too many":
        tl.store(to + row * n + i, value, mask=i <= n)  # b
    else:
        tl.store(to + row * n + i, value)  # c


def _rows() -> tuple[Any, ...]:
    return np.arange(64, dtype=I), np.zeros(80, I), 13


for mask, races in (("all", ""), ("one too many", "b"), ("none", "c")):
    name = f"rows_with_{mask}_masked".replace(" ", "_")
    case(name, tails, _rows, 4, {"MASK": mask, "B": 16}, races=races)


@triton.jit
def masks_from_memory(keep, to, OWN: tl.constexpr):
    me, i = tl.program_id(0), tl.arange(0, 8)
    mine = tl.load(keep + (me if OWN else 0) * 8 + i) != 0
    tl.store(to + i, i + me * 100, mask=mine)  # a


def _masks() -> tuple[Any, ...]:
    keep = np.zeros((4, 8), I)
    for me in range(4):
        keep[me, 2 * me : 2 * me + 2] = 1
    return keep, np.zeros(8, I)


case("masks_that_share_nothing", masks_from_memory, _masks, 4, {"OWN": True})
case("masks_that_are_alike", masks_from_memory, _masks, 4, {"OWN": False}, races="a")


@triton.jit
def one_writes(to, MASK: tl.constexpr):
    i = tl.arange(0, 8)
    me = tl.program_id(0)
    if MASK == "nothing":
        tl.store(to + i, me, mask=i < 0)
    elif MASK == "first program":
        tl.store(to + i, me, mask=(i < 8) & (me == 0))
    else:
        tl.atomic_add(to + i, me, mask=i < 4)  # a
        tl.store(to + i, me, mask=i > 2)  # a b


case("a_mask_of_nothing", one_writes, words(8), 4, {"MASK": "nothing"})
case("a_mask_of_one_program", one_writes, words(8), 4, {"MASK": "first program"})
case("a_store_that_meets_a_masked_update", one_writes, words(8), 4, {"MASK": "overlap"}, races="ab")

# --- loops ----------------------------------------------------------------------------------------


@triton.jit
def strided(to, n, STEP: tl.constexpr, B: tl.constexpr):
    me = tl.program_id(0)
    for block in range(me, n // B, STEP):
        tl.store(to + block * B + tl.arange(0, B), me + 1)  # a


case("blocks_dealt_out", strided, lambda: (np.zeros(64, I), 64), 3, {"STEP": 3, "B": 8})
case(
    "a_step_below_the_grid",
    strided,
    lambda: (np.zeros(64, I), 64),
    3,
    {"STEP": 2, "B": 8},
    races="a",
)


@triton.jit
def late_overlap(to, ROUNDS: tl.constexpr):
    me = tl.program_id(0)
    for k in range(ROUNDS):
        tl.store(to + me * 4 + k, me)  # a


case("four_rounds_fit", late_overlap, words(32), 4, {"ROUNDS": 4})
case("the_fifth_round_does_not", late_overlap, words(32), 4, {"ROUNDS": 5}, races="a")


@triton.jit
def while_loop(limits, to, OFF: tl.constexpr):
    me = tl.program_id(0)
    k = tl.load(limits + me)
    while k < tl.load(limits + me + 1) + OFF:
        tl.store(to + k, me + 1)  # a
        k += 1


def _limits() -> tuple[Any, ...]:
    return np.array([0, 3, 4, 9, 12], I), np.zeros(16, I)


case("ranges_from_memory", while_loop, _limits, 4, {"OFF": 0})
case("ranges_one_too_long", while_loop, _limits, 4, {"OFF": 1}, races="a")


@triton.jit
def sweep_back(x, FIXED: tl.constexpr):
    me, last = tl.program_id(0), tl.num_programs(0) - 1
    i = tl.arange(0, 8)
    source = x + (me if FIXED else last - me) * 8 + i
    tl.store(x + me * 8 + i, tl.load(source) + 1)  # a


case("each_block_in_place", sweep_back, lambda: (np.arange(32, dtype=I),), 4, {"FIXED": True})
case(
    "the_opposite_block_in_place",
    sweep_back,
    lambda: (np.arange(32, dtype=I),),
    4,
    {"FIXED": False},
    races="a",
)


# --- launches one after the other -----------------------------------------------------------------


@triton.jit
def write_blocks(x, to, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + i, i)


@triton.jit
def read_opposite_blocks(x, to, B: tl.constexpr):
    me = tl.program_id(0)
    source = (tl.num_programs(0) - 1 - me) * B + tl.arange(0, B)
    tl.store(to + me * B + tl.arange(0, B), tl.load(x + source))


B8 = {"B": 8}
case(
    "a_second_launch_reads", write_blocks, words(64, 64), 8, B8, then=((read_opposite_blocks, B8),)
)
case(
    "a_second_launch_writes", read_opposite_blocks, words(64, 64), 8, B8, then=((write_blocks, B8),)
)


# --- lanes of one program -------------------------------------------------------------------------


@triton.jit
def lanes(to, BETWEEN: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(to + i, i)  # a
    if BETWEEN == "barrier":
        tl.debug_barrier()
    elif BETWEEN == "sum":
        tl.store(to + 2 * B, tl.sum(i))
    tl.store(to + i + 1, i * 2)  # a


case("lanes_without_a_barrier", lanes, words(80), 1, {"BETWEEN": "", "B": 32}, lanes="a")
case("lanes_with_a_barrier", lanes, words(80), 1, {"BETWEEN": "barrier", "B": 32})
case("lanes_that_meet_in_a_sum", lanes, words(80), 1, {"BETWEEN": "sum", "B": 32})


@triton.jit
def lanes_that_read(to, other, BARRIER: tl.constexpr, STORE_FIRST: tl.constexpr):
    i = tl.arange(0, 32)
    if STORE_FIRST:
        tl.store(to + i, i)  # a
        if BARRIER:
            tl.debug_barrier()
        tl.store(other + i, tl.load(to + 31 - i))  # a
    else:
        value = tl.load(to + 31 - i)  # b
        if BARRIER:
            tl.debug_barrier()
        tl.store(to + i, i + 0 * value)  # b


UNSEEN = "of the lanes of one program only stores are compared with each other"
for first, letter in ((True, "a"), (False, "b")):
    what = "stored" if first else "will_store"
    constants = {"BARRIER": True, "STORE_FIRST": first}
    case(
        f"lanes_read_what_others_{what}_with_a_barrier",
        lanes_that_read,
        words(32, 32),
        1,
        constants,
    )
    constants = {"BARRIER": False, "STORE_FIRST": first}
    name = f"lanes_read_what_others_{what}"
    case(name, lanes_that_read, words(32, 32), 1, constants, lanes=letter, missed=UNSEEN)


@triton.jit
def barrier_between_programs(data, to):
    if tl.program_id(0) == 0:
        tl.store(data, 7)  # a
        tl.debug_barrier()
    else:
        tl.debug_barrier()
        tl.store(to, tl.load(data))  # a


case("a_barrier_orders_no_programs", barrier_between_programs, words(1, 1), 2, races="a")


@triton.jit
def one_element_for_all_lanes(to, EQUAL: tl.constexpr):
    i = tl.arange(0, 32)
    tl.store(to + i * 0, i * 0 + 5 if EQUAL else i)  # a


case(
    "lanes_that_store_different_bits",
    one_element_for_all_lanes,
    words(1),
    1,
    {"EQUAL": False},
    lanes="a",
)
case("lanes_that_store_the_same_bits", one_element_for_all_lanes, words(1), 1, {"EQUAL": True})


# --- many readers ---------------------------------------------------------------------------------


@triton.jit
def many_readers(data, count, to, N: tl.constexpr, SILENT: tl.constexpr):
    me = tl.program_id(0)
    if me < N:
        tl.store(to + me, tl.load(data))  # a
        if me != SILENT:
            tl.atomic_add(count, 1, sem="release")
    else:
        while tl.atomic_add(count, 0, sem="acquire") < (N if SILENT < 0 else N - 1):
            pass
        tl.store(data, 9)  # a


case(
    "twenty_readers_and_a_writer_that_waits_for_all",
    many_readers,
    words(1, 1, 20),
    21,
    {"N": 20, "SILENT": -1},
)
for silent in (0, 7, 19):
    name = f"twenty_readers_and_a_writer_that_does_not_wait_for_{silent}"
    case(name, many_readers, words(1, 1, 20), 21, {"N": 20, "SILENT": silent}, races="a")


# --- calls, grids and views -----------------------------------------------------------------------


@triton.jit
def bump(at):
    old = tl.load(at)  # a
    tl.store(at, old + 1)  # a b


@triton.jit
def calls(to, OWN: tl.constexpr):
    bump(to + (tl.program_id(0) if OWN else 0))


case("a_call_for_each_element", calls, words(4), 4, {"OWN": True}, helpers=(bump,))
case("a_call_for_one_element", calls, words(4), 4, {"OWN": False}, helpers=(bump,), races="ab")


@triton.jit
def planes(to, AXES: tl.constexpr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    at = x + 2 * y + (4 * z if AXES == 3 else 0)
    tl.store(to + at, x + 10 * y + 100 * z)  # a


case("a_grid_of_three_axes", planes, words(8), (2, 2, 2), {"AXES": 3})
case("a_grid_with_a_forgotten_axis", planes, words(8), (2, 2, 2), {"AXES": 2}, races="a")


@triton.jit
def two_names(x, y):
    me = tl.program_id(0)
    if me == 0:
        tl.store(x + 1, 3)  # a
    else:
        tl.store(y, 4)  # a


def _views(distance: int) -> Any:
    def make() -> tuple[Any, ...]:
        memory = np.zeros(8, I)
        return memory[:4], memory[distance : distance + 4]

    return make


case("two_names_of_one_element", two_names, _views(1), 2, races="a")
case("two_names_of_neighbours", two_names, _views(2), 2)


@triton.jit
def through_memory(table, to):
    cell = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.int32))
    tl.store(cell, tl.program_id(0))  # a


def _table(*places: int) -> Any:
    def make() -> tuple[Any, ...]:
        to = np.zeros(4, I)
        return np.array([to.ctypes.data + 4 * p for p in places], np.int64), to

    return make


case("addresses_from_memory_that_differ", through_memory, _table(2, 0, 3), 3)
case("addresses_from_memory_that_are_alike", through_memory, _table(2, 0, 2), 3, races="a")
