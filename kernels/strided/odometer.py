"""Compiled access to plans: their inner loop, and the odometer over the axes around it."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from emu.kernels.core.address import as_pointer
from emu.kernels.core.annotations import CArray, Intrinsic, IrBuilder, IrValue, Number
from emu.kernels.core.jit import carray, fixed_intrinsic, jit
from emu.kernels.strided.access_plan import (
    BLOCK,
    COLUMNS,
    FORM,
    MAX_AXES,
    OUTER,
    RANK,
    REPEATS,
    ROWS,
    SOURCE_SHIFT,
    TARGET_SHIFT,
    WIDTH,
    WORDS,
    Axis,
    InnerLoop,
)

_LINE = 64


def stack_memory(nbytes: int) -> Intrinsic:
    """Make the intrinsic that returns the address of memory in the stack frame of its caller."""

    @fixed_intrinsic(types.int64)
    def stack(builder: IrBuilder) -> IrValue:
        kind = ir.ArrayType(ir.IntType(8), nbytes)
        with builder.goto_entry_block():  # in a loop, an alloca would grow the stack
            memory = builder.alloca(kind)
        memory.align = _LINE
        return builder.ptrtoint(memory, ir.IntType(64))

    return stack


stack_counters = stack_memory(8 * MAX_AXES)


@jit()
def plan_words(plan: int) -> CArray:
    """Return the words of the plan at an address."""
    return carray(as_pointer(plan), (WORDS,), np.int64)


@jit()
def inner_loop(plan: int) -> InnerLoop:
    """Return the inner loop of the plan at an address."""
    words = plan_words(plan)
    rows = Axis(words[ROWS], words[ROWS + 1], words[ROWS + 2])
    columns = Axis(words[COLUMNS], words[COLUMNS + 1], words[COLUMNS + 2])
    return InnerLoop(words[FORM], words[WIDTH], rows, columns, words[BLOCK])


@jit()
def repeats(plan: int) -> Number:
    """Return how often the inner loop runs."""
    return plan_words(plan)[REPEATS]


@jit()
def _outer_axis(words: CArray, axis: int) -> Axis:
    at = OUTER + 3 * axis
    return Axis(words[at], words[at + 1], words[at + 2])


@jit()
def set_odometer(counters: int, plan: int, index: int) -> tuple[int, int]:
    """Set the odometer to run ``index`` of the inner loop; return its (target, source) offsets in bytes."""
    words = plan_words(plan)
    digits = carray(as_pointer(counters), (MAX_AXES,), np.int64)
    target = words[TARGET_SHIFT]
    source = words[SOURCE_SHIFT]
    for i in range(words[RANK] - 1, -1, -1):
        axis = _outer_axis(words, i)
        digit = index
        if index:
            digit = index % axis.extent
            index //= axis.extent
        digits[i] = digit
        target += digit * axis.target
        source += digit * axis.source
    return target, source


@jit()
def first_run(counters: int, plan: int, target: int, source: int) -> tuple[int, int]:
    """Set the odometer to the first run of the inner loop; return where that begins.

    Args:
        counters: Address of ``stack_counters``.
        plan: Address of the plan.
        target: Address of the tile that is written; an axis may run backwards from there.
        source: Address of the tile that is read.
    """
    t, s = set_odometer(counters, plan, 0)
    return target + t, source + s


@jit()
def advance(counters: int, plan: int, target: int, source: int) -> tuple[int, int]:
    """Step the odometer on; after the last run of the inner loop comes the first."""
    words = plan_words(plan)
    digits = carray(as_pointer(counters), (MAX_AXES,), np.int64)
    i = words[RANK] - 1
    while i >= 0:
        axis = _outer_axis(words, i)
        target += axis.target
        source += axis.source
        digits[i] += 1
        if digits[i] < axis.extent:
            break
        digits[i] = 0
        target -= axis.extent * axis.target
        source -= axis.extent * axis.source
        i -= 1
    return target, source
