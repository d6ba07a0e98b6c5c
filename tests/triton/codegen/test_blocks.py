"""Functions that are left early: by branches, in unrolled loops, before dead code."""

import pytest
from triton_kernels import ints

from emu.triton import language as tl
from emu.triton.source import JITCallable as jit


@jit
def guarded(x, out, n):
    pid = tl.program_id(0)
    if pid >= n:
        return
    v = tl.load(x + pid)
    if v < 0:
        tl.store(out + pid, -1)
        return
    if v > 10:
        if v > 100:
            tl.store(out + pid, 100)
            return
        v -= 10
    else:
        v += 1000
    tl.store(out + pid, v)


def test_a_kernel_can_be_left_early(launch):
    x, out = ints(-5, 3, 50, 500, 10, 7), ints(*[0] * 6)
    launch(guarded, x, out, 5, grid=(6,))
    assert out.tolist() == [-1, 1003, 40, 100, 1010, 0]


@jit
def static_return(out, N: tl.constexpr):
    for i in tl.static_range(4):
        if i == N:
            return
        tl.store(out + i, i + 1)
    tl.store(out + 4, 5)


@pytest.mark.parametrize("n", [0, 2, 4])
def test_unrolled_loops_can_be_left(launch, n):
    out = ints(*[0] * 5)
    launch(static_return, out, N=n)
    assert out.tolist() == [i + 1 if i < n or n == 4 else 0 for i in range(5)]


@jit
def dead_code(out, n):
    tl.store(out, 1)
    return
    tl.store(out, nothing)  # noqa: F821


def test_what_follows_a_return_is_not_visited(launch):
    out = ints(0)
    launch(dead_code, out, 1)
    assert out[0] == 1


@jit
def pair_or_nothing(x, n):
    if n > 3:
        return x, tl.arange(0, 4) + n


@jit
def known_or_nothing(x, KEEP: tl.constexpr):
    if KEEP:
        return x


@jit
def takes_what_is_returned(x, n, out):
    a, b = pair_or_nothing(x, n)
    known_or_nothing(n, False)
    if n > 3:
        tl.store(a + tl.arange(0, 4), b + known_or_nothing(n, True))


@pytest.mark.parametrize("n", [2, 7])
def test_a_function_that_returns_nothing_on_one_side_gives_anything_there(launch, n):
    out = ints(*[-1] * 4)
    launch(takes_what_is_returned, out, n, out)
    assert out.tolist() == ([14, 15, 16, 17] if n == 7 else [-1] * 4)
