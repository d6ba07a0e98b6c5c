"""Functions that are emitted once and called: ``noinline``, and those that are called very often."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.triton.codegen import functions
from emu.triton.compiler import CompilationError

BACKENDS = pytest.mark.parametrize("options", [{}, {"backend": "reference"}, {"check": "bounds"}])


@triton.jit(noinline=True)
def row_sum(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    total = tl.sum(x, axis=0)
    tl.store(out_ptr, total)
    return total, (tl.max(x), n)


@triton.jit
def sums(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    me, count = tl.program_id(0), tl.num_programs(0)
    a, (high, _) = row_sum(x_ptr + me * n, out_ptr + me, n, BLOCK)
    b, (_, m) = row_sum(x_ptr, out_ptr + count + me, n, BLOCK)
    tl.store(out_ptr + 2 * count + me, a + b + high + m)


@BACKENDS
def test_a_function_that_is_called_gives_what_one_in_place_gives(options: dict[str, Any]) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (5, 100)).astype(np.float32)
    out = np.zeros((3, 5), np.float32)
    made = sums[(5,)](x, out, 100, 128, **options)
    total = x.sum(axis=1)
    np.testing.assert_array_equal(out[0], total)
    np.testing.assert_array_equal(out[1], np.full(5, total[0]))
    np.testing.assert_array_equal(out[2], total + total[0] + x.max(axis=1) + 100)
    assert made.asm["ttir"].count("func noinline @") == 1


@triton.jit(noinline=True)
def scaled(x, FACTOR: tl.constexpr):
    return x * FACTOR


@triton.jit
def constants(x_ptr, out_ptr):
    x = tl.load(x_ptr)
    tl.store(out_ptr, scaled(x, 2))
    tl.store(out_ptr + 1, scaled(x, 2.5))
    tl.store(out_ptr + 2, scaled(x, 2))
    tl.store(out_ptr + 3, scaled(x.to(tl.int32), 2))
    tl.store(out_ptr + 4, scaled(x, 0.0))
    tl.store(out_ptr + 5, scaled(x, -0.0))
    tl.store(out_ptr + 6, scaled(3, 2))


def test_there_is_one_function_for_each_combination_of_types_and_constants() -> None:
    out = np.zeros(7, np.float32)
    made = constants[(1,)](np.full(1, 1.5, np.float32), out)
    assert out.tolist() == [3, 3.75, 3, 2, 0, 0, 6]
    assert np.signbit(out).tolist() == [False] * 5 + [True, False]
    assert made.asm["ttir"].count("func noinline @") == 6


@triton.jit(noinline=True)
def all_types(a, b, c, d, e):
    return a, b.to(tl.float16) + c, d & (e > 0), e


@triton.jit
def narrow(p8, p16, pb, p64, out):
    a, b, c, d = all_types(tl.load(p8), tl.load(p16), tl.load(pb), tl.load(p8) > 0, tl.load(p64))
    tl.store(out, a)
    tl.store(out + 1, b)
    tl.store(out + 2, c)
    tl.store(out + 3, d)


def test_arguments_and_results_are_of_any_dtype() -> None:
    out = np.zeros(4, np.float64)
    given = np.array([-3], np.int8), np.array([1.5], np.float16), np.array([2], np.uint8)
    narrow[(1,)](*given, np.array([1 << 40], np.int64), out)
    assert out.tolist() == [-3, 3.5, 0, 1 << 40]


@triton.jit(noinline=True)
def of_a_block(x, i):
    return x * i


@triton.jit
def gives_a_block(x_ptr):
    tl.store(x_ptr + tl.arange(0, 8), of_a_block(tl.load(x_ptr + tl.arange(0, 8)), 2))


def test_a_block_is_refused_as_in_triton() -> None:
    with pytest.raises(CompilationError, match=r"called with non-scalar argument x: fp32\[8\]"):
        gives_a_block[(1,)](np.ones(8, np.float32))


@triton.jit(noinline=True)
def block_of(x_ptr):
    return tl.load(x_ptr + tl.arange(0, 8))


@triton.jit
def takes_a_block(x_ptr, out_ptr):
    tl.store(out_ptr + tl.arange(0, 8), block_of(x_ptr) + block_of(x_ptr + 8))


def test_a_function_that_returns_a_block_is_emitted_in_place() -> None:
    x, out = np.arange(16, dtype=np.float32), np.zeros(8, np.float32)
    takes_a_block[(1,)](x, out)
    np.testing.assert_array_equal(out, x[:8] + x[8:])


@triton.jit(noinline=True)
def smaller(a, b):
    return tl.where(a < b, a, b)


@triton.jit
def least(x_ptr, out_ptr):
    tl.store(out_ptr, tl.reduce(tl.load(x_ptr + tl.arange(0, 16)), 0, smaller))


def test_a_function_that_combines_elements_is_emitted_in_place() -> None:
    x, out = (
        np.random.default_rng(0).standard_normal(16).astype(np.float32),
        np.zeros(1, np.float32),
    )
    least[(1,)](x, out)
    assert out[0] == x.min()


@triton.jit(noinline=True)
def checked(x):
    tl.device_assert(x < 3, "too large")
    return x + 1


@triton.jit(noinline=True)
def calls_checked(x):
    return checked(x) * 2


@triton.jit
def asserts(out_ptr):
    me = tl.program_id(0)
    tl.device_assert(me < 100, "never")
    tl.store(out_ptr + me, calls_checked(me))


def test_an_assertion_in_a_function_ends_the_program() -> None:
    out = np.zeros(8, np.int32)
    with pytest.raises(RuntimeError, match=r"too large"):
        asserts[(8,)](out, debug=True, num_threads=1)
    assert out.tolist() == [2, 4, 6, 0, 0, 0, 0, 0]


@triton.jit(noinline=True)
def wait_for(flag_ptr):
    while tl.load(flag_ptr, volatile=True) == 0:
        pass


@triton.jit
def waits(flag_ptr, out_ptr):
    if tl.program_id(0) == 0:
        wait_for(flag_ptr)
        tl.store(out_ptr, 1)
    else:
        tl.atomic_xchg(flag_ptr, 1)


def test_a_function_may_wait_for_another_program() -> None:
    out = np.zeros(1, np.int32)
    waits[(2,)](np.zeros(1, np.int32), out)
    assert out[0] == 1


@triton.jit
def often(x, i):
    return x * 3 + i


@triton.jit
def many_calls(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr)
    for i in tl.static_range(N):
        x = often(x, tl.program_id(0))
    tl.store(out_ptr, x)


def test_a_function_that_is_called_very_often_is_called_in_the_end() -> None:
    x, out = np.ones(1, np.int32), np.zeros(1, np.int32)
    for count, emitted in ((functions.MAX_INLINED, 0), (functions.MAX_INLINED + 40, 1)):
        made = many_calls[(1,)](x, out, count)
        assert made.asm["ttir"].count("func noinline @") == emitted
        want = 1
        for _ in range(count):
            want = want * 3 % 2**32
        assert out[0] == np.uint32(want).astype(np.int32)


@triton.jit(noinline=True)
def endless(x):
    return endless(x + 1)


@triton.jit
def calls_itself(x_ptr):
    tl.store(x_ptr, endless(tl.load(x_ptr)))


def test_a_function_that_calls_itself_is_refused() -> None:
    with pytest.raises(CompilationError, match="cannot be recursive"):
        calls_itself[(1,)](np.zeros(1, np.int32))


@triton.jit(noinline=True)
def wrong(x):
    return tl.arrange(0, x)


@triton.jit
def calls_wrong(x_ptr):
    tl.store(x_ptr, wrong(tl.load(x_ptr)))


def test_errors_in_such_a_function_have_both_places() -> None:
    with pytest.raises(CompilationError) as caught:
        calls_wrong[(1,)](np.zeros(1, np.int32))
    text = str(caught.value)
    assert text.index("in calls_wrong, at") < text.index("in wrong, at") < text.index("tl.arange?")
