"""Expressions of kernels give what the same Python gives."""

import numpy as np
import pytest
from triton_kernels import ints

from emu.triton import language as tl
from emu.triton.source import JITCallable as jit

FACTOR = tl.constexpr(3)
SHAPE = tl.constexpr((2, 4))


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
