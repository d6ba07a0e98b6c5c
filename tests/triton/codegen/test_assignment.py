"""Assignments to names and tuples of names."""

import numpy as np
from triton_kernels import ints

from emu.triton import language as tl
from emu.triton.source import JITCallable as jit


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
