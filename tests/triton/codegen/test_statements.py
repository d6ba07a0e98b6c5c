"""Statements of kernels do what the same Python does."""

import numpy as np
import pytest

from emu.tile.reference import ExecutionError
from emu.triton import language as tl
from emu.triton.source import JITCallable as jit


def ints(*values):
    return np.array(values, np.int32)


# ---- assignments


@jit
def unpacks(out):
    a, (b, c) = 1, (2, 3)
    b, a = a, b
    d = e = c + 10
    d += 1
    [f, g] = [d, e]
    h: tl.int32 = 7
    i: tl.constexpr = 8
    j: tl.constexpr
    j = i * 2
    tl.store(out + tl.arange(0, j), 0)
    tl.store(out + 0, a)
    tl.store(out + 1, b)
    tl.store(out + 2, f)
    tl.store(out + 3, g)
    tl.store(out + 4, h)
    tl.store(out + i, (k := i + 1) + k)


def test_assignments_unpack_swap_chain_and_annotate(launch):
    out = np.full(16, 99, np.int32)
    launch(unpacks, out)
    assert out.tolist() == [2, 1, 14, 13, 7, 0, 0, 0, 18, *[0] * 7]


@jit
def augments(x, out):
    a = tl.load(x)
    a += 3
    a -= 1
    a *= 5
    a //= 2
    a %= 13
    a <<= 2
    a >>= 1
    a |= 64
    a ^= 5
    a &= 127
    tl.store(out, a)


@pytest.mark.parametrize("value", [0, 1, 7, 100])
def test_augmented_assignments_are_operators(launch, value):
    out = ints(0)
    launch(augments, ints(value), out)
    a = (value + 3 - 1) * 5 // 2 % 13
    assert out[0] == ((a << 2 >> 1 | 64) ^ 5) & 127


@jit
def keeps_nothing(out, n):
    done = tl.store(out, 1)
    for i in range(n):
        done = tl.store(out + i, i + 5)
    if n > 1:
        done = tl.store(out + 1, 2)
    return done


def test_what_a_store_gives_can_be_assigned(launch):
    out = ints(0, 0, 0)
    launch(keeps_nothing, out, 3)
    assert out.tolist() == [5, 2, 7]


# ---- if


@jit
def branches(x, out):
    v = tl.load(x)
    y = 0
    if v > 10:
        y = 1
        z = v * 2
    elif v > 5:
        y = 2
        z = v * 3
        unused = 1
    else:
        z = v
    if v == 7:
        pass
    elif v == 8:
        y = -y
    if v:
        z += 100
    tl.store(out, y)
    tl.store(out + 1, z)


@pytest.mark.parametrize("value", [0, 5, 6, 7, 8, 10, 11])
def test_branches_merge_their_variables(launch, value):
    out = ints(0, 0)
    launch(branches, ints(value), out)
    y, z = (1, value * 2) if value > 10 else (2, value * 3) if value > 5 else (0, value)
    assert out.tolist() == [-y if value == 8 else y, z + 100 if value else z]


@jit
def static_branch(x, out, FLAG: tl.constexpr, other=None):
    if FLAG == "double":
        y = tl.load(x) * 2
    elif other is not None:
        y = tl.load(other)
    else:
        y = nowhere_defined(x)  # noqa: F821
    if FLAG == "double" and other is None:
        y += 1
    tl.store(out, y)


def test_only_the_live_branch_of_a_known_condition_is_visited(launch):
    out = ints(0)
    launch(static_branch, ints(4), out, FLAG="double")
    assert out[0] == 9
    launch(static_branch, ints(4), out, ints(6), FLAG="")
    assert out[0] == 6


@jit
def specialised(n, out, m):
    if m > 5:
        n = n + 1
    tl.store(out, n)


def test_a_known_integer_that_a_branch_reassigns_becomes_a_tensor(launch):
    out = ints(0)
    for m, expected in ((3, 1), (9, 2)):
        launch(specialised, out, m, n=1)
        assert out[0] == expected


# ---- loops


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


# ---- leaving early


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


# ---- diagnosis


@jit
def asserts(x, out):
    """Docstrings are allowed."""
    v = tl.load(x)
    assert v > 3, f"too small in {tl.constexpr(5)}"
    tl.store(out, v)


def test_assert_is_checked_while_a_debugged_program_runs(launch):
    out = ints(0)
    launch(asserts, ints(2), out)
    assert out[0] == 2
    launch(asserts, ints(5), out, debug=True)
    assert out[0] == 5
    with pytest.raises(ExecutionError, match=r"test_statements.py:\d+:5: .*: too small in 5"):
        launch(asserts, ints(3), out, debug=True)


@jit
def prints(n):
    print("n is", n)
    tl.static_print("width", tl.constexpr(4))


def test_print_prints_while_the_program_runs_static_print_while_it_is_compiled(launch, capsys):
    printed = launch(prints, 42)
    assert "42" in "".join(printed)
    assert capsys.readouterr().out == "width 4\n"
