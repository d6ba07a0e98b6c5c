"""Pointers in conditions: true where they point to something, as in Triton."""

from __future__ import annotations

import numpy as np
import pytest

from emu import triton
from emu.triton import language as tl


@triton.jit
def joins(x, out, n, KNOWN: tl.constexpr):
    null = tl.full((), 0, tl.int64).to(tl.pointer_type(tl.int32))
    found = 0
    if KNOWN > 1 and x and n > 2:
        found += 1
    if null or n > 2:
        found += 2
    if not null and not (not x):
        found += 4
    tl.store(out, found)


@pytest.mark.parametrize(("known", "n", "expected"), [(2, 3, 7), (1, 3, 6), (2, 2, 4)])
def test_a_pointer_is_a_condition(known: int, n: int, expected: int) -> None:
    x, out = np.zeros(4, np.int32), np.zeros(1, np.int32)
    joins[(1,)](x, out, n, known)
    assert out[0] == expected
