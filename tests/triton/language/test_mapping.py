"""``map_elementwise``: branches, loops, memory, packs and several results, on both back ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from language_harness import on_both

import emu.triton.language as tl
from emu import triton

RNG = np.random.default_rng(11)


@triton.jit
def compare(x, y):
    if x < y:
        return -1
    elif x == y:
        return 0
    else:
        return 1


@triton.jit
def compares(x, y, out, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    found = tl.map_elementwise(compare, tl.load(x + i)[:, None], tl.load(y + j)[None, :])
    tl.store(out + i[:, None] * N + j, found)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint64, np.float32, np.float64])
def test_branches_and_broadcasting(dtype: Any) -> None:
    x, y = (RNG.integers(0, 9, n).astype(dtype) for n in (8, 32))
    *_, out = on_both(compares, x, y, np.zeros((8, 32), np.int32), M=8, N=32)
    a, b = x[:, None], y[None, :]
    np.testing.assert_array_equal(out, (a > b).astype(int) - (a < b))


def test_nan_takes_the_last_branch() -> None:
    x = np.array([np.nan, np.inf], np.float32)
    *_, out = on_both(compares, x, np.zeros(1, np.float32), np.zeros((2, 1), np.int32), M=2, N=1)
    assert out.ravel().tolist() == [1, 1]


@triton.jit
def steps(x, p):
    n = 0
    while x > 1:
        if x % 2 == 0:  # noqa: SIM108 - a branch is what is tested
            x = x // 2
        else:
            x = 3 * x + 1
        n += 1
    s = 0
    for i in range(n, 0, -2):
        s += i
    for i in range(3):
        s += i
    if n > 20:
        tl.store(p + n, n)
        s += tl.load(p + n)
        tl.atomic_add(p, 1)
    return n, s


@triton.jit
def walks(x, p, out, N: tl.constexpr):
    i = tl.arange(0, N)
    n, s = tl.map_elementwise(steps, tl.load(x + i), p)
    tl.store(out + i, n)
    tl.store(out + N + i, s)


def test_loops_end_element_by_element_and_memory_is_touched_where_taken() -> None:
    x = RNG.integers(1, 100, 64).astype(np.int32)
    _, p, out, *_ = on_both(walks, x, np.zeros(200, np.int32), np.zeros((2, 64), np.int32), N=64)

    def model(v: int) -> int:
        n = 0
        while v > 1:
            v, n = (v // 2 if v % 2 == 0 else 3 * v + 1), n + 1
        return n

    n = np.array([model(int(v)) for v in x])
    sums = np.array([sum(range(k, 0, -2)) + 3 + (k if k > 20 else 0) for k in n])
    np.testing.assert_array_equal(out, [n, sums])
    wanted = np.zeros(200, np.int32)
    wanted[n[n > 20]] = n[n > 20]
    wanted[0] = (n > 20).sum()
    np.testing.assert_array_equal(p, wanted)


@triton.jit
def four(a0, a1, a2, a3, b0, b1, b2, b3):
    return a0 + b3, a1 + b2, a2 + b1, a3 + b0, a0 * 1.5, a1 * 1.5, a2 * 1.5, a3 * 1.5


@triton.jit
def two(a0, a1):
    return a1, a0


@triton.jit
def packs(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    c, d = tl.map_elementwise(four, a, b, pack=4)
    tl.store(out + i, c)
    tl.store(out + N + i, d)
    (e,) = tl.map_elementwise(two, a, pack=2)
    tl.store(out + 2 * N + i, e)


@pytest.mark.parametrize("n", [4, 8, 128])
def test_packs_are_neighbours(n: int) -> None:
    x, y = (RNG.integers(0, 99, n).astype(np.int32) for _ in range(2))
    *_, out = on_both(packs, x, y, np.zeros((3, n), np.float32), N=n)
    np.testing.assert_array_equal(out[0], (x.reshape(-1, 4) + y.reshape(-1, 4)[:, ::-1]).ravel())
    np.testing.assert_array_equal(out[1], x * 1.5)
    np.testing.assert_array_equal(out[2], x.reshape(-1, 2)[:, ::-1].ravel())


@triton.jit
def scalars(out, n):
    tl.store(out, tl.map_elementwise(compare, n, 3))


def test_scalars_are_mapped_too() -> None:
    out, _ = on_both(scalars, np.zeros(1, np.int32), 7)
    assert out[0] == 1


@triton.jit
def ranges(x):
    return tl.sum(tl.arange(0, 4)) + x


@triton.jit
def nothing(x):
    pass


@triton.jit
def mixed(a, b):
    return a, b.to(tl.float32)


@triton.jit
def shows(x):
    if x > 2:
        tl.device_print("x", x)
    return x


@triton.jit
def refused(F: tl.constexpr, pack: tl.constexpr):
    tl.map_elementwise(F, tl.arange(0, 8), pack=pack)


@pytest.mark.parametrize(
    ("function", "pack", "said"),
    [
        (ranges, 1, "must work on scalars, without arange"),
        (nothing, 1, "NoneType"),
        (mixed, 2, "must have one dtype, but have int32, fp32"),
        (shows, 1, "without print under a condition that differs by element"),
        (shows, 3, "pack must be a power of 2, but got 3"),
        (shows, 16, "pack must divide the last extent, but got 16"),
        (compare, 1, r"compare\(\) missing 1 required argument: 'y'"),
    ],
)
def test_what_cannot_be_mapped_is_named(function: Any, pack: int, said: str) -> None:
    with pytest.raises(triton.CompilationError, match=said):
        refused[(1,)](function, pack)
