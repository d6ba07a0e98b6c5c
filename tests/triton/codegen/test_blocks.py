"""Functions that are left early: by branches, in unrolled loops, before dead code."""

import runpy

import pytest
from triton_kernels import ints

from emu.triton import language as tl
from emu.triton.codegen.code_generator import build_module
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


@jit
def often_left(x, n, out):
    s = n
    t = tl.arange(0, 4)
    if n > 0:
        if s == 100:
            return
        s += 1
    if n > 1:
        if s == 4:
            tl.store(out + 1, -1)
            return
        t = t + s
    else:
        s -= 2
    if n > 2:
        if s > 9:
            if s > 11:
                tl.store(out + 2, s)
                return
            s = s * 2
        t += 1
    elif s < 0:
        return
    if n > 3:
        u = s + 1
        if u == 13:
            return
    if n > 4:
        if tl.sum(t) > 60:
            return
        t = t * 2
        s += tl.sum(t)
    if n > 5:
        if s == 77:
            return
        s += 5
    tl.store(out, s)
    tl.store(out + 4 + tl.arange(0, 4), t)


def often_left_model(n):
    out, s, t = [0] * 8, n, [0, 1, 2, 3]
    if n > 0:
        s += 1
    if n > 1:
        if s == 4:
            out[1] = -1
            return out
        t = [v + s for v in t]
    else:
        s -= 2
    if n > 2:
        if s > 9:
            if s > 11:
                out[2] = s
                return out
            s *= 2
        t = [v + 1 for v in t]
    elif s < 0:
        return out
    if n > 3 and s + 1 == 13:
        return out
    if n > 4:
        if sum(t) > 60:
            return out
        t = [v * 2 for v in t]
        s += sum(t)
    if n > 5:
        if s == 77:
            return out
        s += 5
    return [s, *out[1:4], *t]


@pytest.mark.parametrize("n", range(-3, 16))
def test_many_branches_with_returns_do_what_they_say(launch, n):
    out = ints(*[0] * 8)
    launch(often_left, ints(0), n, out)
    assert out.tolist() == often_left_model(n)


def test_code_does_not_double_with_each_branch_that_may_return(tmp_path):
    sizes = []
    for count in (8, 16, 32):
        lines = ["import emu.triton.language as tl\n", "def kernel(x, n):\n", "    s = n\n"]
        for i in range(count):
            lines += [f"    if n > {i}:\n", f"        if s == {i + 100}:\n            return\n"]
            lines += [f"        s = s + {i}\n"]
        lines += ["    tl.store(x, s)\n"]
        file = tmp_path / f"kernel_{count}.py"
        file.write_text("".join(lines))
        space = runpy.run_path(str(file))
        module = build_module(jit(space["kernel"]), {"x": "*i32", "n": "i32"})
        sizes.append(sum(1 for _ in module.kernel.body.walk()))
    assert sizes[2] - sizes[1] <= 2 * (sizes[1] - sizes[0]) + 64
