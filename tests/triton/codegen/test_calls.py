"""Calls: of jit functions, of functions that run at compile time, with tuples and any number of arguments."""

from collections import namedtuple

import pytest
from triton_kernels import ints

from emu.triton import language as tl
from emu.triton.source import JITCallable as jit
from emu.triton.source import constexpr_function

Pair = namedtuple("Pair", ["left", "right"])


@jit
def scaled(x, by=2, *, plus: tl.constexpr = 1):
    return x * by + plus


@jit
def both(x, y):
    return x + y, (x - y, scaled(x, plus=0))


@jit
def nothing(out):
    tl.store(out + 5, 55)


@jit
def clamped(x, low, high):
    if x < low:
        return low
    if x > high:
        if x > 1000:
            return 0
        return high
    return x


@jit
def calls(x, out, FN: tl.constexpr):
    a = tl.load(x)
    tl.store(out + 0, scaled(a))
    tl.store(out + 1, scaled(by=a, x=3, plus=10))
    s, (d, e) = both(a, 4)
    tl.store(out + 2, s)
    tl.store(out + 3, d * 1000 + e)
    tl.store(out + 4, FN(a, 2, 8) + clamped(1, 2, 3))
    nothing(out)
    tl.store(out + 6, clamped(clamped(a, 3, 2000), *(0, 7)))


@pytest.mark.parametrize("a", [1, 5, 9, 5000])
def test_jit_functions_call_each_other(launch, a):
    def model(x, low, high):
        return low if x < low else (0 if x > 1000 else high) if x > high else x

    out = ints(*[0] * 7)
    launch(calls, ints(a), out, FN=clamped)
    expected = [a * 2 + 1, 3 * a + 10, a + 4, (a - 4) * 1000 + a * 2, model(a, 2, 8) + 2, 55]
    assert out.tolist() == [*expected, model(model(a, 3, 2000), 0, 7)]


@jit
def power(x, n: tl.constexpr):
    if n == 0:
        return 1
    return x * power(x, n - 1)


@jit
def recursive(x, out):
    tl.store(out, power(tl.load(x), 5))


def test_recursion_that_known_values_end(launch):
    out = ints(0)
    launch(recursive, ints(3), out)
    assert out[0] == 243


@jit
def many(first, *rest):
    total = first
    for i in tl.static_range(len(rest)):
        total += rest[i] * (i + 2)
    return total


@jit
def variadic(out, n):
    tl.store(out, many(n))
    tl.store(out + 1, many(n, n, 5))


def test_functions_can_take_any_number_of_arguments(launch):
    out = ints(0, 0)
    launch(variadic, out, 7)
    assert out.tolist() == [7, 7 + 14 + 15]


@constexpr_function
def half(n):
    assert type(n) is int
    return n // 2


@jit
def at_compile_time(out, N: tl.constexpr):
    tl.store(out + tl.arange(0, half(N)), half(n=N))


def test_constexpr_functions_run_while_the_kernel_is_compiled(launch):
    out = ints(*[0] * 8)
    launch(at_compile_time, out, N=8)
    assert out.tolist() == [4] * 4 + [0] * 4


@jit
def swap(pair):
    return Pair(pair.right, pair.left)


@jit
def named(out, pair, strides):
    other = swap(pair)
    tl.store(out, other.left * 10 + other.right)
    tl.store(out + strides[0], strides[1])


def test_tuples_are_arguments_with_known_items_and_names(launch):
    out = ints(0, 0, 0)
    launch(named, out, Pair(3, 4), (tl.constexpr(2), 9))
    assert out.tolist() == [43, 0, 9]


@jit
def early_in_a_loop(x, out, n):
    total = 0
    for i in range(n):
        total += clamped(tl.load(x + i), 0, 10)
    tl.store(out, total)


def test_functions_that_are_left_early_are_called_in_loops(launch):
    x, out = ints(-4, 4, 14, 2000), ints(0)
    launch(early_in_a_loop, x, out, 4)
    assert out[0] == 14


def test_operations_know_where_they_come_from(compile_):
    module = compile_(calls, ints(1), ints(1), FN=clamped)
    places = [o.location for o in module.kernel.body.walk()]
    assert all(place is not None for place in places)
    inner = next(p for p in places if p.function == "scaled")
    outer = inner.caller
    assert outer.function == "calls" and outer.caller is None
    line = calls.def_file_line_number
    assert (inner.line, inner.column) == (scaled.def_file_line_number + 1, 12)
    assert (outer.line, outer.column) == (line + 2, 23)
    assert outer.file == __file__
