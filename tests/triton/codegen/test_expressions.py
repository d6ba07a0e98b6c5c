"""Expressions of kernels, and calls, give what the same Python gives."""

from collections import namedtuple

import numpy as np
import pytest

from emu.triton import language as tl
from emu.triton.source import JITCallable as jit
from emu.triton.source import constexpr_function

FACTOR = tl.constexpr(3)
SHAPE = tl.constexpr((2, 4))
Pair = namedtuple("Pair", ["left", "right"])


def ints(*values):
    return np.array(values, np.int32)


@jit
def arithmetic(x, out):
    a = tl.load(x)
    b = tl.load(x + 1)
    tl.store(out + 0, a + b - 2 * a)
    tl.store(out + 1, 7 - a)
    tl.store(out + 2, a // b)
    tl.store(out + 3, a % b)
    tl.store(out + 4, (a & b) | (a ^ 12))
    tl.store(out + 5, (a << 3) >> 1)
    tl.store(out + 6, -a + ~b)
    tl.store(out + 7, +a)
    tl.store(out + 8, (1 << b) + (100 // b) + (100 % b))


@pytest.mark.parametrize(("a", "b"), [(5, 3), (100, 7), (0, 1)])
def test_operators_of_tensors_and_numbers(launch, a, b):
    out = ints(*[0] * 9)
    launch(arithmetic, ints(a, b), out)
    expected = [b - a, 7 - a, a // b, a % b, (a & b) | (a ^ 12), a << 3 >> 1, -a + ~b, a]
    assert out.tolist() == [*expected, (1 << b) + 100 // b + 100 % b]


@jit
def known(out):
    a: tl.constexpr = 7
    b: tl.constexpr = -2
    tl.store(out + 0, a // b)
    tl.store(out + 1, a % b)
    tl.store(out + 2, a**2 + FACTOR)
    tl.store(out + 3, (not a) + (a > b) * 10 + (a == 7) * 100)
    tl.store(out + tl.arange(0, (a - 3) // 4 * 4), FACTOR)


def test_operators_of_known_values_are_pythons(launch):
    out = ints(*[0] * 4)
    launch(known, out)
    assert out.tolist() == [3, 3, 3, 3]


@jit
def logic(x, out):
    a = tl.load(x)
    tl.store(out + 0, (a > 3 and a < 8) + 0)
    tl.store(out + 1, (a > 3 or a == 1) + 0)
    tl.store(out + 2, (not a == 0) + 0)
    tl.store(out + 3, (2 < a <= 7 != 5) + 0)
    tl.store(out + 4, (not a > 3) + 0)
    tl.store(out + 5, True and a)
    tl.store(out + 6, False or a)
    tl.store(out + 7, 5 and 6)


@pytest.mark.parametrize("a", [0, 1, 3, 4, 7, 8])
def test_logic_and_chained_comparisons(launch, a):
    out = ints(*[0] * 8)
    launch(logic, ints(a), out)
    expected = [3 < a < 8, a > 3 or a == 1, a != 0, 2 < a <= 7, not a > 3, a, a, 6]
    assert out.tolist() == [int(e) for e in expected]


@jit
def short_circuits(x, out, FLAG: tl.constexpr):
    if FLAG is not None and FLAG > 3:
        tl.store(out, 1)
    if FLAG is None or nowhere:  # noqa: F821
        tl.store(out + 1, 1)
    if FLAG is None and tl.load(x) == 1 and True:
        tl.store(out + 2, 1)


def test_known_values_decide_and_or_before_the_rest_is_visited(launch):
    out = ints(0, 0, 0)
    launch(short_circuits, ints(1), out, FLAG=None)
    assert out.tolist() == [0, 1, 1]


@jit
def joins_tensors(out):
    i = tl.arange(0, 4)
    tl.store(out + i, (i > 0 and i < 3).to(tl.int32))


def test_and_of_tensors_with_a_shape_warns(launch):
    out = ints(*[0] * 4)
    with pytest.warns(UserWarning, match="deprecated for non-scalar tensors") as caught:
        launch(joins_tensors, out)
    assert out.tolist() == [0, 1, 1, 0]
    assert caught[0].filename == __file__
    assert caught[0].lineno == joins_tensors.def_file_line_number + 2


@jit
def ternaries(x, out, other, FLAG: tl.constexpr):
    a = tl.load(x)
    tl.store(out + 0, a if a > 3 else 0)
    tl.store(out + 1, 1 if FLAG else nowhere)  # noqa: F821
    tl.store(out + 2, 5 if other is None else tl.load(other))
    b = (tl.load(x + 1) if a > 3 else a + 1) if a < 10 else 17
    tl.store(out + 3, b)
    p, q = (a, 2) if a == 4 else (2, a)
    tl.store(out + 4, p * 100 + q)


@pytest.mark.parametrize("a", [3, 4, 12])
def test_ternaries_of_known_and_of_running_conditions(launch, a):
    out = ints(*[0] * 5)
    launch(ternaries, ints(a, 50), out, FLAG=True, other=None)
    b = (50 if a > 3 else a + 1) if a < 10 else 17
    last = a * 100 + 2 if a == 4 else 200 + a
    assert out.tolist() == [a if a > 3 else 0, 1, 5, b, last]


@jit
def subscripts(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    m = i[:, None] * B + i[None, :]
    t = (1, (2, 3), 4)
    s = t[1:]
    tl.store(out + m, tl.load(x + m) * t[-1] + s[0][1] + SHAPE[1])


def test_subscripts_add_axes_and_pick_from_tuples(launch):
    x = np.arange(16, dtype=np.int32).reshape(4, 4)
    out = np.zeros_like(x)
    launch(subscripts, x, out, B=4)
    np.testing.assert_array_equal(out, x * 4 + 3 + 4)


@jit
def attributes(x, out, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.static_assert(v.dtype == tl.float32)
    tl.static_assert(x.dtype.element_ty == tl.float32, f"{x.dtype} is of {B:03d} {B!r}")
    tl.static_assert(v.shape[0] == B)
    tl.static_assert(len(v.shape) == 1)
    w = v.to(tl.int32).to(out.dtype.element_ty)
    tl.store(out + tl.arange(0, B), w)


def test_attributes_of_tensors_are_known(launch):
    x, out = np.array([1.5, -2.5, 3, 4], np.float32), np.zeros(4, np.float64)
    launch(attributes, x, out, B=4)
    assert out.tolist() == [1, -2, 3, 4]


@jit
def comprehends(out, values, K: tl.constexpr):
    doubled = [v * 2 for v in values]
    even = [v for v in K if v % 2 == 0]
    sums = [a + b for a, b in ((1, 2), (3, 4))]
    tl.static_assert(len(even) == 2)
    tl.store(out + 0, doubled[0] + doubled[1])
    tl.store(out + 1, even[0] * even[1])
    tl.store(out + 2, sums[0] * sums[1])


def test_list_comprehensions_run_over_tuples(launch):
    out = ints(0, 0, 0)
    launch(comprehends, out, (5, 6), K=(1, 2, 3, 8))
    assert out.tolist() == [22, 16, 21]


@jit
def builtin_functions(x, out, B: tl.constexpr):
    a = tl.load(x)
    tl.store(out + 0, min(a, 5))
    tl.store(out + 1, max(a, 2, B))
    tl.store(out + 2, min(B, 3) + max((1, 9, 4)) + int(2.7) + len((1, 2)) + abs(-4))
    tl.store(out + 3, tl.where(a > 3, 0.5, float("inf")) > 1e30)
    tl.static_assert(isinstance(B, int) and not isinstance(B, float))
    tl.static_assert(isinstance(a, tl.tensor))
    tl.static_assert(getattr(a, "dtype") == tl.int32)
    tl.static_assert(hasattr(a, "shape") and not hasattr(a, "nothing"))


@pytest.mark.parametrize("a", [1, 4, 9])
def test_pythons_builtin_functions(launch, a):
    out = ints(0, 0, 0, 0)
    launch(builtin_functions, ints(a), out, B=4)
    assert out.tolist() == [min(a, 5), max(a, 2, 4), 3 + 9 + 2 + 2 + 4, int(a <= 3)]


# ---- calls


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


def make(offset):
    @jit
    def closure(out):
        tl.store(out, offset + 1)

    return closure


def test_variables_of_enclosing_functions_must_be_constexprs_too(launch):
    out = ints(0)
    launch(make(tl.constexpr(4)), out)
    assert out[0] == 5
    with pytest.raises(Exception, match="Cannot access global variable offset"):
        launch(make(4), out)


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
