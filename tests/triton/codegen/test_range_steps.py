"""Steps of Python's ``range`` in kernels."""

from __future__ import annotations

import numpy as np
import pytest

from emu import triton
from emu.triton import language as tl


@triton.jit
def steps_by_keyword(out, STEP: tl.constexpr):
    total = 0
    for i in range(2, 6, step=STEP):
        total += i
    tl.store(out, total)


def test_a_step_by_keyword_is_taken_where_it_is_what_triton_takes_it_for() -> None:
    out = np.zeros(1, np.int32)
    steps_by_keyword[(1,)](out, 1)
    assert out[0] == 14
    with pytest.raises(triton.CompilationError, match="Triton ignores the keyword, but got step=2"):
        steps_by_keyword[(1,)](out, 2)
