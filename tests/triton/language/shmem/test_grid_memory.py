"""The memory in which the programs of a cooperative launch meet, whose address is in two registers: checks know it."""

from __future__ import annotations

import numpy as np
import pytest

import emu
import emu.triton.language as tl
from emu import triton
from emu.comm.sync.kernel_numbers import GRID_BYTES
from emu.triton import OutOfBoundsError


@triton.jit
def word_of_the_grid(place):
    high = tl.inline_asm_elementwise(
        "mov.u32 $0, %envreg1;", "=r", [], dtype=tl.uint32, is_pure=True, pack=1
    )
    low = tl.inline_asm_elementwise(
        "mov.u32 $0, %envreg2;", "=r", [], dtype=tl.uint32, is_pure=True, pack=1
    )
    address = (high.to(tl.uint64) << 32) | low.to(tl.uint64)
    return address.to(tl.pointer_type(tl.uint32)) + place


@triton.jit
def count_programs(out, place):
    word = word_of_the_grid(place)
    tl.atomic_add(word, 1)
    while tl.atomic_add(word, 0) < tl.num_programs(0):  # a barrier of the grid
        pass
    # Others may still poll the word: a plain load reads the one behind it, which is 0.
    tl.store(out + tl.program_id(0), tl.atomic_add(word, 0) + tl.load(word + 1))


def counts_programs(place: int) -> list[int]:
    emu.world()
    out = np.zeros(3, np.int32)
    count_programs[(3,)](out, place, check="bounds")
    found: list[int] = out.tolist()
    return found


def test_the_memory_of_the_grid_is_known_to_checks_of_bounds() -> None:
    assert emu.launch(counts_programs, 1, args=(1,)) == [[3, 3, 3]]


def is_told(place: int) -> str:
    with pytest.raises(OutOfBoundsError) as caught:
        counts_programs(place)
    return str(caught.value)


def test_what_lies_behind_the_memory_of_the_grid_is_out_of_bounds() -> None:
    (told,) = emu.launch(is_told, 1, args=(GRID_BYTES // 4 + 1,))
    assert "atomic of u32 out of bounds in kernel count_programs, program (0, 0, 0)" in told
