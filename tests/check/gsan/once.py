"""Values that are written once, blocks behind descriptors, and stores of the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from grid_race_cases import words

import emu.triton.language as tl
from emu import triton
from emu.triton.tools.tensor_descriptor import TensorDescriptor
from tests.check.gsan.cases import case

I = np.int32

# --- written once ---------------------------------------------------------------------------------


@triton.jit
def initialised(table, ready, to, TAKE: tl.constexpr, TWICE: tl.constexpr):
    me, i = tl.program_id(0), tl.arange(0, 8)
    if me == 0:
        tl.store(table + i, i * i)  # a
        tl.atomic_xchg(ready, 1, sem="release")
        if TWICE:
            tl.store(table + i, i * i + 1)  # b
    else:
        while tl.atomic_add(ready, 0, sem=TAKE) == 0:
            pass
        tl.store(to + me * 8 + i, tl.load(table + 7 - i))  # a b


case("a_table_for_all", initialised, words(8, 1, 32), 4, {"TAKE": "acquire", "TWICE": False})
case(
    "a_table_that_is_not_awaited",
    initialised,
    words(8, 1, 32),
    4,
    {"TAKE": "relaxed", "TWICE": False},
    races="a",
)
case(
    "a_table_that_is_written_again",
    initialised,
    words(8, 1, 32),
    4,
    {"TAKE": "acquire", "TWICE": True},
    races="b",
)


@triton.jit
def first_come(owner, value, done, to, WAIT: tl.constexpr):
    me = tl.program_id(0)
    if tl.atomic_cas(owner, 0, me + 1) == 0:
        tl.store(value, 7)  # a
        tl.atomic_xchg(done, 1, sem="release")
    else:
        if WAIT:
            while tl.atomic_add(done, 0, sem="acquire") == 0:
                pass
        tl.store(to + me, tl.load(value))  # a


case("the_first_writes_for_all", first_come, words(1, 1, 1, 4), 4, {"WAIT": True})
case(
    "the_first_writes_and_nobody_waits",
    first_come,
    words(1, 1, 1, 4),
    4,
    {"WAIT": False},
    races="a",
)


@triton.jit
def same_value(to, seen, VALUE: tl.constexpr, READ: tl.constexpr, N: tl.constexpr):
    me = tl.program_id(0)
    if READ and me == N - 1:
        tl.store(seen, tl.load(to))  # b
    else:
        tl.store(to, VALUE + 0 * me)  # a b


@triton.jit
def different_values(to, READ: tl.constexpr):
    me = tl.program_id(0)
    tl.store(to, me // 3)  # a


case(
    "all_store_one_value",
    same_value,
    words(1, 1),
    4,
    {"VALUE": 5, "READ": False, "N": 4},
    benign="a",
)
case(
    "all_store_what_was_there",
    same_value,
    words(1, 1),
    4,
    {"VALUE": 0, "READ": False, "N": 4},
    benign="a",
)
case(
    "one_reads_what_all_others_store",
    same_value,
    words(1, 1),
    4,
    {"VALUE": 5, "READ": True, "N": 4},
    races="b",
    benign="a",
)
case(
    "one_reads_what_stays",
    same_value,
    words(1, 1),
    4,
    {"VALUE": 0, "READ": True, "N": 4},
    benign="ab",
)
case("the_last_stores_another_value", different_values, words(1), 4, {"READ": False}, races="a")


@triton.jit
def twice_by_one(to, WIDE: tl.constexpr):
    tl.store(to, 1)  # a
    if WIDE:
        tl.store(to.to(tl.pointer_type(tl.int8)) + 3, 2)  # a
    else:
        tl.store(to, 2)


NO_WRITE_ONCE = (
    "emu has no memory that may be written once only: a program's own stores have an order"
)
case(
    "write_once_memory_written_twice",
    twice_by_one,
    words(1),
    1,
    {"WIDE": True},
    races="a",
    missed=NO_WRITE_ONCE,
)

# --- descriptors ----------------------------------------------------------------------------------


@triton.jit
def block_and_cell(
    x, count, to, M: tl.constexpr, N: tl.constexpr, ROW: tl.constexpr, SEM: tl.constexpr
):
    if tl.program_id(0) == 0:
        block = tl.make_tensor_descriptor(x, [M, N], [N + 3, 1], [8, 8])
        block.store([4, 8], tl.full((8, 8), 1, tl.int32))  # a
        tl.atomic_add(count, 1, sem=SEM)
    else:
        while tl.atomic_add(count, 0, sem=SEM) == 0:
            pass
        tl.store(to, tl.load(x + ROW * (N + 3) + 9))  # a


def _descriptor_case(name: str, row: int, sem: str, races: str) -> None:
    constants = {"M": 9, "N": 13, "ROW": row, "SEM": sem}
    case(name, block_and_cell, words(12 * 16, 1, 1), 2, constants, races=races)


_descriptor_case("a_stored_block_is_read", 8, "relaxed", "a")
_descriptor_case("a_stored_block_is_read_in_order", 8, "acq_rel", "")
_descriptor_case("the_row_behind_a_stored_block_is_read", 9, "relaxed", "")


@triton.jit
def from_host(desc, x, count, to, rows, HOW: tl.constexpr, SEM: tl.constexpr):
    if tl.program_id(0) == 0:
        if HOW == "load":
            block = desc.load([4, 8])  # a
            tl.store(to + tl.arange(0, 8), tl.sum(block, axis=1))
        elif HOW == "gather":
            block = desc.gather(tl.load(rows + tl.arange(0, 8)), 8)  # b
            tl.store(to + tl.arange(0, 8), tl.sum(block, axis=1))
        elif HOW == "scatter":
            some = tl.full((8, 8), 3, tl.int32)
            desc.scatter(some, tl.load(rows + tl.arange(0, 8)), 8)  # c
        else:
            desc.atomic_add([4, 8], tl.full((8, 8), 3, tl.int32))  # d
        tl.atomic_add(count, 1, sem=SEM)
    else:
        while tl.atomic_add(count, 0, sem=SEM) == 0:
            pass
        tl.store(x + 5 * 16 + 9, 1)  # a b c d


def _described(height: int) -> Any:
    def make() -> tuple[Any, ...]:
        x = np.zeros((16, 16), I)
        rows = np.array([5, 7, 9, 10, 1, 3, 11, 13], I)
        return TensorDescriptor.from_tensor(x[:11, :13], [height, 8]), x, *words(1, 8)(), rows

    return make


for how, letter in (("load", "a"), ("gather", "b"), ("scatter", "c"), ("add", "d")):
    height = 1 if how in ("gather", "scatter") else 8
    for sem, races in (("relaxed", letter), ("acq_rel", "")):
        name = f"a_{how}_by_a_descriptor_{sem}"
        case(name, from_host, _described(height), 2, {"HOW": how, "SEM": sem}, races=races)


@triton.jit
def add_blocks(desc, x):
    desc.atomic_add([0, 0], tl.full((8, 8), tl.program_id(0), tl.int32))


def _one_block() -> tuple[Any, ...]:
    x = np.zeros((8, 8), I)
    return TensorDescriptor.from_tensor(x, [8, 8]), x


case("blocks_added_by_all", add_blocks, _one_block, 4)
