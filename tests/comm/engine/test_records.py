"""Slices of a reduction: as compiled code cuts them."""

from __future__ import annotations

import numpy as np
import pytest

from emu.comm.engine.records import REDUCTION, share_of, words
from emu.comm.engine.steps import slice_of


@pytest.mark.parametrize("seed", range(10))
def test_a_share_is_the_slice_that_compiled_code_cuts(seed: int) -> None:
    draw = np.random.default_rng(seed)
    plan = np.zeros(1, words(*REDUCTION))
    for _ in range(20):
        n_pes, count = int(draw.integers(1, 9)), int(draw.integers(0, 400))
        size = int(2 ** draw.integers(0, 4))
        plan["n_pes"], plan["count"], plan["itemsize"] = n_pes, count, size
        plan["total"], plan["sliced"] = 3 * count, 1
        record = plan.view(np.recarray)[0]
        for member in range(n_pes):
            assert share_of(count, n_pes, size, member) == tuple(slice_of(record, member, 1))
