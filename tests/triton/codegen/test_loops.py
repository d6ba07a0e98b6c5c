"""Loops: what they carry from one iteration to the next."""

import pytest
from triton_kernels import ints

from emu.triton import language as tl
from emu.triton.source import JITCallable as jit


@jit
def sums(x, out, n):
    total = 0
    last = -1
    fixed = n * 2
    for i in range(n):
        v = tl.load(x + i)
        total += v
        if v > 3:
            last = i
            fixed = fixed
    tl.store(out, total)
    tl.store(out + 1, last)
    tl.store(out + 2, fixed)


@pytest.mark.parametrize("n", [0, 1, 5, 8])
def test_loops_carry_what_their_body_assigns(launch, n):
    x, out = ints(*range(2, 10)), ints(0, 0, 0)
    launch(sums, x, out, n)
    assert out.tolist() == [x[:n].sum(), max([i for i in range(n) if x[i] > 3], default=-1), n * 2]


def test_what_a_loop_leaves_unchanged_is_not_carried(compile_):
    module = compile_(sums, ints(1), ints(1), 3)
    (loop,) = [o for o in module.kernel.body.operations if o.code.name == "FOR"]
    assert len(loop.results) == 2


@jit
def nested(out, n):
    a = 0
    b = 1
    for i in range(n):
        c = b
        for j in range(i):
            a, b = b, a + j
            if a > 50:
                a -= 50
        while b > 20:
            b -= c + 3
    tl.store(out, a)
    tl.store(out + 1, b)


@pytest.mark.parametrize("n", range(7))
def test_nested_loops(launch, n):
    out = ints(0, 0)
    launch(nested, out, n)
    a, b = 0, 1
    for i in range(n):
        c = b
        for j in range(i):
            a, b = b, a + j
            if a > 50:
                a -= 50
        while b > 20:
            b -= c + 3
    assert out.tolist() == [a, b]


@jit
def collatz(x, out):
    v = tl.load(x)
    steps = 0
    start = v
    while v != 1 and steps < 100:
        if v % 2 == 0:
            v = v // 2
        else:
            v = 3 * v + 1
        steps += 1
    tl.store(out, steps)
    tl.store(out + 1, start)


@pytest.mark.parametrize("value", [1, 2, 7, 27])
def test_while_loops(launch, value):
    out = ints(0, 0)
    launch(collatz, ints(value), out)
    v, steps = value, 0
    while v != 1 and steps < 100:
        v, steps = v // 2 if v % 2 == 0 else 3 * v + 1, steps + 1
    assert out.tolist() == [steps, value]


@jit
def never(out):
    while False:
        tl.store(out, nowhere)  # noqa: F821
    tl.store(out, 1)


def test_a_while_that_never_runs_is_not_visited(launch):
    out = ints(0)
    launch(never, out)
    assert out[0] == 1


@jit
def one_element(x, out):
    if tl.load(x + tl.arange(0, 1)) > 3:
        tl.store(out, 1)
    n = tl.full((1, 1), 3, tl.int32)
    while n:
        n -= 1
        tl.atomic_add(out, 10)


@pytest.mark.parametrize("value", [3, 4])
def test_tensors_of_one_element_are_conditions(launch, value):
    out = ints(0)
    launch(one_element, ints(value), out)
    assert out[0] == 30 + (value > 3)


@jit
def reassigned(n, out):
    for i in range(4):
        n += i
    tl.store(out, n)


def test_a_known_integer_that_a_loop_reassigns_becomes_a_tensor(launch):
    out = ints(0)
    launch(reassigned, out, n=1)
    assert out[0] == 7


@jit
def carried_tuples(out, n):
    pair = (0, (1, 2.0))
    for i in range(n):
        pair = (pair[1][0], (pair[0] + pair[1][0], pair[1][1] * 2))
    tl.store(out, pair[0])
    tl.store(out + 1, pair[1][0])
    tl.store(out + 2, pair[1][1].to(tl.int32))


def test_tuples_are_carried(launch):
    out = ints(0, 0, 0)
    launch(carried_tuples, out, 6)
    assert out.tolist() == [8, 13, 128]
