"""``static_assert`` in Python functions that are written for Triton."""

from __future__ import annotations

import numpy as np

from emu import triton
from emu.triton import language as tl
from emu.triton.language.core import extern


@extern
def asserts(x, _semantic=None):
    tl.static_assert(x.dtype == tl.uint64, "never looked at", _semantic=_semantic)
    return tl.cast(x, tl.int64, _semantic=_semantic)


@triton.jit
def kernel(x):
    tl.store(x, asserts(tl.load(x) + 1))


def test_it_checks_nothing_there_as_in_triton() -> None:
    x = np.zeros(1, np.int32)
    kernel[(1,)](x)
    assert x[0] == 1
