"""Iterators of loops."""

from __future__ import annotations

import pytest
from language_harness import value

import emu.triton.language as tl


def test_loops_keep_their_bounds() -> None:
    r = tl.static_range(10)
    assert (r.start.value, r.end.value, r.step.value) == (0, 10, 1)
    r = tl.static_range(tl.constexpr(2), 10, 4)
    assert (r.start.value, r.end.value, r.step.value) == (2, 10, 4)
    n = value("int32")
    loop = tl.range(1, n, num_stages=tl.constexpr(3), warp_specialize=True)
    assert loop.start == 1
    assert loop.end is n
    assert (loop.step.value, loop.num_stages, loop.warp_specialize) == (1, 3, True)
    assert tl.condition(n).condition is n
    with pytest.raises(TypeError, match="arg1 of static_range must be known at compile time"):
        tl.static_range(n)
    for made in (r, loop):
        with pytest.raises(RuntimeError, match="can only be looped over in functions decorated"):
            iter(made)
