"""Ranges of loops: starts, steps, options, unrolling."""

import numpy as np
import pytest
from triton_kernels import ints

from emu import triton
from emu.triton import language as tl
from emu.triton.compiler import CompilationError
from emu.triton.interpreter.errors import InterpreterError
from emu.triton.source import JITCallable as jit


@jit
def ranges(out, n, STEP: tl.constexpr):
    k = 0
    for i in range(n, 2, STEP):
        k = k * 10 + i
    for i in tl.range(1, n, num_stages=2):
        k += i
    for i in range(0, 4):
        k += i
    tl.store(out, k)


@pytest.mark.parametrize("step", [-1, -2, 1])
@pytest.mark.parametrize("n", [1, 5, 6])
def test_ranges_have_starts_steps_and_options(launch, step, n):
    out = ints(0)
    launch(ranges, out, n, STEP=step)
    k = 0
    for i in range(n, 2, step):
        k = k * 10 + i
    assert out[0] == k + sum(range(1, n)) + 6


@jit
def unrolled_widths(out, N: tl.constexpr):
    total = 0
    for i in tl.static_range(N):
        total += tl.zeros((2, 1 << i), tl.int32).shape[1] * (i + 1)
    for i in tl.static_range(N, 0, -1):
        if i % 2 == 1:
            tl.store(out + i, i)
    tl.store(out, total)


def test_the_index_of_a_static_range_is_known(launch):
    out = ints(*[0] * 8)
    launch(unrolled_widths, out, N=4)
    assert out.tolist() == [1 + 4 + 12 + 32, 1, 0, 3, 0, 0, 0, 0]


@jit
def declares_in_an_unrolled_loop(out):
    for i in tl.static_range(1, 3):
        width: tl.constexpr = 2 * i
        tl.store(out + tl.arange(0, width), width)


def test_unrolled_loops_declare_constexprs_afresh(launch):
    out = ints(*[0] * 4)
    launch(declares_in_an_unrolled_loop, out)
    assert out.tolist() == [4] * 4


@jit
def wide(out, n, start):
    last = start
    for i in range(start, n):
        last = i
    tl.store(out, last)


def test_the_index_has_the_wider_type_of_the_bounds(launch):
    out = np.zeros(1, np.int64)
    launch(wide, out, 2**33 + 3, 2**33)
    assert out[0] == 2**33 + 2


@jit
def hinted(out, n, STEP: tl.constexpr):
    k = 0
    for i in range(1, n, STEP, flatten=True, num_stages=3):
        k += i
    tl.store(out, k)


@jit
def misspelt(out, n):
    for i in range(0, n, stepp=2):
        tl.store(out, i)


@jit
def steps_by_keyword(out, n, STEP: tl.constexpr):
    k = 0
    for i in range(2, n, step=STEP):
        k += i
    tl.store(out, k)


def test_hints_of_a_plain_range_have_no_effect_and_other_keywords_are_refused(launch):
    out = ints(0)
    launch(hinted, out, 6, STEP=2)
    assert out[0] == 1 + 3 + 5
    with pytest.raises(CompilationError, match="keywords num_stages, .*, but got stepp"):
        launch(misspelt, out, 6)


def test_a_step_by_keyword_is_taken_where_it_is_what_triton_takes_it_for(launch):
    out = ints(0)
    launch(steps_by_keyword, out, 6, STEP=1)
    assert out[0] == 14
    with pytest.raises(CompilationError, match="Triton ignores the keyword, but got step=2"):
        launch(steps_by_keyword, out, 6, STEP=2)


def test_interpreted_loops_take_the_same_hints():
    out = ints(0)
    triton.jit(hinted.fn, interpret=True)[(1,)](out, 6, STEP=2)
    assert out[0] == 1 + 3 + 5
    with pytest.raises(InterpreterError, match="but got step"):
        triton.jit(misspelt.fn, interpret=True)[(1,)](out, 6)
